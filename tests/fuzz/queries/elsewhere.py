"""Examples of queries for an engine of others, which is fed over the engine protocol."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache

from support.random_plans.choices import Choices
from support.random_plans.streams import cut

from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.types import DOUBLE, Field, Schema
from deltamark.errors import DeltamarkError
from deltamark.harness.engines.base import RefusedError
from deltamark.harness.engines.external import named
from deltamark.harness.engines.external.columns import columns_in
from deltamark.harness.engines.peers import PEERS, peer
from fuzz.engines import SLICE_ROWS
from fuzz.example import WrongError
from fuzz.queries import selects
from fuzz.queries.answers import differences
from fuzz.queries.client import DIGITS, Answer, Query, client
from fuzz.queries.due import has_several_rows_alone
from fuzz.queries.example import Queries
from fuzz.queries.learned import Learnt
from fuzz.queries.parts import Part, placed
from fuzz.queries.portable import LETTERS, NEVER, features, first_rows, is_total, portable
from fuzz.queries.recomputed import NAMES, UnfitError, answer_of, general, refuse_large, rows_at
from fuzz.queries.script import read_by_text, script
from fuzz.queries.tables import Row, Table, table, values_of
from fuzz.queries.writer import read_by
from fuzz.tally import TALLY

LARGEST = 2**62
"""The largest integer of an answer that is compared: sums of DuckDB have 128 bits."""

REASON = 48
"""The letters of the reason of a refusal by which refusals are counted."""

DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+")
"""A literal with digits behind the point."""

NULL_FEATURE, DELETIONS = "NULL in inputs", "deletions"
"""The features of tables and their changes, beside the types of columns."""

MOST_DRAWS = 50
"""The number of texts that are drawn until one has no avoided feature."""


@cache
def learnt(_engine: str) -> Learnt:
    """Return the features that this process has learnt of an engine."""
    return Learnt()


@dataclass
class Elsewhere(Queries):
    """An example for an engine of others."""

    engine: str = ""

    def run(self) -> None:
        text = str(self.query)
        try:
            types = self._types(text)
            query = self._opened(text)
            self._compare_all(text, query, types)
        except UnfitError as error:
            TALLY[f"unfit: {error}"] += 1
        except RefusedError as error:
            reason = general(str(error.actual))
            TALLY[f"refused: {reason[:REASON]}"] += 1
            self._count("refused")
        else:
            self._count("right", "accepted")
        finally:
            client(self.engine).end()

    def _count(self, *outcomes: str) -> None:
        """Count the outcomes of a text that was tried, and learn from them."""
        learnt(self.engine).learn(self.features(), accepted="accepted" in outcomes)
        TALLY.update(f"{named.greeting(self.engine).name}: {each}" for each in ("tried", *outcomes))

    def traits(self) -> Iterable[str]:
        return []

    def features(self) -> set[str]:
        """Return the features of the text, the tables and the changes, of which an engine may refuse one."""
        found = {*features(self.query)}
        for each in self.tables:
            found |= table_features(each)
        return found

    def _types(self, text: str) -> list[str]:
        if not all(map(is_total, first_rows(self.query))):
            raise UnfitError("an order that leaves rows equal")
        try:
            return super()._types(text)
        except WrongError as error:
            raise UnfitError(error.what) from error

    def _opened(self, text: str) -> Query:
        """Open the query in the engine. An error is a failure, unless the engine says that it refuses the text."""
        read = read_by_text(text, self.tables)
        if not read:
            raise UnfitError("no table is read")
        columns = columns_in(rows_at(self.tables, 0), text)
        with self._failures([], None):
            return client(self.engine).open(text, read, columns, self._schema(text))

    def _wanted(self, text: str) -> list[tuple[list[int], Answer]]:
        """Return DuckDB's answer after each feed."""
        refuse_large(text, {each.name: each.changed() for each in self.tables})
        wanted = [(times, answer_of(text, self.tables, times[-1])) for times in self.feeds if times]
        if any(isinstance(value, int) and abs(value) > LARGEST for _, rows in wanted for row in rows for value in row):
            raise UnfitError("an integer that needs more than 64 bits")
        return wanted

    def _compare_all(self, text: str, query: Query, types: list[str]) -> None:
        done: list[list[int]] = []
        for times, rows in self._wanted(text):
            done.append(times)
            with self._failures(done, rows):
                said = query.feed(times, types)
            self._check(text, said, rows, done)

    @contextmanager
    def _failures(self, done: list[list[int]], expected: Answer | None) -> Iterator[None]:
        """Turn the error of a program into a failure. It ends the program."""
        try:
            yield
        except RefusedError:
            raise
        except DeltamarkError as error:
            client(self.engine).discard()
            if done and has_several_rows_alone(self.query, self.tables, done[-1][-1]):
                raise UnfitError("a scalar subquery with several rows") from error
            self._count("wrong", "accepted")
            what = f"{error.cause}: {general(str(error.actual))}"
            raise WrongError(what, self._script(done, expected, str(error.actual))) from error

    def _schema(self, text: str) -> Schema | None:
        """Return the columns of exact changes, if the engine has a stream of them."""
        if named.greeting(self.engine).output != "stream":
            return None
        try:
            return sql(text, {each.name: each.collection() for each in self.tables}).schema
        except DeltamarkError as error:
            raise UnfitError("no columns of a stream") from error

    def _check(self, text: str, said: Answer, rows: Answer, done: list[list[int]]) -> None:
        if not differences(said, rows):
            return
        if differences(answer_of(text, self.tables, done[-1][-1], optimized=False), rows):
            raise UnfitError("DuckDB gives another answer without its optimizer")
        if not differences(_in_doubles(said), _in_doubles(self._answer_in_doubles(text, done[-1][-1]))):
            raise UnfitError("the answer depends on the digits of decimals")
        self._count("wrong", "accepted")
        more, less = said.total() > rows.total(), said.total() < rows.total()
        kind = "rows too many" if more else "rows are missing" if less else "other values"
        raise WrongError(f"another answer of {self._shape()}: {kind}", self._script(done, rows, said))

    def _shape(self) -> str:
        """Return the construct of the outermost query, so that a smaller text has the same one."""
        queries = (part for part, _ in placed(self.query) if part.sort == "query")
        found = next((each for each in queries if each.construct not in ("", "CTE used twice")), self.query)
        has_groups = any(str(piece).startswith(" GROUP BY") for piece in found.pieces)
        return (
            "a text without groups" if found.construct == "GROUP BY" and not has_groups else found.construct or "a text"
        )

    def _answer_in_doubles(self, text: str, time: int) -> Answer:
        """Return DuckDB's answer with doubles in the places of decimals, whose digits are a matter of dialects."""
        words = DECIMAL.sub(r"CAST(\g<0> AS DOUBLE)", text).replace("DECIMAL(18, 2)", "DOUBLE")
        return answer_of(words, [with_doubles(each) for each in self.tables], time)

    def _script(self, done: Sequence[Sequence[int]], expected: Answer | None, said: Answer | str) -> str:
        return "\n" + script(self.engine, str(self.query), self.tables, done, expected, said)

    def __str__(self) -> str:
        return f"{self.query};"

    def simpler(self) -> Iterator[Queries]:
        yield from super().simpler()
        for at in range(len(self.feeds) - 1):
            yield replace(self, feeds=[*self.feeds[:at], self.feeds[at] + self.feeds[at + 1], *self.feeds[at + 2 :]])


