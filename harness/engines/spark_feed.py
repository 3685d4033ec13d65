"""The workload of a cell as Spark reads it: each executor opens the data and cuts its share of a batch for itself.

The Spark session of this process, which stays open for the next query on the same master.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Feed
from deltamark.datagen.spark.session import QUICK, session
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltamark.dataflow.batch import Batch


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


@dataclass(frozen=True)
class FeedSource:
    """A workload in physical batches of one size."""

    directory: str
    digest: str
    workload: str
    logical: int
    physical: int
    rounds: int
    names: tuple[str, ...]

    @property
    def batch_rounds(self) -> int:
        return self.logical * self.physical

    @property
    def batches(self) -> int:
        return -(-self.rounds // self.batch_rounds)

    @property
    def identity(self) -> Mapping[str, str]:
        return {
            "data": self.digest, "workload": self.workload, "rounds": str(self.rounds),
            "logical batch": str(self.logical), "physical batch": str(self.physical),
        }  # fmt: skip

    def rows(self, batch: int) -> int:
        first, last = batch * self.batch_rounds, min((batch + 1) * self.batch_rounds, self.rounds)
        work = opened(self.directory, self.workload)
        return sum(len(piece.rows) for name in self.names for piece in work.pieces(name, first, last))

    def open(self, wanted: Mapping[str, tuple[str, ...]]) -> ShareReader:
        return ShareReader(self, wanted)


@cache
def opened(directory: str, name: str) -> Workload:
    """Open the data of a workload, once in each process."""
    return workload(Dataset.open(Path(directory)), name)


class ShareReader:
    """Reads shares of batches in an executor. It keeps the feed of each share."""

    def __init__(self, source: FeedSource, wanted: Mapping[str, tuple[str, ...]]) -> None:
        self._source = source
        self._columns = wanted
        self._feed = cache(self._open_feed)

    def _open_feed(self, piece: int, pieces: int) -> Feed:
        source = self._source
        return Feed(
            opened(source.directory, source.workload), self._columns, logical=source.logical, worker=piece,
            workers=pieces, until=source.rounds,
        )  # fmt: skip

    def take(self, batch: int, piece: int, pieces: int) -> Mapping[str, Batch]:
        from deltamark.harness.engines.inputs import batches  # noqa: PLC0415 (planning with a source needs no engine)

        feed = self._feed(piece, pieces)
        feed.round = batch * self._source.batch_rounds
        return batches(feed.take(self._source.physical))
