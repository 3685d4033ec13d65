"""Examples of queries: the maintained answer equals DuckDB's at every logical time."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from threading import Timer
from typing import Any

import duckdb
import pyarrow as pa
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
from fuzz.queries.doubles import add_functions, for_engine
from fuzz.queries.parts import Part, simpler
from fuzz.queries.subqueries import OF_ROWS
from fuzz.queries.tables import Table, table
from fuzz.queries.writer import read_by
from fuzz.tally import TALLY

Answer = Counter[tuple[object, ...]]
NAMES = ("t", "u", "v")

MOST_ROWS = 50_000
"""The most rows of an intermediate result. An example of several cross joins with more takes minutes, or more memory
than checked kernels reserve.
"""

LONG_SECONDS = 2.0
"""The seconds after which DuckDB's joins count as large."""

CONSTANT_GROUP = "must be a constant expression"
"""DuckDB's error for `round(x, 0)` beside a group 0: the binder takes the 0 of the call for the group."""


SEVERAL_IN_DUCKDB = "More than one row returned by a subquery"
SEVERAL = SeveralRowsError.cause
"""The errors of a scalar subquery that has several rows: in DuckDB, and in the engine."""


class UnfitError(Exception):
    """A query that is no example: DuckDB raises an error for some rows, or gives several answers; or joins are huge."""


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
            wanted = [(time, answer_of(text, self.tables, time)) for time in self.times if time < failing]
            must_fail = failing < inf and _fails(text, self.tables, int(failing))
        except UnfitError as error:
            TALLY[f"unfit: {error}"] += 1
            return
        with slices(self.slice_rows):
            batches, until = self._maintain(collection, failing, must_fail=must_fail)
        wanted = [(time, rows) for time, rows in wanted if time <= until]
        for time, rows in wanted:
            said = rows_of(collection.schema, batches, time, types)
            self._compare(text, said, rows, time)
        self.answers = [rows for _, rows in wanted]
        TALLY.update({"queries: compared": 1, "queries: times": len(wanted)})
        TALLY["queries: with several rows in a subquery"] += until < self.times[-1]
        TALLY["queries: with rows"] += any(rows for _, rows in wanted)
        TALLY.update({f"constructs: {name}": 1 for name in self.query.constructs()})

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
                    if error.cause != SEVERAL or error.time != failing or failing not in times:
                        raise
                    return found, until
                if must_fail and failing in times:
                    raise WrongError("no error", f"at time {failing}; expected: {SEVERAL}")
                until = max([until, *times])
        return found, until

    def _batches(self, collection: Collection, times: Sequence[int]) -> dict[str, Batch]:
        batches = {each.name: each.batch(set(times)) for each in self.tables if each.name in inputs_of(collection)}
        return {name: batch for name, batch in batches.items() if len(batch.time)}

    def _compare(self, text: str, said: Answer, wanted: Answer, time: int) -> None:
        if not (lines := differences(said, wanted)):
            return
        if differences(answer_of(text, self.tables, time, optimized=False), wanted):
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


def general(text: str) -> str:
    """Return the text of an error without a place, names and numbers."""
    return re.sub(r" +", " ", re.sub(r'"[^"]*"|[(]line .*|[0-9]+', "", text))[:70].strip()


@cache
def database(*, optimized: bool) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    add_functions(connection)
    if not optimized:
        connection.execute("PRAGMA disable_optimizer")
        connection.execute("PRAGMA enable_profiling = 'no_output'")
    return connection


def rows_at(tables: Sequence[Table], time: int, *, optimized: bool = True) -> duckdb.DuckDBPyConnection:
    """Return a database with the rows that are live at a time."""
    return _database_of({each.name: each.at(time) for each in tables}, optimized=optimized)


def _database_of(tables: Mapping[str, pa.Table], *, optimized: bool) -> duckdb.DuckDBPyConnection:
    connection = database(optimized=optimized)
    for name in NAMES:
        connection.unregister(name)
    for name, rows in tables.items():
        connection.register(name, rows)
    return connection


def answer_of(text: str, tables: Sequence[Table], time: int, *, optimized: bool = True) -> Answer:
    """Return DuckDB's answer over the rows that are live at a time. (A relation would be planned twice.)"""
    try:
        found = rows_at(tables, time, optimized=optimized).execute(text).fetchall()
    except duckdb.Error as error:
        database.cache_clear()  # an internal error closes it
        raise UnfitError(f"DuckDB's {type(error).__name__}") from error
    return Counter(found)


def _fails(text: str, tables: Sequence[Table], time: int) -> bool:
    """Return whether DuckDB raises the error of a subquery with several rows."""
    try:
        answer_of(text, tables, time)
    except UnfitError as error:
        return SEVERAL_IN_DUCKDB in str(error.__cause__)
    return False


def refuse_large(text: str, changed: Mapping[str, pa.Table]) -> None:
    """Refuse a query of which DuckDB makes many rows of the rows of all changes, with joins as the text has them."""
    connection = database(optimized=False)
    timer = Timer(LONG_SECONDS, connection.interrupt)
    timer.start()
    try:
        _database_of(changed, optimized=False).sql(text).limit(MOST_ROWS + 1).fetchall()
    except duckdb.InterruptException:
        raise UnfitError("many rows in a join") from None
    except duckdb.Error:  # as for a subquery with several rows
        database.cache_clear()
        return
    finally:
        timer.cancel()
    profile = json.loads(connection.get_profiling_information(format="json"))
    if max(map(_most_rows, profile.get("operator", [])), default=0) > MOST_ROWS:
        raise UnfitError("many rows in a join")


def _most_rows(operator: dict[str, Any]) -> int:
    return max([operator["intermediate_rows"], *map(_most_rows, operator.get("children", []))])


def query_example(choices: Choices) -> Queries:
    """Draw tables with changes, and a query of them."""
    times = sorted({choices.pick([0, 0, 1]), *(1 + choices.place(9) for _ in range(choices.pick([3, 5, 7])))})
    tables = tuple(table(choices, name, times) for name in NAMES[: choices.pick([2, 2, 1, 3])])
    query = selects.whole(read_by(choices, {each.name: each.schema for each in tables}))
    found = Queries(query, tables, [], choices.pick(SLICE_ROWS), choices.pick((1, 2, 3)))
    return replace(found, feeds=cut(choices, found.times))