def with_doubles(given: Table) -> Table:
    """Return a table with doubles in the places of decimals."""
    places = [at for at, each in enumerate(given.schema.fields) if each.type.scale]
    fields = [*given.schema.fields]
    for at in places:
        fields[at] = Field(fields[at].name, DOUBLE.or_null() if fields[at].type.nullable else DOUBLE)
    stream = tuple((_floats(row), time, diff) for row, time, diff in given.stream)
    return replace(given, schema=Schema(tuple(fields), given.schema.rows), stream=stream)


def _floats(row: Row) -> Row:
    return tuple(float(value) if isinstance(value, Decimal) else value for value in row)


def _in_doubles(answer: Answer) -> Answer:
    found: Answer = Counter()
    for row, count in answer.items():
        found[_floats(row)] += count
    return found


def table_features(given: Table) -> set[str]:
    """Return the features of a table and its changes."""
    found = {_type_feature(each) for each in given.schema.fields}
    if any(each.type.nullable for each in given.schema.fields):
        found.add(NULL_FEATURE)
    if any(diff < 0 for _, _, diff in given.stream):
        found.add(DELETIONS)
    return found


def example_elsewhere(choices: Choices, engine: str) -> Elsewhere:
    """Draw tables with changes, and a portable query of them, mostly without features that the engine refuses."""
    differs = peer(engine).manifest.differs if engine in PEERS else {}
    never = NEVER if named.greeting(engine).deletions else {*NEVER, DELETIONS}
    avoided = frozenset({*never, *differs, *learnt(engine).avoided(choices)})
    times = sorted({choices.pick([0, 0, 1]), *(1 + choices.place(9) for _ in range(choices.pick([3, 5, 7])))})
    tables = tuple(_table(choices, name, times, avoided) for name in NAMES[: choices.pick([2, 2, 1, 3])])
    for _ in range(MOST_DRAWS):
        drawn = selects.whole(read_by(choices, {each.name: each.schema for each in tables}, avoided))
        if (query := portable(drawn, avoided)) is not None:
            break
    else:
        query = Part("query", ("SELECT a FROM t",), "SELECT")
    found = Elsewhere(query, tables, [], SLICE_ROWS[0], 1, engine)
    return replace(found, feeds=cut(choices, found.times))


def _table(choices: Choices, name: str, times: Sequence[int], avoided: frozenset[str]) -> Table:
    """Draw a table with columns that the protocol has types for, and with those types in DuckDB."""
    drawn = table(choices, name, times, LETTERS)
    fields = [Field(each.name, each.type, _declared(each)) for each in drawn.schema.fields]
    return without_features(replace(drawn, schema=Schema(tuple(fields), drawn.schema.rows)), avoided)


def without_features(given: Table, avoided: frozenset[str]) -> Table:
    """Return a table without the columns, the NULL and the deletions that are avoided."""
    fields = given.schema.fields
    places = [at for at, each in enumerate(fields) if _type_feature(each) not in avoided] or [0]
    kept = [fields[at] for at in places]
    first = [values_of(each)[0] for each in kept]
    stream = [(tuple(row[at] for at in places), time, diff) for row, time, diff in given.stream]
    if NULL_FEATURE in avoided:
        kept = [replace(each, type=replace(each.type, nullable=False)) for each in kept]
        stream = [
            (tuple(one if value is None else value for value, one in zip(row, first, strict=True)), time, diff)
            for row, time, diff in stream
        ]
    if DELETIONS in avoided:
        stream = [change for change in stream if change[2] > 0]
    found = replace(given, schema=Schema(tuple(kept), given.schema.rows), stream=tuple(stream))
    return found if {*found.key} <= {*found.schema.names} and found.is_valid() else replace(found, key=())


def _type_feature(of: Field) -> str:
    return f"column of type {'decimal' if of.type.scale else of.type.kind}"


def _declared(of: Field) -> str:
    if of.type.kind != "int":
        return ""
    return f"DECIMAL({DIGITS},{of.type.scale})" if of.type.scale else "BIGINT"
