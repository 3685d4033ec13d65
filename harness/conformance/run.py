"""Run the cases on a program, and compare its changes or answers with DuckDB's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import duckdb
import numpy as np
import pyarrow as pa
from msgspec import structs

from deltamark.dataflow.sql.front_end import without_threads
from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.sql.tables import sql_tables
from deltamark.dataflow.types import Schema
from deltamark.datagen.feed import last_time
from deltamark.datagen.schema import TIMES_PER_ROUND
from deltamark.datagen.scratch import scratch
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import Snapshot, Summed, unordered_difference
from deltamark.harness.conformance.cases import (
    CASES,
    MAX_ROWS,
    NOTHING_BETWEEN,
    NULL_CASES,
    NULL_QUERIES,
    PRIMARY_KEYS,
    TWO_QUERIES,
    WITH_NULL,
    Case,
    Change,
    batch_of,
    declared,
    line,
)
from deltamark.harness.console.table import brief
from deltamark.harness.engines.base import DOUBLE_TOLERANCE, Output, RefusedError, Row
from deltamark.harness.engines.external import messages, named
from deltamark.harness.engines.external.columns import (
    DIFF,
    TIME,
    answer_in,
    changes_in,
    input_columns,
    selected_columns,
    stored_columns,
    stored_in,
)
from deltamark.harness.engines.external.engine import Restored
from deltamark.harness.engines.external.program import Program
from deltamark.harness.engines.plans import specified_plan, sql_inputs
from deltamark.harness.results.plausibility import Account, doubt
from deltamark.harness.system.clock import LIST_EVERY_S, CpuUse

R = TypeVar("R", bound=messages.Reply)

REQUEST_TIMEOUT_S = 300.0
"""The time that a request of a case may take. Not measured: the slowest engine plans a query for some seconds, and for
minutes on a machine with much other work.
"""

SEVERAL = "several batches in one request"
RESTORED = "a snapshot is restored by another process"
UNKNOWN_QUERY = "no_such_query"
ATTACHED = "q06"
"""The query that is attached to that of `TWO_QUERIES`. It names other columns of the same relation."""
ATTACHED_AFTER = (0, 1)
"""The numbers of batches after which it is attached."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case. problem: empty if the engine does what it must; refused: why it was not run."""

    name: str
    problem: str = ""
    refused: str = ""
    right_at_ends: bool = True
    """Whether the answers at the ends of the batches are right, even if those at other times are not."""


@dataclass(frozen=True)
class Subject:
    """The query of a case. sql: its text in DuckDB's dialect; schema: that of the exact answer."""

    name: str
    sql: str
    parameters: Mapping[str, object]
    schema: Schema
    inputs: Mapping[str, messages.RelationColumns]


@cache
def subject_of(name: str) -> Subject:
    if name in NULL_QUERIES:
        text = NULL_QUERIES[name]
        tables = sql_tables("; ".join(declared(table, each) for table, each in WITH_NULL.items()))
        inputs = {table: each for table, each in WITH_NULL.items() if table in text}
        return Subject(name, text, {}, sql(text, tables).schema, inputs)
    cell = Cell(name, "0.01")
    inputs = {
        table: messages.RelationColumns(input_columns(cell.home.relations[table], names), MAX_ROWS)
        for table, names in sql_inputs(cell).items()
    }
    return Subject(name, cell.sql, cell.parameters, specified_plan(cell).schema, inputs)


def _with_keys(subject: Subject, changes: Sequence[Change]) -> Subject:
    """Announce the primary keys of TPC-H that some changes keep."""

    def keys(name: str, of: messages.RelationColumns) -> list[list[str]]:
        columns = [pair for pair in of.columns if pair[0] in PRIMARY_KEYS.get(name, ())]
        live: Counter[Row] = Counter()
        for change in changes:
            if change.relation == name:
                live[change.row(columns)] += change.diff
                if live[change.row(columns)] > 1:
                    return []
        is_whole = columns and len(columns) == len(PRIMARY_KEYS[name])
        return [[column for column, _ in columns]] if is_whole else []

    return replace(subject, inputs={
        name: structs.replace(each, keys=keys(name, each)) for name, each in subject.inputs.items()
    })  # fmt: skip


