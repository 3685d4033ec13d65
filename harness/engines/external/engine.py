"""Engines that are programs: the harness hands them batches as files, and takes their changes or answers as files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.sql.problems import SeveralSqlError, SqlError
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta, last_time
from deltamark.datagen.schema import Relation
from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.engines.answers import SqlRows
from deltamark.harness.engines.base import (
    AnswerEngine,
    Capabilities,
    FedEngine,
    Output,
    RefusedError,
    Row,
    Sink,
    StreamEngine,
    feed_of,
)
from deltamark.harness.engines.external import named
from deltamark.harness.engines.external.columns import (
    DIFF,
    TIME,
    answer_in,
    changes_in,
    described_columns,
    input_columns,
    selected_columns,
    stored_columns,
    stored_in,
)
from deltamark.harness.engines.external.messages import (
    Answer,
    Apply,
    ApplyAllReply,
    ApplyReply,
    Changes,
    Columns,
    Feed,
    Open,
    RelationColumns,
    Reply,
    Request,
    State,
    StateReply,
)
from deltamark.harness.engines.plans import plan_of, sql_inputs
from deltamark.harness.system import resources

COLLECTED_CHANGES = 1 << 15
"""The number of changes at which a checked run reads them. Not tuned."""


@dataclass(frozen=True)
class PreparedBatch:
    """Batches whose rows are in files. time: their last logical time."""

    time: int
    files: dict[str, str]
    batches: int = 1


class ExternalEngine(FedEngine[PreparedBatch]):
    """The part that all external engines share. columns: those that the program must return."""

    columns: Columns

    def __init__(self, cell: Cell, dataset: Dataset, work: Workload, sink: Sink | None = None) -> None:
        self._cell, self._work, self._sink = cell, work, sink
        self._inputs = sql_inputs(cell)
        self.feed = feed_of(cell, work, self._inputs)
        self._rows = SqlRows(dataset)
        self._taken = self._counted = 0
        """The number of batches, and of the changes since the last file, or of the rows of the answer."""
        self._read_until = -1
        """The last logical time of the changes that were read."""
        self.columns = self._columns()
        self._program = named.acquire(cell.engine)
        resources.reset_peak(self._program.process)
        self.memory = resources.MemoryUse(self._program.process)
        try:
            self._open()
        except RefusedError:
            named.leave(cell.engine, self._program)
            raise
        except BaseException:
            named.discard(cell.engine, self._program)
            raise

    def _open(self) -> None:
        request = Open(
            query=self._cell.query, sql=named.translated(self._cell.engine, self._cell.text),
            parameters=dict(self._cell.parameters),
            workload=self._cell.workload, deletions=self._work.retracts,
            logical=self._cell.logical, workers=self._cell.workers,
            collect=self._sink is not None, directory=str(self._program.files.path),
            relations={
                name: self._columns_of(self._work.dataset.relations[name], each) for name, each in self._inputs.items()
            },
            answer=self.columns,
        )  # fmt: skip
        self.recomputes_query = not self._program.open(request).maintains

    def _columns_of(self, relation: Relation, names: tuple[str, ...]) -> RelationColumns:
        columns = [relation.column(name) for name in names]
        nullable = [relation.prefix + column.name for column in columns if column.nullable]
        key = self._work.key(relation.name) if set(relation.key) <= set(names) else ()
        keys = [[relation.prefix + name for name in key]] if key else []
        return RelationColumns(input_columns(relation, names), self._work.most_live(relation.name), nullable, keys)

    def _columns(self) -> Columns:
        """Return the columns of the answer; those that DuckDB names for a query that our SQL does not support."""
        try:
            return selected_columns(plan_of(self._cell, self._work).schema)
        except (SqlError, SeveralSqlError):
            return described_columns(self._cell.text, self._work.dataset.relations.values())

    def prepare(self, deltas: list[Delta]) -> PreparedBatch:
        return self._fed(deltas, last_time(self.feed.round, self._cell.logical))

    def _fed(self, deltas: list[Delta], time: int, ends: list[int] | None = None) -> PreparedBatch:
        """Hand rows to the program. time, ends: the last time of all, and those of several batches."""
        self._taken += 1
        files: dict[str, str] = {delta.relation: f"{self._taken}-{delta.relation}.arrow" for delta in deltas}
        request = Feed(self._taken, time, files, ends)
        with self._program.failures(request):
            for delta in deltas:
                self._write(files[delta.relation], delta)
        self._program.request(request, Reply)
        self.untimed_seconds = self._program.request_seconds
        return PreparedBatch(time, files, len(ends or [time]))

    @property
    def takes_several(self) -> bool:
        return self._program.greeting.several and self._sink is None

    def take_several(self, physical: int, batches: int) -> list[int]:
        taken = self.feed.take_several(physical, batches)
        if taken.rows:
            last = last_time(self.feed.round, self._cell.logical)
            self.batch = self._fed(taken.deltas, last, taken.ends.tolist())
        return taken.rows

    def _write(self, file: str, delta: Delta) -> None:
        rows = self._rows.batch(delta)
        named = dict(zip(rows.schema.names, rows.columns, strict=True))
        self._program.files.write(file, pa.RecordBatch.from_pydict({TIME: delta.time, DIFF: delta.diff, **named}))

    def apply(self) -> int:
        request = Apply()
        reply = self._program.request(request, ApplyReply)
        self.own_seconds = reply.seconds
        if reply.seconds is not None:
            self._check_seconds(request, [reply.seconds])
        self._remove_files()
        self._applied(reply.changes)
        return reply.changes

    def apply_several(self) -> list[tuple[int, float]]:
        request = Apply()
        reply = self._program.request(request, ApplyAllReply)
        counts = {self.batch.batches, len(reply.changes), len(reply.seconds)}
        if len(counts) > 1:
            problem = f"{len(reply.changes)} changes and {len(reply.seconds)} seconds for {self.batch.batches} batches"
            raise self._program.failed(request, problem)
        self._check_seconds(request, reply.seconds)
        self._remove_files()
        for changes in reply.changes:
            self._applied(changes)
        return list(zip(reply.changes, reply.seconds, strict=True))

    def _check_seconds(self, request: Request, seconds: list[float]) -> None:
        if min(seconds) < 0 or sum(seconds) > self._program.request_seconds:
            problem = f"it reports {sum(seconds)} s, and the harness saw {self._program.request_seconds:.9f} s"
            raise self._program.failed(request, problem)

    def _remove_files(self) -> None:
        for file in self.batch.files.values():
            self._program.files.remove(file)

    def _applied(self, changes: int) -> None:
        """Take notice of the changes of a batch, or of the rows of the answer after it."""
        self._counted = changes

    def _file(self, request: Request) -> pa.Table:
        """Return a file with as many rows as the program has counted; one that counted others did not compute them."""
        table = self._program.file(request)
        if self._taken and table.num_rows != self._counted:  # before the first batch nothing is counted
            problem = f"the file has {table.num_rows} rows, and the program counted {self._counted}"
            raise self._program.failed(request, problem)
        return table

    def state_rows(self) -> int:
        return self._program.request(State(), StateReply).rows

    def close(self) -> None:
        named.release(self._cell.engine, self._program)


class ExternalChanges(ExternalEngine):
    """A program with changes. A checked run passes them to the sink when there are many, and at its end."""

    name = "exec:PROGRAM with changes of batches"
    capabilities = Capabilities(output="batches")

    def _applied(self, changes: int) -> None:
        self._counted += changes
        if self._sink is not None and self._counted >= COLLECTED_CHANGES:
            self.finish()

    def finish(self) -> None:
        if self._sink is None:
            return
        request = Changes()
        table = self._file(request)
        with self._program.failures(request):
            changes = self._converted(changes_in(table, self.columns, self._read_until, self.batch.time))
        self._sink(changes)
        self._counted, self._read_until = 0, self.batch.time

    def _converted(self, changes: pa.Table) -> Batch | pa.Table:
        return changes


class ExternalStream(ExternalChanges, StreamEngine):
    """A program with changes at logical times."""

    name = "exec:PROGRAM with a stream"
    capabilities = Capabilities(output="stream")

    def _columns(self) -> Columns:
        self.schema = plan_of(self._cell, self._work).schema
        return stored_columns(self.schema)

    def _converted(self, changes: pa.Table) -> Batch:
        return stored_in(changes, self.schema)

    def changes(self, rounds: int) -> Iterator[Batch]:
        collected: list[Batch] = []
        self._sink = partial(_collect, collected)
        self.feed = feed_of(self._cell, self._work, self._inputs, rounds)
        while not self.feed.done:
            if self.take(self._cell.physical):
                self.apply()
            yield from collected
            collected.clear()
        self.finish()
        yield from collected


class ExternalAnswers(ExternalEngine, AnswerEngine):
    """A program with whole answers."""

    name = "exec:PROGRAM with answers"
    capabilities = Capabilities(output="answers")

    def answer(self) -> list[Row]:
        request = Answer()
        table = self._file(request)
        with self._program.failures(request):
            columns = answer_in(table, self.columns).columns
            return list(zip(*(column.to_pylist() for column in columns), strict=True))


def _collect(collected: list[Batch], changes: Batch | pa.Table) -> None:
    assert isinstance(changes, Batch)
    collected.append(changes)


CLASSES: dict[Output, type[ExternalEngine]] = {
    "stream": ExternalStream, "batches": ExternalChanges, "answers": ExternalAnswers,
}  # fmt: skip
