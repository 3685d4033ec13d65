"""The Spark session of this process, which stays open for the next query on the same master."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from typing import TYPE_CHECKING

from deltamark.datagen.spark.session import QUICK, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_FAILURES = 4
"""The failures of a task on one executor after which it goes to another one, such as with a full disk; Spark's own
number of failures after which it gives up."""

SETTINGS = {
    "spark.driver.maxResultSize": "0",
    "spark.executor.cores": "1",
    "spark.excludeOnFailure.taskAndStage.enabled": "true",
    "spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor": str(MAX_FAILURES),
    "spark.excludeOnFailure.task.maxTaskAttemptsPerNode": str(MAX_FAILURES),
    "spark.task.maxFailures": str(2 * MAX_FAILURES),
}
"""The settings of a session: a shard stays in the Python process of its executor only if that has one core."""

EXECUTOR_MB = 1024
"""The memory of an executor of a local cluster, Spark's own default."""


class Sessions:
    """The open session, if any."""

    def __init__(self) -> None:
        self._master = ""
        self._spark: SparkSession | None = None
        self._open = ExitStack()
        atexit.register(self.close)

    def on(self, master: str, jvm: str = QUICK) -> SparkSession:
        """Return the session on a master. jvm: the options of a JVM that is started for it."""
        if self._spark is not None and master == self._master and _runs(self._spark):
            return self._spark
        self.close()
        self._spark, self._master = self._open.enter_context(session(master, SETTINGS, jvm)), master
        return self._spark

    def close(self) -> None:
        self._master = ""
        self._open.close()


SESSIONS = Sessions()


def _runs(spark: SparkSession) -> bool:
    return spark.sparkContext._jsc is not None  # noqa: SLF001 (pyspark has no other test)


def on_master(master: str, shards: int, jvm: str = QUICK) -> SparkSession:
    """Return a session; without a master, on a cluster of this machine with a single-core executor for each shard."""
    return SESSIONS.on(master or f"local-cluster[{shards},1,{EXECUTOR_MB}]", jvm)
