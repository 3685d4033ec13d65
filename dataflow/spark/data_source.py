"""The Spark data source of a stage: the messages that stage 0 sends to it, one physical batch per micro-batch.

Offsets count batches. Batch 0 has no rows: it wakes up the first shard of each stage, which emits the part of the
answer that precedes all input, and it pays for the first start of every process. Each stage that inputs enter has a
source of its own. Since every source hands out one batch per micro-batch, all of them are always at the same batch.

Spark starts a process for each source, and more of them to plan with it. They import this module, which therefore
imports the engine (0.4 s) only in tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from deltamark.dataflow.spark.messages import MESSAGE_SCHEMA, SourcePartition, SourceSpec

SPEC_OPTION = "spec"

MIN_TASK_ROWS = 100_000
"""The least number of rows for which a batch is read by another task, up to a task per shard.

A task costs about as much as reading this number of rows: batches of 100,000 rows of q03 take 0.53 s instead of 0.60 s
if one task reads them, not two.
"""

MAX_PIECE_ROWS = 250_000
"""The rows that a task reads at once, which bounds the size of a message. Not measured."""


class DeltaSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "deltamark"

    def schema(self) -> str:
        return MESSAGE_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 (Spark's name)
        return DeltaReader(self.options[SPEC_OPTION])


class DeltaReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Divides batches among tasks, and reads the share of a task."""

    def __init__(self, spec: str) -> None:
        self._spec_text = spec

    @property
    def _spec(self) -> SourceSpec:
        return SourceSpec.from_text(self._spec_text)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxFiles(1)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do nothing: the number of batches is fixed."""

    def latestOffset(self, start: Mapping[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        return {"batch": min(start["batch"] + 1, 1 + self._spec.inputs.batches)}

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> list[InputPartition]:
        return [task for batch in range(start["batch"], end["batch"]) for task in self._tasks(batch)]

    def _tasks(self, batch: int) -> list[InputPartition]:
        rows = self._spec.inputs.rows(batch - 1) if batch else 0
        tasks = min(max(rows // MIN_TASK_ROWS, 1), self._spec.shards)
        pieces = tasks * max(ceil(rows / (tasks * MAX_PIECE_ROWS)), 1)
        return [SourcePartition(batch, range(task, pieces, tasks), pieces) for task in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from deltamark.dataflow.spark.stage_zero import read  # noqa: PLC0415 (planning needs no engine)

        assert isinstance(partition, SourcePartition)
        yield from read(self._spec_text, partition)

    def commit(self, end: Mapping[str, int]) -> None:
        """Do nothing: every batch can be read again."""

    def stop(self) -> None:
        """Do nothing: the reader holds no resources."""
