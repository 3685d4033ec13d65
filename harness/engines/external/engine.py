"""Engines that are programs: the harness hands them batches as files, and takes their changes or answers as files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from msgspec import structs

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.sql.problems import SeveralSqlError, SqlError
from deltamark.dataflow.types import Schema
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta, last_time
from deltamark.datagen.schema import TIMES_PER_ROUND, Relation
from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.engines.answers import SqlRows
from deltamark.harness.engines.base import (
    AnswerEngine,
    AttachingEngine,
    Capabilities,
    FedEngine,
    Inputs,
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
    Attach,
    Changes,
    Columns,
    Feed,
    Open,
    RelationColumns,
    Reply,
    Request,
    Restore,
    SnapshotReply,
    State,
    StateReply,
    TakeSnapshot,
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


@dataclass(frozen=True)
class Restored:
    """The beginning of an engine that restores a snapshot.

    directory: that of the snapshot; until: the last logical time whose changes the harness has.
    """

    directory: Path
    until: int


@dataclass(frozen=True)
class _OpenQuery:
    """A query that is open in a program: its name, the columns of its output, and their receiver, if there is one."""

    name: str
    columns: Columns
    sink: Sink | None


class ExternalEngine(FedEngine[PreparedBatch], AttachingEngine):
    """The part that all external engines share. columns: those that the program must return."""

    columns: Columns
    ASKED: ClassVar[type[Changes | Answer]]
    """The request for the output of a query."""

    def __init__(  # noqa: PLR0913 (independent settings)
        self,
        cell: Cell,
        dataset: Dataset,
        work: Workload,
        sink: Sink | None = None,
        *,
        begin: Restored | None = None,
        coming: Sequence[Cell] = (),
    ) -> None:
        self._cell, self._work, self._sink = cell, work, sink
        self._coming = coming
        self._inputs = sql_inputs(cell, *coming)
        self.feed = feed_of(cell, work, self._inputs)
        self._rows = SqlRows(dataset)
        self._taken = self._counted = 0
        """The number of batches, and of the changes since the last file, or of the rows of the answer."""
        self._read_until = -1
        """The last logical time of the changes that were read."""
        self.schemas: dict[str, Schema] = {}
        """The columns of exact changes, by query."""
        self.columns = self._columns(cell)
        self._attached: list[_OpenQuery] = []
        self._program = named.acquire(cell.engine)
        resources.reset_peak(self._program.process)
        self.memory = resources.MemoryUse(self._program.process)
        try:
            self._open(begin)
        except RefusedError:
            named.leave(cell.engine, self._program)
            raise
        except BaseException:
            named.discard(cell.engine, self._program)
            raise

    def _open(self, begin: Restored | None) -> None:
        request = self._opening(self._cell, self._inputs, self.columns)
        if begin is None:
            self.recomputes_query = not self._program.open(request).maintains
            return
        restore = Restore(**structs.asdict(request), snapshot=str(begin.directory), until=begin.until)
        reply = self._program.restore(restore)
        self.recomputes_query = not reply.maintains
        if reply.time is None or reply.time > begin.until or (reply.time + 1) % TIMES_PER_ROUND:
            problem = f"it has the rows up to time {reply.time}, and the harness the changes up to {begin.until}"
            raise self._program.failed(restore, problem)
        self.feed.round = min((reply.time + 1) // TIMES_PER_ROUND * self._cell.logical, self._work.rounds)

    def _opening(self, cell: Cell, inputs: Inputs, columns: Columns) -> Open:
        """Return the request that opens a query."""
        relations = self._work.dataset.relations
        return Open(
            query=cell.query, sql=named.translated(cell.engine, cell.text), parameters=dict(cell.parameters),
            workload=cell.workload, deletions=self._work.retracts, logical=cell.logical, workers=cell.workers,
            collect=self._sink is not None, directory=str(self._program.files.path),
            relations={name: self._columns_of(relations[name], each) for name, each in inputs.items()},
            answer=columns, shared=bool(self._coming),
        )  # fmt: skip

    def _columns_of(self, relation: Relation, names: tuple[str, ...]) -> RelationColumns:
        columns = [relation.column(name) for name in names]
        nullable = [relation.prefix + column.name for column in columns if column.nullable]
        key = self._work.key(relation.name) if set(relation.key) <= set(names) else ()
        keys = [[relation.prefix + name for name in key]] if key else []
        return RelationColumns(input_columns(relation, names), self._work.most_live(relation.name), nullable, keys)

    def _columns(self, cell: Cell) -> Columns:
        """Return the columns of the answer; those that DuckDB names for a query that our SQL does not support."""
        try:
            return selected_columns(plan_of(cell, self._work).schema)
        except (SqlError, SeveralSqlError):
            return described_columns(cell.text, self._work.dataset.relations.values())

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

    def _files(self, *requests: Request) -> list[pa.Table]:
        """Return files with as many rows as the program has counted; one that counted others did not compute them."""
        tables = [self._program.file(request) for request in requests]
        rows = sum(table.num_rows for table in tables)
        if self._taken and rows != self._counted:  # before the first batch nothing is counted
            file = "the file has" if len(tables) == 1 else "the files have"
            problem = f"{file} {rows} rows, and the program counted {self._counted}"
            raise self._program.failed(requests[0], problem)
        return tables

    @property
    def _until(self) -> int:
        """The last logical time that was handed over."""
        return self.batch.time

    @classmethod
    def beside(
        cls, cell: Cell, coming: Sequence[Cell], dataset: Dataset, work: Workload, sink: Sink | None
    ) -> ExternalEngine:
        return cls(cell, dataset, work, sink, coming=coming)

    def attach(self, cell: Cell, sink: Sink | None) -> float:
        columns = self._columns(cell)
        opening = self._opening(cell, sql_inputs(cell), columns)
        self._counted += self._program.attach(Attach(**structs.asdict(opening))).changes
        self._attached.append(_OpenQuery(cell.query, columns, sink))
        return self._program.request_seconds

    def _hand_over(self) -> None:
        """Pass the output of each query to its sink. A request names its query only if there are several."""
        if self._sink is None or not self._taken:
            return
        queries = [_OpenQuery(self._cell.query, self.columns, self._sink), *self._attached]
        requests = [self.ASKED(each.name if self._attached else "") for each in queries]
        for query, request, file in zip(queries, requests, self._files(*requests), strict=True):
            with self._program.failures(request):
                handed = self._handed(file, query)
            if query.sink is not None:
                query.sink(handed)

    def _handed(self, file: pa.Table, query: _OpenQuery) -> Batch | pa.Table:
        """Return the changes of a query, whose output is in a file."""
        raise NotImplementedError

    def state_rows(self) -> int:
        return self._program.request(State(), StateReply).rows

    def take_snapshot(self, directory: Path) -> int:
        """Let the program write a snapshot into an empty directory; return its bytes."""
        request = TakeSnapshot(str(directory))
        claimed = self._program.request(request, SnapshotReply).bytes
        written = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
        if claimed > written:
            raise self._program.failed(request, f"it claims a snapshot of {claimed} bytes, and has written {written}")
        return written

    def kill(self) -> None:
        """Kill the program."""
        self._program.kill()

    def discard(self) -> None:
        """End the program after a failure or a kill."""
        named.discard(self._cell.engine, self._program)

    def close(self) -> None:
        named.release(self._cell.engine, self._program)


class ExternalChanges(ExternalEngine):
    """A program with changes. A checked run passes them to the sink when there are many, and at its end."""

    name = "exec:PROGRAM with changes of batches"
    capabilities = Capabilities(output="batches")
    ASKED = Changes

    def _applied(self, changes: int) -> None:
        self._counted += changes
        if self._sink is not None and self._counted >= COLLECTED_CHANGES:
            self.finish()

    def finish(self) -> None:
        self._hand_over()
        if self._taken:
            self._counted, self._read_until = 0, self._until

    def attach(self, cell: Cell, sink: Sink | None) -> float:
        self.finish()
        seconds = super().attach(cell, sink)
        if self._taken:
            self._read_until = self._until - 1  # the answer to the rows so far has the last time that was fed
        return seconds

    def _handed(self, file: pa.Table, query: _OpenQuery) -> Batch | pa.Table:
        return changes_in(file, query.columns, self._read_until, self._until)


class ExternalStream(ExternalChanges, StreamEngine):
    """A program with changes at logical times."""

    name = "exec:PROGRAM with a stream"
    capabilities = Capabilities(output="stream")

    def _columns(self, cell: Cell) -> Columns:
        schema = self.schemas[cell.query] = plan_of(cell, self._work).schema
        if cell is self._cell:
            self.schema = schema
        return stored_columns(schema)

    def _handed(self, file: pa.Table, query: _OpenQuery) -> Batch:
        return stored_in(super()._handed(file, query), self.schemas[query.name])

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
    ASKED = Answer

    def answer(self) -> list[Row]:
        request = Answer()
        (table,) = self._files(request)
        with self._program.failures(request):
            columns = answer_in(table, self.columns).columns
            return list(zip(*(column.to_pylist() for column in columns), strict=True))


class ExternalDifferences(ExternalAnswers):
    """A program with whole answers to several queries. Their changes are the differences of consecutive answers."""

    _before: Mapping[str, pa.Table] = {}
    """The last answer of each query."""

    def finish(self) -> None:
        self._hand_over()

    def _handed(self, file: pa.Table, query: _OpenQuery) -> pa.Table:
        answer = answer_in(file, query.columns)
        before, self._before = self._before.get(query.name), {**self._before, query.name: answer}
        parts = [self._weighted(answer, 1), *([] if before is None else [self._weighted(before, -1)])]
        return pa.concat_tables(parts, promote_options="permissive")  # a column of NULL alone may have its type

    def _weighted(self, rows: pa.Table, weight: int) -> pa.Table:
        """Return rows as changes at the last time."""
        times, weights = (pa.repeat(pa.scalar(each, pa.int64()), rows.num_rows) for each in (self._until, weight))
        return rows.add_column(0, DIFF, weights).add_column(0, TIME, times)


def _collect(collected: list[Batch], changes: Batch | pa.Table) -> None:
    assert isinstance(changes, Batch)
    collected.append(changes)


CLASSES: dict[Output, type[ExternalEngine]] = {
    "stream": ExternalStream, "batches": ExternalChanges, "answers": ExternalAnswers,
}  # fmt: skip

BESIDE: dict[Output, type[ExternalEngine]] = {**CLASSES, "answers": ExternalDifferences}
"""The classes of programs with several queries."""
