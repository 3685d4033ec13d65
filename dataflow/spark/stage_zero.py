"""Stage 0: the stateless operators that filter and project the inputs where they are read, in the tasks of a source.

A task reads its share of a batch, and sends the results to the shards that own them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np
import pyarrow as pa

from deltamark.dataflow.batch import Batch, Column, trusted
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.exclusive import Exclusive
from deltamark.dataflow.runtime.live_plans import LivePlans
from deltamark.dataflow.spark.messages import (
    WAKE_UP,
    BatchReader,
    InputColumns,
    Message,
    SourcePartition,
    SourceSpec,
    StageSpec,
)
from deltamark.dataflow.spark.planning.staged_plan import ROW, StageOutput
from deltamark.dataflow.spark.wire import messages_for


class StageZero:
    """Computes some of the edges from stage 0."""

    def __init__(self, outputs: Sequence[StageOutput], shards: int) -> None:
        self._outputs, self._shards = outputs, shards
        plans = {output.edge.name: Collection(output.node) for output in self._outputs}
        self._plans = Exclusive("stage", LivePlans(plans))

    @property
    def columns(self) -> InputColumns:
        """The columns that are read of each input."""
        inputs = self._plans.use(lambda plans: plans.inputs)
        columns = {name: dict.fromkeys(names) for name, names in inputs.items()}
        for output in self._outputs:
            columns[output.input].update(dict.fromkeys(output.texts.values()))
        return {name: tuple(column for column in names if column != ROW) for name, names in columns.items()}

    def process(self, batches: Mapping[str, Batch]) -> Iterator[Message]:
        """Yield the messages that a piece of the inputs causes."""
        changes = self._plans.use(lambda plans: _fed(plans, batches))
        for output in self._outputs:
            computed = changes[output.edge.name]
            if len(computed.time):
                yield from messages_for(output.edge, _with_texts(output, computed, batches), shards=self._shards)

    def close(self) -> None:
        self._plans.close()


def _fed(plans: LivePlans, batches: Mapping[str, Batch]) -> dict[str, Batch]:
    """Feed the inputs that have rows; return the changes."""
    read = [name for name, batch in batches.items() if name in plans.inputs and len(batch.time)]
    return plans.feed({name: _columns_read(plans, name, batches[name]) for name in read})


def _columns_read(plans: LivePlans, name: str, batch: Batch) -> Batch:
    """Select the columns that the program reads, in its widths, and number the rows if the program reads ROW."""
    binding, columns = plans.worker.bindings[name], dict[str, Column]()
    for column in plans.inputs[name]:
        values = np.arange(len(batch.time)) if column == ROW else batch.columns[column]
        is_number = isinstance(values, np.ndarray)
        columns[column] = np.ascontiguousarray(values, f"i{binding.widths[column]}") if is_number else values
    return trusted(batch.time, batch.diff, columns, nullable=binding.nullable)


def _with_texts(output: StageOutput, changes: Batch, batches: Mapping[str, Batch]) -> Batch:
    """Fetch the texts of changes from the input by the row numbers that the program has passed on."""
    if not output.texts:
        return changes
    rows, texts = pa.array(changes.columns[ROW]), batches[output.input].columns
    columns = {**changes.columns, **{name: texts[origin].take(rows) for name, origin in output.texts.items()}}
    return Batch(changes.time, changes.diff, columns)


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
