"""Examples of queries: the maintained answer equals DuckDB's at every logical time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from math import inf

import duckdb
from support.random_plans.choices import Choices
from support.random_plans.streams import cut, inputs_of
from support.reference.errors import SeveralRowsError

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.sql.query import sql
from deltamark.errors import DeltamarkError
from fuzz.engines import SLICE_ROWS
from fuzz.example import WrongError, slices, traits_of
from fuzz.queries import selects
from fuzz.queries.answers import differences, rows_of
from fuzz.queries.doubles import for_engine
from fuzz.queries.due import answers, has_several_rows, is_due
from fuzz.queries.parts import Part, simpler
from fuzz.queries.recomputed import NAMES, Answer, UnfitError, answer_of, general, refuse_large, rows_at
from fuzz.queries.subqueries import OF_ROWS
from fuzz.queries.tables import Table, table
from fuzz.queries.writer import read_by
from fuzz.tally import TALLY

CONSTANT_GROUP = "must be a constant expression"
"""DuckDB's error for `round(x, 0)` beside a group 0: the binder takes the 0 of the call for the group."""

SEVERAL = SeveralRowsError.cause
"""The error of a scalar subquery that has several rows."""


@dataclass
class Queries:
    """An example of a query: its text, the tables with their changes, and the feeds."""

    query: Part
    tables: tuple[Table, ...]
    feeds: list[list[int]]
    slice_rows: int
    workers: int
    answers: list[Answer] = field(default_factory=list, init=False)
    """The answers that were equal to DuckDB's; none if the query was not compared."""

    def run(self) -> None:
        text = str(self.query)
        try:
            types = self._types(text)
        except UnfitError as error:
            TALLY[f"unfit: {error}"] += 1
            return
        try:
            collection = sql(for_engine(text), {each.name: each.collection() for each in self.tables})
        except DeltamarkError as error:
            problem = str(error).splitlines()[-1]  # the last one of a list
            TALLY[f"refused: {general(problem)}"] += 1
            return
        try:
            refuse_large(text, {each.name: each.changed() for each in self.tables})
            failing = self._first_time_of_several_rows()
            wanted = answers(self.query, self.tables, [time for time in self.times if time < failing])
            must_fail = failing < inf and has_several_rows(text, self.tables, int(failing))
        except UnfitError as error:
            TALLY[f"unfit: {error}"] += 1
            return
        with slices(self.slice_rows):
            batches, until = self._maintain(collection, failing, must_fail=must_fail)
        wanted = {time: rows for time, rows in wanted.items() if time <= until}
        for time, rows in wanted.items():
            said = rows_of(collection.schema, batches, time, types)
            self._compare(said, rows, time)
        self.answers = [*wanted.values()]
        TALLY.update({"queries: compared": 1, "queries: times": len(wanted)})
        TALLY["queries: with rows"] += any(rows for rows in wanted.values())
        TALLY.update({f"constructs: {name}": 1 for name in self.query.constructs()})
        self._count_changes()

    def _count_changes(self) -> None:
        diffs = [diff for each in self.tables for _, _, diff in each.stream]
        TALLY["changes: inserted rows"] += sum(diff for diff in diffs if diff > 0)
        TALLY["changes: deleted rows"] -= sum(diff for diff in diffs if diff < 0)

    def traits(self) -> Iterable[str]:
        if not self.answers:
            return []
        changes = [change for each in self.tables for change in each.stream]
        rows = [*(row for row, _, _ in changes), *(row for answer in self.answers for row in answer)]
        has_null, retracts = any(None in row for row in rows), any(diff < 0 for _, _, diff in changes)
        return traits_of(self.workers, has_null=has_null, retracts=retracts, texts=[str(self.query)])

    @property
    def times(self) -> list[int]:
        return sorted({0, *(time for each in self.tables for _, time, _ in each.stream)})

    def _types(self, text: str) -> list[str]:
        """Return DuckDB's types of the columns."""
        try:
            return [str(each) for each in rows_at(self.tables, 0).sql(text).types]
        except duckdb.Error as error:
            if CONSTANT_GROUP in str(error):
                raise UnfitError("a group is a constant of a call") from error
            problem = general(str(error).splitlines()[0])
            raise WrongError(f"DuckDB refuses the query: {problem}", str(error)) from error

    def _first_time_of_several_rows(self) -> float:
        """Return the first time at which a scalar subquery has several rows."""
        texts = [str(part.pieces[1]) for part in self.query.of_construct(OF_ROWS)]
        for time in self.times:
            if any(answer_of(each, self.tables, time).total() > 1 for each in texts):
                return time
        return inf

    def _maintain(self, collection: Collection, failing: float, *, must_fail: bool) -> tuple[list[Batch], int]:
        """Return the changes, and the last time that the engine has answered.

        failing: the time of an error that the engine may raise, and which it must raise if DuckDB does.
        """
        found, until = list[Batch](), -1
        with closing(Dataflow(collection, workers=self.workers)) as dataflow:
            for times in self.feeds:
                try:
                    found.append(dataflow.feed(self._batches(collection, times)))
                except DeltamarkError as error:
                    is_several = error.cause == SEVERAL and error.time == failing and failing in times
                    if not is_several and not is_due(error, self.query, self.tables, times):
                        raise
                    TALLY[f"errors that are due: {error.cause}"] += 1
                    return found, until
                if must_fail and failing in times:
                    raise WrongError("no error", f"at time {failing}; expected: {SEVERAL}")
                until = max([until, *times])
        return found, until

    def _batches(self, collection: Collection, times: Sequence[int]) -> dict[str, Batch]:
        batches = {each.name: each.batch(set(times)) for each in self.tables if each.name in inputs_of(collection)}
        return {name: batch for name, batch in batches.items() if len(batch.time)}

    def _compare(self, said: Answer, wanted: Answer, time: int) -> None:
        if not (lines := differences(said, wanted)):
            return
        with suppress(UnfitError):
            plain = answers(self.query, self.tables, [time], optimized=False).get(time)
            if plain is not None and differences(plain, wanted):
                TALLY["unfit: DuckDB gives another answer without its optimizer"] += 1
                return
        raise WrongError("another answer", "\n".join([f"at time {time}", *lines]))

    def simpler(self) -> Iterator[Queries]:
        """Yield simpler examples, most of which do not fail, and some of which are not valid."""
        for at in range(len(self.tables)):
            if len(self.tables) > 1:
                yield replace(self, tables=(*self.tables[:at], *self.tables[at + 1 :]))
            if self.tables[at].stream:
                yield self._with(at, replace(self.tables[at], stream=()))
        for query in simpler(self.query):
            yield replace(self, query=query)
        for at, each in enumerate(self.tables):
            for smaller in each.simpler():
                if smaller.is_valid():
                    yield self._with(at, smaller)
        if len(self.feeds) > 1:
            yield replace(self, feeds=[self.times])
        if self.slice_rows != SLICE_ROWS[0]:
            yield replace(self, slice_rows=SLICE_ROWS[0])
        if self.workers > 1:
            yield replace(self, workers=1)

    def _with(self, at: int, changed: Table) -> Queries:
        return replace(self, tables=(*self.tables[:at], changed, *self.tables[at + 1 :]))

    def __str__(self) -> str:
        lines = [for_engine(str(self.query)) + ";", *(each.created() for each in self.tables)]
        for time in self.times:
            lines.append(f"-- time {time}")
            lines += [line for each in self.tables for line in each.statements(time)]
        return "\n".join([*lines, f"-- feeds: {self.feeds}, slice_rows: {self.slice_rows}, workers: {self.workers}"])


def query_example(choices: Choices) -> Queries:
    """Draw tables with changes, and a query of them."""
    times = sorted({choices.pick([0, 0, 1]), *(1 + choices.place(9) for _ in range(choices.pick([3, 5, 7])))})
    tables = tuple(table(choices, name, times) for name in NAMES[: choices.pick([2, 2, 1, 3])])
    query = selects.whole(read_by(choices, {each.name: each.schema for each in tables}))
    found = Queries(query, tables, [], choices.pick(SLICE_ROWS), choices.pick((1, 2, 3)))
    return replace(found, feeds=cut(choices, found.times))
