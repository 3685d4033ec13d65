"""A dataflow as one Structured Streaming query: a chain of stages, each fed by the one before and by its own source.

It is a chain and no graph: a streaming frame that two others use is computed twice, with its state.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.spark.checkpoint import CHANGES, CHECKPOINT, Directory, code_digest
from deltamark.dataflow.spark.ingest.source import FORMAT, SCHEMA, SPEC, Mails, Spec
from deltamark.dataflow.spark.ingest.stage_zero import Source, read_for
from deltamark.dataflow.spark.planning.stage_planner import cut
from deltamark.dataflow.spark.sink import handed_types, stored, values
from deltamark.dataflow.spark.stage import Part, Stage
from deltamark.errors import DeltamarkError

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.session.timeZone": "UTC",
}
"""What a session needs, beside as many spark.sql.shuffle.partitions as there are shards."""

OBSERVED = "changes"
UNREADABLE = r"Checksum|[Mm]alformed|JsonParse|JsonMapping|CANNOT_LOAD_STATE_STORE|log (file|version)|EOFException"
"""What Spark says where it cannot read a checkpoint."""

POLL = 0.01
"""Seconds between looks for what is done."""


@dataclass(frozen=True)
class Progress:
    """A batch that is done: its number, how many changes it made of the answer, and Spark's report."""

    batch: int
    changes: int
    report: dict[str, Any]


class Query:
    """A dataflow that Spark maintains, in a directory of its own: the same one goes on where it stopped."""

    def __init__(
        self, spark: SparkSession, collection: Collection, source: Source, *, shards: int, directory: str
    ) -> None:
        self.schema = collection.schema
        self._spark, self._directory = spark, Directory(spark, directory)
        self._plan = cut(collection, shards)
        self._directory.claim({
            **source.identity, "shards": str(shards), "plan": collection.node.digest.hex(), "code": code_digest(),
        })  # fmt: skip
        settings = {**SETTINGS, **self._directory.settings, "spark.sql.shuffle.partitions": str(shards)}
        for name, value in settings.items():
            spark.conf.set(name, value)
        spark.dataSource.register(Mails)
        self._query = self._started(source, _labels(spark, shards))

    @property
    def stages(self) -> int:
        return len(self._plan.stages) - 1

    def _started(self, source: Source, labels: tuple[int, ...]) -> StreamingQuery:
        run = uuid.uuid4().hex
        frame: DataFrame | None = None
        for number in range(1, self.stages + 1):
            parts = [] if frame is None else [frame]
            if read_for(self._plan, number):
                spec = Spec(self._plan, number, labels, source)
                parts.append(self._spark.readStream.format(FORMAT).option(SPEC, spec.text).load())
            types = handed_types(self.schema) if number == self.stages else SCHEMA
            stage = Stage(Part(self._plan, number, labels, run))
            shards = reduce(DataFrame.union, parts).groupBy("label")
            frame = shards.transformWithStateInPandas(stage, types, "append", "none")
        assert frame is not None
        answer = frame.select(*values(self.schema)).observe(OBSERVED, f.count(f.lit(1)).alias(OBSERVED))
        self._stored = answer.schema
        return (
            answer.writeStream.format("parquet")
            .option("path", self._directory.under(CHANGES))
            .option("checkpointLocation", self._directory.under(CHECKPOINT))
            .outputMode("append")
            .trigger(availableNow=True)
            .start()
        )

    def progress(self) -> Iterator[Progress]:
        """Yield each batch when it is done, to the end."""
        told, seen = -1, 0
        while True:
            going = self._query.isActive
            made = self._query._jsq.recentProgress()  # noqa: SLF001 (without it all of them are read out each time)
            for at in range(seen, len(made)):
                report = json.loads(made[at].json())
                if report["batchId"] > told and "addBatch" in report["durationMs"]:
                    told = report["batchId"]
                    yield Progress(told, int(report["observedMetrics"][OBSERVED][OBSERVED]), report)
            seen = len(made)
            if not going:
                break
            time.sleep(POLL)
        self.wait()

    def wait(self) -> None:
        """Wait for the end."""
        try:
            self._query.awaitTermination()
        except PySparkException as error:
            raise _said(error) from error

    def stop(self) -> None:
        self._query.stop()

    def changes(self) -> Batch:
        """Read all changes of the answer that are there, in order of time."""
        changes = self._spark.read.schema(self._stored).parquet(self._directory.under(CHANGES))
        return stored(self.schema, changes.toArrow())


def _labels(spark: SparkSession, shards: int) -> tuple[int, ...]:
    """Choose a label for each shard that Spark's own hash deals to the partition of the shard's number."""
    many = 64 * shards + 1024
    row = spark.sql(f"SELECT transform(sequence(0L, {many}L), each -> pmod(hash(each), {shards})) AS dealt").first()
    assert row is not None
    return tuple(row["dealt"].index(shard) for shard in range(shards))


def _said(error: PySparkException) -> DeltamarkError:
    """Say why a query ended: what an executor said, if it was ours."""
    text = str(error)
    ours = re.findall(r"DeltamarkError: (.+?): (.+); (.+)", text)
    if ours:
        return DeltamarkError(*ours[-1])
    reasons = [line.strip() for line in text.splitlines() if re.search(r"(Error|Exception)\b", line)] or [text]
    if any(re.search(UNREADABLE, line) for line in reasons):
        return DeltamarkError("a corrupt checkpoint", reasons[-1], "remove its directory and start again")
    return DeltamarkError("the query has failed", reasons[-1], "see --debug for all that Spark says")