class _Oracle:
    """DuckDB over the live rows of a case."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._live: Counter[tuple[str, Row]] = Counter()
        self._database = duckdb.connect(config=without_threads())
        for name, each in subject.inputs.items():
            self._database.execute(declared(name, each))

    def add(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._live[change.relation, change.row(self._subject.inputs[change.relation].columns)] += change.diff

    def answer(self) -> list[Row]:
        for name in self._subject.inputs:
            self._database.execute(f"DELETE FROM {name}")  # noqa: S608
        for (name, row), copies in self._live.items():
            places = ", ".join("?" * len(row))
            for _ in range(copies):
                self._database.execute(f"INSERT INTO {name} VALUES ({places})", row)  # noqa: S608
        return self._database.execute(self._subject.sql).fetchall()

    def close(self) -> None:
        self._database.close()


class OpenQuery:
    """A query that is open in a program, fed with rows made by hand. engine: the name of the program.

    begin: a snapshot that it restores, or the query to which it is attached. shared: others are attached to it.
    """

    def __init__(  # noqa: PLR0913 (independent settings)
        self,
        engine: str,
        program: Program,
        subject: Subject,
        *,
        deletions: bool = True,
        begin: Restored | OpenQuery | None = None,
        shared: bool = False,
    ) -> None:
        self._program, self._inputs, self.schema = program, subject.inputs, subject.schema
        self._asked = subject.name if shared or isinstance(begin, OpenQuery) else ""
        """The name of the query in requests for its output."""
        self._is_exact = program.greeting.output == "stream"
        self._answer = stored_columns(self.schema) if self._is_exact else selected_columns(self.schema)
        self._fed, self._read_until, self._until = 0, -1, -1
        self._files: dict[str, str] = {}
        opening = messages.Open(
            query=subject.name, sql=named.translated(engine, subject.sql), parameters=dict(subject.parameters),
            workload="insert", deletions=deletions, logical=1, workers=1, collect=True,
            directory=str(program.files.path), relations=dict(subject.inputs), answer=self._answer, shared=shared,
        )  # fmt: skip
        if begin is None:
            program.open(opening)
        elif isinstance(begin, OpenQuery):
            program.attach(messages.Attach(**structs.asdict(opening)))
            self.follow(begin)
        else:
            restore = messages.Restore(**structs.asdict(opening), snapshot=str(begin.directory), until=begin.until)
            if (time := program.restore(restore).time) != begin.until:
                raise program.failed(restore, f"it has restored the rows up to time {time}, not {begin.until}")
            self._read_until = begin.until

    def feed(self, changes: Sequence[Change], until: int) -> int:
        """Feed a batch; return the number of changes that the engine reports."""
        self.take(changes, until)
        return self.apply().changes

    def take(self, changes: Sequence[Change], until: int, ends: list[int] | None = None) -> None:
        """Send the rows of a batch, or of several with these ends."""
        self._until, self._fed, self._files = until, self._fed + 1, {}
        for name, relation in self._inputs.items():
            if rows := [change for change in changes if change.relation == name]:
                self._files[name] = f"{self._fed}-{name}.arrow"
                self._program.files.write(self._files[name], batch_of(relation.columns, rows))
        self._program.request(messages.Feed(self._fed, until, self._files, ends), messages.Reply)

    def apply(self) -> messages.ApplyReply:
        return self._applied(messages.ApplyReply)

    def feed_all(self, batches: Sequence[Sequence[Change]], ends: list[int]) -> messages.ApplyAllReply:
        """Feed several batches in one request."""
        self.take([change for batch in batches for change in batch], ends[-1], ends)
        return self._applied(messages.ApplyAllReply)

    def _applied(self, kind: type[R]) -> R:
        reply = self._program.request(messages.Apply(), kind)
        for file in self._files.values():
            self._program.files.remove(file)
        return reply

    def follow(self, other: OpenQuery) -> None:
        """Take notice of the batches that another query of the program was fed."""
        self._until = other._until

    def changes(self) -> pa.Table:
        """Return the changes since the last call."""
        request = messages.Changes(self._asked)
        table = self._program.file(request)
        with self._program.failures(request):
            changes = changes_in(table, self._answer, self._read_until, self._until)
            if self._is_exact:
                stored_in(changes, self.schema)
        self._read_until = self._until
        return changes

    def answer(self) -> list[Row]:
        request = messages.Answer(self._asked)
        table = self._program.file(request)
        with self._program.failures(request):
            return list(zip(*(each.to_pylist() for each in answer_in(table, self._answer).columns), strict=True))

    def take_snapshot(self, directory: Path) -> None:
        self._program.request(messages.TakeSnapshot(str(directory)), messages.SnapshotReply)

    def end(self) -> None:
        self._program.request(messages.End(), messages.Reply)


def run_case(name: str, program: Program, case: Case) -> Outcome:
    """Run a case; describe the first difference."""
    subject = _with_keys(subject_of(case.query), [change for batch in case.batches for change in batch])
    try:
        query = OpenQuery(name, program, subject, deletions=case.deletions)
    except RefusedError as error:
        return Outcome(case.name, refused=f"{case.query}: {error.actual}")
    output = program.greeting.output
    compare = {"stream": _stream_problems, "batches": _batch_problems, "answers": _answer_problems}[output]
    with closing(_Oracle(subject)) as oracle:
        problems = list(compare(query, case, oracle))
    query.end()
    return _outcome(case.name, problems)


@dataclass(frozen=True)
class _Problem:
    """A difference. at_end: at the end of a batch."""

    text: str
    at_end: bool = True


def _outcome(name: str, problems: Sequence[_Problem]) -> Outcome:
    """Return the outcome of a case with its first problem, if it has one."""
    first = next(iter(problems), None)
    return Outcome(name, first.text if first else "", "", not any(each.at_end for each in problems))


def _stream_problems(query: OpenQuery, case: Case, oracle: _Oracle) -> Iterator[_Problem]:
    counted = sum(query.feed(batch, _until(case, number)) for number, batch in enumerate(case.batches))
    table = query.changes()
    if counted != table.num_rows:
        yield _Problem(f"it counted {counted} changes, and its file has {table.num_rows}")
    yield from _time_problems(query, case, oracle, table)


def _time_problems(query: OpenQuery, case: Case, oracle: _Oracle, table: pa.Table) -> Iterator[_Problem]:
    """Compare the sums of all changes of a case at each logical time, within batches and at their ends."""
    changes = stored_in(table, query.schema)
    rows = list(zip(*(column.to_pylist() for column in table.drop_columns([DIFF]).columns), strict=True))
    if len(set(rows)) < len(rows):
        yield _Problem("a row changes twice at one time", at_end=False)
    snapshot, since = Snapshot(query.schema), -1
    ends, inputs = set(_ends(case)), {change.time for batch in case.batches for change in batch}
    if others := set(changes.time.tolist()) - inputs - {0}:
        yield _Problem(f"changes at time {min(others)}, at which no row arrives or leaves", at_end=False)
    before: list[Row] | None = None
    for time in sorted({0, *ends, *inputs}):
        oracle.add([change for batch in case.batches for change in batch if change.time == time])
        snapshot.add(changes, since=since, until=time)
        answer = oracle.answer()
        wrong = unordered_difference(snapshot.answer(()), answer, DOUBLE_TOLERANCE)
        if wrong:
            yield _Problem(f"wrong at time {time}\n{wrong}", at_end=time in ends)
        if answer == before and np.any(changes.time == time):
            yield _Problem(f"changes at time {time}, at which the answer does not change", at_end=False)
        since, before = time, answer


def _batch_problems(query: OpenQuery, case: Case, oracle: _Oracle) -> Iterator[_Problem]:
    weights: Counter[Row] = Counter()
    for number, batch in enumerate(case.batches):
        until = _until(case, number)
        counted, table = query.feed(batch, until), query.changes()
        if times := set(table[TIME].to_pylist()) - {until}:
            yield _Problem(f"changes at times {sorted(times)}, but the batch has time {until}")
        if counted != table.num_rows:
            yield _Problem(f"it counted {counted} changes, and its file has {table.num_rows}")
        for _, diff, *row in zip(*(column.to_pylist() for column in table.columns), strict=True):
            weights[tuple(row)] += diff
        oracle.add(batch)
        if any(weight < 0 for weight in weights.values()):
            yield _Problem(f"batch {number + 1} retracts a row that is not in the answer")
        yield from _difference(number, list(weights.elements()), oracle)


def _answer_problems(query: OpenQuery, case: Case, oracle: _Oracle) -> Iterator[_Problem]:
    for number, batch in enumerate(case.batches):
        counted = query.feed(batch, _until(case, number))
        rows = query.answer()
        oracle.add(batch)
        if counted != len(rows):
            yield _Problem(f"it counted {counted} rows, and its file has {len(rows)}")
        yield from _difference(number, rows, oracle)


def _difference(number: int, mine: list[Row], oracle: _Oracle) -> Iterator[_Problem]:
    wrong = unordered_difference(mine, oracle.answer(), DOUBLE_TOLERANCE)
    if wrong:
        yield _Problem(f"wrong after batch {number + 1}\n{wrong}")


def run_several(name: str, program: Program, case: Case) -> Outcome:
    """Run all batches of a case in one request; describe the first difference."""
    subject, ends = subject_of(case.query), _ends(case)
    query = OpenQuery(name, program, subject)
    reply, table = query.feed_all(case.batches, ends), query.changes()
    query.end()
    times = table[TIME].to_pylist()
    made = [sum(first < time <= end for time in times) for first, end in pairwise([-1, *ends])]
    if reply.changes != made or len(reply.seconds) != len(ends):
        return Outcome(SEVERAL, f"it counted {reply.changes} changes in {len(reply.seconds)} batches, and made {made}")
    compare = _time_problems if program.greeting.output == "stream" else _sum_problems
    with closing(_Oracle(subject)) as oracle:
        return _outcome(SEVERAL, list(compare(query, case, oracle, table)))


def _sum_problems(_query: OpenQuery, case: Case, oracle: _Oracle, table: pa.Table) -> Iterator[_Problem]:
    """Compare the sums of all changes of a case at the ends of batches."""
    weights: Counter[Row] = Counter()
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    for number, (first, end) in enumerate(pairwise([-1, *_ends(case)])):
        for time, diff, *row in rows:
            weights[tuple(row)] += diff if first < time <= end else 0
        oracle.add(case.batches[number])
        yield from _difference(number, list(weights.elements()), oracle)


class _Sum:
    """The answer to which the outputs of a query sum up, also if several programs have made them."""

    def __init__(self, schema: Schema, output: Output) -> None:
        self._output: Output = output
        self._sum = Summed(schema)

    def taken(self, query: OpenQuery) -> list[Row]:
        """Take the output since the last call; return the answer."""
        if self._output == "answers":
            return query.answer()
        table = query.changes()
        self._sum.add(stored_in(table, query.schema) if self._output == "stream" else table)
        return self._sum.rows()


def attached_case(after: int) -> str:
    """Return the name of the case in which a second query is attached after some batches."""
    return f"a second query after {after} of {len(TWO_QUERIES.batches)} batches"


def run_attached(name: str, program: Program, after: int) -> Outcome:
    """Run a case, and attach a second query after some of its batches."""
    first, second = subject_of(TWO_QUERIES.query), subject_of(ATTACHED)
    merged = {table: _merged(each, second.inputs.get(table)) for table, each in first.inputs.items()}
    output, found = program.greeting.output, dict[OpenQuery, tuple[_Sum, Subject]]()
    case = attached_case(after)
    query = OpenQuery(name, program, replace(first, inputs=merged), shared=True)
    found[query] = _Sum(first.schema, output), first
    try:
        for number, batch in enumerate(TWO_QUERIES.batches):
            if number == after:
                other = OpenQuery(name, program, second, begin=query)
                found[other] = _Sum(second.schema, output), second
            query.feed(batch, _until(TWO_QUERIES, number))
            for each, (summed, subject) in found.items():
                each.follow(query)
                if wrong := _wrong(summed.taken(each), subject, TWO_QUERIES.batches[: number + 1]):
                    return Outcome(case, f"{subject.name} is wrong after batch {number + 1}\n{wrong}")
    except RefusedError as error:
        return Outcome(case, refused=f"{ATTACHED}: {error.actual}")
    finally:
        query.end()
    return Outcome(case)


def _merged(one: messages.RelationColumns, other: messages.RelationColumns | None) -> messages.RelationColumns:
    """Return a relation with the columns of both."""
    return one if other is None else structs.replace(one, columns=list(dict.fromkeys([*one.columns, *other.columns])))


def _wrong(answer: list[Row], subject: Subject, batches: Sequence[Sequence[Change]]) -> str:
    """Compare an answer with DuckDB's after some batches."""
    with closing(_Oracle(subject)) as oracle:
        for batch in batches:
            oracle.add(batch)
        return unordered_difference(answer, oracle.answer(), DOUBLE_TOLERANCE)


