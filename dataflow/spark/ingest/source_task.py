"""The task of a source on an executor: it reads its share of a batch and sends it through stage 0."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from functools import cache

import pyarrow as pa

from deltamark.dataflow.spark.ingest.input_source import BatchReader
from deltamark.dataflow.spark.ingest.stage_zero import StageZero
from deltamark.dataflow.spark.messages import WAKE_UP, Message, SourcePartition, SourceSpec, StageSpec

ARROW_SCHEMA = pa.schema([
    ("label", pa.int64()), ("edge", pa.string()), ("batch", pa.int64()), ("content", pa.binary())
])  # fmt: skip
"""MESSAGE_SCHEMA in Arrow's types."""


def read(spec: str, partition: SourcePartition) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a task. spec: a `SourceSpec` as text."""
    labels, stage_zero, reader = _open(spec)
    batch = partition.batch
    for message in _messages(stage_zero, reader, partition) if batch else [Message(0, WAKE_UP, b"")]:
        yield as_arrow(message, labels, batch)


def as_arrow(message: Message, labels: Sequence[int], batch: int) -> pa.RecordBatch:
    """Return a message as a record batch of one row. labels: the key of each shard in Spark's shuffles."""
    row = labels[message.shard], message.edge, batch, message.content
    arrays = [pa.array([value], field.type) for value, field in zip(row, ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


@cache
def _open(spec_text: str) -> tuple[tuple[int, ...], StageZero, BatchReader]:
    spec = SourceSpec.from_text(spec_text)
    stage = StageSpec.from_text(spec.stage)
    stage_zero = StageZero(stage.plan.entering(stage.number), stage.shards)
    opened = stage.labels, stage_zero, spec.inputs.open(stage_zero.columns)
    for _ in stage_zero.process({}):  # compiles or loads the kernels
        pass
    gc.freeze()  # Spark collects garbage after every task, and would look at all modules each time
    return opened


def _messages(stage_zero: StageZero, reader: BatchReader, partition: SourcePartition) -> Iterator[Message]:
    for piece in partition.own_pieces:
        yield from stage_zero.process(reader.take(partition.batch - 1, piece, partition.pieces))
