"""The change stream of a cell, up to a number of rounds or a logical time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from deltamark.dataflow.batch import Batch, concatenated
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import Schema
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import last_time
from deltamark.datagen.schema import TIMES_PER_ROUND
from deltamark.datagen.workloads.workload import Workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.engines.base import CountReport, StreamEngine
from deltamark.harness.engines.registry import open_stream

DIGESTED_ROWS = 1 << 15
"""The number of changes that are digested at once, at least. Not tuned."""

DIFFS = "diffs"
"""The input of the plan that sums the differences of a variant."""


@dataclass(frozen=True)
class End:
    """The end of a stream: a number of rounds, and the last logical time."""

    rounds: int
    time: int


def end_of(work: Workload, logical: int, rounds: int | None, time: int | None) -> End:
    """Return the end at a time, after a number of rounds, or of the whole workload."""
    return end_after_rounds(work, logical, rounds) if time is None else end_at_time(work, logical, time)


def end_after_rounds(work: Workload, logical: int, rounds: int | None = None) -> End:
    """Return the end after a number of rounds; by default, after all."""
    last = work.rounds if rounds is None else work.check_end(rounds, logical)
    return End(last, max(last_time(last, logical), 0))


def end_at_time(work: Workload, logical: int, time: int) -> End:
    """Return the end at a logical time."""
    last = last_time(work.rounds, logical)
    if not 0 <= time <= last:
        raise DeltamarkError("no such time in this stream", time, f"ask for one from 0 to {last}")
    return End(min((time // TIMES_PER_ROUND + 1) * logical, work.rounds), time)


def no_report(_done: int, _total: int) -> None:
    """Report no progress."""


@dataclass(frozen=True)
class AnswerStream:
    """The changes of an answer: those of an engine, summed if the variant of the cell emits differences."""

    engine: StreamEngine
    sums: Dataflow[Batch] | None

    @property
    def schema(self) -> Schema:
        return self.sums.schema if self.sums else self.engine.schema

    def changes(self, end: End, report: CountReport = no_report) -> Iterator[Batch]:
        for each in changes(self.engine, end, report):
            yield self.sums.feed({DIFFS: each}) if self.sums else each

    def close(self) -> None:
        self.engine.close()
        if self.sums is not None:
            self.sums.close()


def open_answer(cell: Cell, dataset: Dataset, work: Workload) -> AnswerStream:
    """Open the engine of a cell to read the changes of the answer, in any variant."""
    engine = open_stream(cell, dataset, work)
    return AnswerStream(engine, open_sums(cell, engine.schema))


def open_sums(cell: Cell, schema: Schema) -> Dataflow[Batch] | None:
    """Open the dataflow that sums the differences of a variant; None if the variant emits changes of the answer."""
    sums = cell.definition.accumulated.get(cell.variant)
    if sums is None:
        return None
    columns = {field.name: field.type for field in schema.fields}
    return Dataflow(sums(source(DIFFS, columns, schema.rows)))


def changes(engine: StreamEngine, end: End, report: CountReport = no_report) -> Iterator[Batch]:
    """Run an engine to an end; yield the changes that it emits."""
    for batch in engine.changes(end.rounds, report):
        kept = int(np.searchsorted(batch.time, end.time, side="right"))
        if kept == len(batch.time):
            yield batch
        else:
            columns = {name: each[:kept] for name, each in batch.columns.items()}
            yield Batch(batch.time[:kept], batch.diff[:kept], columns)


def gathered(stream: Iterator[Batch], rows: int) -> Iterator[Batch]:
    """Join small batches until they have a number of rows."""
    waiting: list[Batch] = []
    waiting_rows = 0
    for each in stream:
        if len(each.time):
            waiting.append(each)
            waiting_rows += len(each.time)
        if waiting_rows >= rows:
            yield concatenated(waiting)
            waiting, waiting_rows = [], 0
    if waiting:
        yield concatenated(waiting)