def run_restored(name: str, start: Callable[[], Program], case: Case) -> Outcome:
    """Kill a program after a snapshot of the first batch, and run the other batches in another program."""
    try:
        return Outcome(RESTORED, _restored_problem(name, start, case))
    except RefusedError as error:
        return Outcome(RESTORED, refused=f"{case.query}: {error.actual}")


def _restored_problem(name: str, start: Callable[[], Program], case: Case) -> str:
    subject, first, answer = subject_of(case.query), _until(case, 0), list[Row]()
    with scratch() as directory:
        with closing(start()) as program:
            query, found = OpenQuery(name, program, subject), _Sum(subject.schema, program.greeting.output)
            query.feed(case.batches[0], first)
            found.taken(query)
            query.take_snapshot(directory)
            program.kill()
        with closing(start()) as program:
            query = OpenQuery(name, program, subject, begin=Restored(directory, first))
            for number, batch in enumerate(case.batches[1:], 1):
                query.feed(batch, _until(case, number))
                answer = found.taken(query)
        wrong = _wrong(answer, subject, case.batches)
    return f"wrong at the end\n{wrong}" if wrong else ""


def _ends(case: Case) -> list[int]:
    """Return the last time of each batch."""
    return [_until(case, number) for number in range(len(case.batches))]


