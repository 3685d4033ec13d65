"""A dataflow as one Structured Streaming query over an `InputSource`, in a directory of its own.

The directory of a query: its identity, Spark's checkpoint, and the changes of the answer.

The directory may be on any of Hadoop's file systems, which are reached through Spark's JVM.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.spark.chain import chained, identity_of
from deltamark.dataflow.spark.checkpoint import ShardState, stored_state
from deltamark.dataflow.spark.data_source import SPEC_OPTION, DeltaSource
from deltamark.dataflow.spark.directory import Directory
from deltamark.dataflow.spark.failures import MAX_SLOW_STARTS, SLOW_START, explained
from deltamark.dataflow.spark.messages import InputSource, SourceSpec
from deltamark.dataflow.spark.rescale import rescaled
from deltamark.dataflow.spark.sink import from_stored
from deltamark.dataflow.spark.state_log import refuse_another
from deltamark.errors import DeltamarkError

IDENTITY_FILE, CHECKPOINT, CHANGES = "identity.json", "checkpoint", "changes"

RENAMING_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""The checkpoint manager that renames files itself; on a local disk, Spark's default starts a process for each file."""


class QueryDirectory(Directory):
    """The directory of one query, which may be continued only with the same plan, inputs and code."""

    @property
    def settings(self) -> dict[str, str]:
        """The settings of Spark that suit the file system of the directory."""
        return {"spark.sql.streaming.checkpointFileManagerClass": RENAMING_MANAGER} if self.is_local else {}

    def claim(self, identity: Mapping[str, str]) -> None:
        """Record the identity of the query in a new directory; refuse a directory of another query."""
        if self.exists(IDENTITY_FILE):
            refuse_another(self._identity(), identity, self.path())
            return
        if self.names():
            raise DeltamarkError("not the directory of a query", self.path(), "give an empty directory or a new one")
        self.write(IDENTITY_FILE, json.dumps(dict(identity), indent=1))

    def _identity(self) -> dict[str, str]:
        try:
            return dict(json.loads(self.read(IDENTITY_FILE)))
        except (ValueError, TypeError, Py4JJavaError) as error:
            reason = error.java_exception if isinstance(error, Py4JJavaError) else error
            actual, remedy = f"{self.path(IDENTITY_FILE)}: {reason}", f"remove {self.path()} and start again"
            raise DeltamarkError("a corrupt checkpoint", actual, remedy) from error


SETTINGS = {
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
    "spark.sql.session.timeZone": "UTC",
}
"""The settings of a query that is measured, besides those of `chain.py`."""

CHANGE_COUNT = "changes"
"""The name of the metric that counts the changes of the answer in a batch."""

POLL_INTERVAL_S = 0.03
"""The pause between two looks for completed batches. Each takes about a millisecond of processor time."""


@dataclass(frozen=True)
class CompletedBatch:
    """The number of a completed batch, the number of changes of the answer, and Spark's progress report."""

    number: int
    changes: int
    report: dict[str, Any]


class SparkQuery:
    """A dataflow that Spark maintains in a directory of its own; a new query in it continues the old one.

    The new query may have another number of shards: then the stored state is dealt to these first.
    """

    def __init__(
        self, spark: SparkSession, collection: Collection, inputs: InputSource, *, shards: int, directory: str
    ) -> None:
        self.schema = collection.schema
        self._spark, self._directory = spark, QueryDirectory(spark, directory)
        self._directory.claim({**inputs.identity, **identity_of(collection)})
        for name, value in {**SETTINGS, **self._directory.settings}.items():
            spark.conf.set(name, value)
        self._stages = rescaled(spark, collection, shards, self._directory.path(CHECKPOINT))
        self._answer = self._answer_of(inputs)
        self._slow_starts = 0
        self._query = self._start()

    @property
    def stages(self) -> int:
        """The number of stages, not counting stage 0."""
        return len(self._stages)

    def _answer_of(self, inputs: InputSource) -> DataFrame:
        """Return the streaming frame of the answer's changes."""
        self._spark.dataSource.register(DeltaSource)
        source = self._spark.readStream.format(DeltaSource.name())
        entering = {
            stage.number: source.option(SPEC_OPTION, SourceSpec(stage.to_text(), stage.shards, inputs).to_text()).load()
            for stage in self._stages
            if stage.plan.entering(stage.number)
        }
        return chained(self._stages, entering).observe(CHANGE_COUNT, f.count(f.lit(1)).alias(CHANGE_COUNT))

    def _start(self) -> StreamingQuery:
        return (
            self._answer.writeStream.format("parquet")
            .option("path", self._directory.path(CHANGES))
            .option("checkpointLocation", self._directory.path(CHECKPOINT))
            .outputMode("append")
            .trigger(availableNow=True)
            .start()
        )

    def progress(self) -> Iterator[CompletedBatch]:
        """Yield each batch when it is completed, until the query ends."""
        last, seen = -1, 0
        while True:
            is_active = self._query.isActive
            reports = self._query._jsq.recentProgress()  # noqa: SLF001 (the public property parses all of them each time)
            for position in range(seen, len(reports)):
                report = json.loads(reports[position].json())
                if report["batchId"] > last and "addBatch" in report["durationMs"]:
                    last = report["batchId"]
                    yield CompletedBatch(last, int(report["observedMetrics"][CHANGE_COUNT][CHANGE_COUNT]), report)
            seen = len(reports)
            if is_active:
                time.sleep(POLL_INTERVAL_S)
            elif self._has_ended():
                break
            else:
                seen = 0

    def wait(self) -> None:
        """Wait until the query ends."""
        while not self._has_ended():
            pass

    def _has_ended(self) -> bool:
        """Wait until Spark's query ends. Return False if it has been started again, because Python started slowly."""
        try:
            self._query.awaitTermination()
        except PySparkException as error:
            if SLOW_START not in str(error) or self._slow_starts == MAX_SLOW_STARTS:
                raise explained(error) from error
            self._slow_starts += 1
            self._query = self._start()
            return False
        return True

    def stop(self) -> None:
        self._query.stop()

    def state(self) -> list[ShardState]:
        """Read the stored state of all shards after the last completed batch, in the order of stages and shards."""
        return stored_state(self._spark, self._directory.path(CHECKPOINT))

    def changes(self) -> Batch:
        """Read all stored changes of the answer, in the order of time."""
        changes = self._spark.read.schema(self._answer.schema).parquet(self._directory.path(CHANGES))
        return from_stored(self.schema, changes.toArrow())