def _until(case: Case, number: int) -> int:
    """Return the last time of a batch, which is that of a round: at least one round passes in each batch."""
    times = [change.time for batch in case.batches[: number + 1] for change in batch]
    return max([number * TIMES_PER_ROUND, *times]) // TIMES_PER_ROUND * TIMES_PER_ROUND + TIMES_PER_ROUND - 1


def run_all(name: str) -> Iterator[Outcome]:
    """Run all cases on an external engine."""
    each = named.resolved(name)
    start = partial(Program, each.short, list(each.command), REQUEST_TIMEOUT_S)
    with closing(start()) as program:
        yield _greets_as_expected(name, program)
        for case in (*CASES, *NULL_CASES):
            yield run_case(name, program, case if program.greeting.deletions else case.before_deletions)
        if program.greeting.several:
            yield run_several(name, program, NOTHING_BETWEEN)
        if program.greeting.attaches and program.greeting.deletions:
            yield from (run_attached(name, program, after) for after in ATTACHED_AFTER)
        yield _refuses_unknown(program)
        yield run_case(
            name, program, Case("a query after a refused one", NOTHING_BETWEEN.query, NOTHING_BETWEEN.batches)
        )
    yield Outcome("close ends the program", program.unclean_end)
    if program.greeting.snapshots and program.greeting.deletions:
        yield run_restored(name, start, NOTHING_BETWEEN)


def _greets_as_expected(name: str, program: Program) -> Outcome:
    promised, said = named.greeting(name), program.greeting
    differs = "" if promised == said else f"the manifest promises {promised}, and the program says {said}"
    return Outcome("hello", differs)


def _refuses_unknown(program: Program) -> Outcome:
    request = messages.Open(
        query=UNKNOWN_QUERY, sql="SELECT no_such_column FROM orders", parameters={}, workload="insert", deletions=False,
        logical=1, workers=1, collect=True, directory=str(program.files.path), relations={}, answer=[("n", "int64")],
    )  # fmt: skip
    try:
        refused = program.request(request, messages.OpenReply).refused
    except DeltamarkError as error:
        return Outcome("an unknown query is refused", str(error.actual))
    return Outcome("an unknown query is refused", "" if refused else "it was opened")


QUERY, BATCHES, BATCH_ROWS = "q01", 4, 5000
"""Enough rows that the work on a batch takes longer than the messages about it. Not tuned."""


def times_of(name: str) -> str:
    """Feed rows to an engine; describe its times, and whether they are plausible."""
    each = named.resolved(name)
    program = Program(each.short, list(each.command))
    try:
        account = _account(name, program)
    except DeltamarkError as error:
        return f"times: not taken: {error.cause}: {error.actual}"
    finally:
        program.close()
    reported, seen, timed, untimed = (
        brief(seconds).text for seconds in (account.reported, account.seen, account.timed_cpu, account.untimed_cpu)
    )
    doubts = doubt(account)
    return (
        f"times of {BATCHES} batches of {BATCH_ROWS:,} rows: reported {reported}, seen {seen}, CPU time {timed} in the "
        f"clock and {untimed} outside: {f'not plausible: {doubts}' if doubts else 'plausible'}"
    )


def _account(name: str, program: Program) -> Account:
    query = OpenQuery(name, program, subject_of(QUERY), deletions=False)
    reported = seen = untimed = timed_cpu = untimed_cpu = 0.0
    cpu = CpuUse(LIST_EVERY_S)
    for number in range(BATCHES):
        rounds = range(number * BATCH_ROWS, (number + 1) * BATCH_ROWS)
        rows = [line(TIMES_PER_ROUND * each, quantity=Decimal(each % 50 + 1)) for each in rounds]
        query.take(rows, last_time(rounds.stop, 1))
        untimed += program.request_seconds
        untimed_cpu += cpu.passed()
        reply = query.apply()
        timed_cpu += cpu.passed()
        seen += program.request_seconds
        reported += program.request_seconds if reply.seconds is None else reply.seconds
    cpu.list_processes()
    untimed_cpu += cpu.passed()
    answer_rows = len(query.answer()) if program.greeting.output == "answers" else 0
    answer_cpu = cpu.passed()
    query.end()
    return Account(
        workers=1, tuples=BATCHES * BATCH_ROWS, requests=BATCHES, reported=reported, seen=seen, untimed=untimed,
        timed_cpu=timed_cpu, untimed_cpu=untimed_cpu, answer_cpu=answer_cpu, answer_rows=answer_rows,
    )  # fmt: skip
