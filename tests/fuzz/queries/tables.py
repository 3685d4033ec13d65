"""Random tables, their changes over time, and both as SQL."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
from support.random_plans.choices import Choices

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection, declared
from deltamark.dataflow.sql.arrow_tables import INTEGER_NAMES
from deltamark.dataflow.sql.planner import column_type
from deltamark.dataflow.sql.tables import sql_type as type_of
from deltamark.dataflow.types import (
    BOOL,
    DOUBLE,
    EPOCH,
    NULL,
    SHORT,
    TEXT,
    Field,
    Schema,
    Type,
    code_type,
    date_type,
    integer,
    microseconds,
    pack_short,
    stored_double,
    timestamp_type,
)

Row = tuple[object, ...]
"""Values as Python and DuckDB have them: int, Decimal, date, str or None."""

ROWS = 1000
WORDS = ("ant", "bee", "cat")
SHORTS = ("", "a", "ab", "b", "B_%", "été")
TEXTS = ("", "a", "b", "ant", "a long text", "a long text too", "A_long%", "été long", "  b ")
FIRST, LAST = dt.date(1991, 11, 30), dt.date(1996, 3, 1)
DATES = (
    dt.date(1992, 1, 1), dt.date(1991, 12, 31), dt.date(1992, 1, 31), dt.date(1992, 2, 29), dt.date(1993, 2, 28),
    dt.date(1992, 1, 2), dt.date(1995, 12, 31),
)  # fmt: skip

MOMENTS = tuple(map(dt.datetime.fromisoformat, (
    "1992-01-01", "1991-12-31 23:59:59.999999", "1992-02-29 12:30:00", "1992-01-01 00:00:01", "1993-02-28 13:00:00",
)))  # fmt: skip
DOUBLES = (0.0, 0.5, -2.25, 3.0, math.nan, math.inf, -math.inf, 2.0**-1074)
"""Doubles whose sums DuckDB computes without rounding."""

WIDE = (
    0.0, 1.0, -0.0, 0.1, 1e16, -1e16, 1.5e308, -1.5e308, 2.0**-1074, -1e-300, 3e9, -2.25, math.nan, math.inf, -math.inf,
)  # fmt: skip
"""Doubles of very different magnitudes."""

TYPES = {
    "a": (integer(-2, 3), integer(0, 3), integer(-100, 100), integer(-(10**6), 10**6)),
    "b": (integer(-2, 3), integer(0, 20), integer(-1, 1)),
    "p": (integer(-200, 300, scale=2), integer(0, 10**6, scale=2), integer(-30, 30, scale=1)),
    "d": (date_type(FIRST, LAST),),
    "s": (SHORT, code_type(WORDS)),
    "f": (BOOL,),
    "g": (DOUBLE,),
    "h": (DOUBLE,),
    "t": (timestamp_type(*map(dt.datetime.fromisoformat, ("1991-11-30", "1996-03-01"))),),
    "z": (timestamp_type(*map(dt.datetime.fromisoformat, ("1991-11-30", "1996-03-01")), zoned=True),),
    "x": (TEXT,),
}
"""The types of the columns by the first letter of their names."""

NAMES = ("a", "b", "p", "d", "s", "f", "x", "g", "t", "z", "a2", "p2", "d2", "s2", "f2", "g2")
WIDE_NAMES = (*NAMES, *(f"{letter}_{number}" for number in range(17) for letter in "xsfb"))
"""The columns of a table with more columns than a word has bits."""

DECLARED = {
    "int": ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "DECIMAL(4,0)"),
    "decimal": ("DECIMAL(5,2)", "DECIMAL(9,2)"),
}
"""Types of SQL that a column may be declared with, if they have all of its values."""


@dataclass(frozen=True)
class Table:
    """A table: its columns, its key, and its changes as (row, time, weight)."""

    name: str
    schema: Schema
    key: tuple[str, ...]
    stream: tuple[tuple[Row, int, int], ...] = ()

    def collection(self) -> Collection:
        return declared(self.name, self.schema.fields, ROWS, self.key)

    def created(self) -> str:
        columns = [
            f"{each.name} {sql_type(each)}{'' if each.type.nullable else ' NOT NULL'}" for each in self.schema.fields
        ]
        key = f"  -- key: {', '.join(self.key)}" if self.key else ""
        types = f"  -- {', '.join(f'{each.name} {each.type!r}' for each in self.schema.fields)}"
        return f"CREATE TABLE {self.name} ({', '.join(columns)});{key}{types}"

    def statements(self, time: int) -> Iterator[str]:
        """Yield the statements of the changes at a time, first the insertions."""
        for row, at, diff in sorted(self.stream, key=lambda change: change[2] < 0):
            if at != time:
                continue
            if diff > 0:
                values = f"({', '.join(map(literal, row))})"
                yield f"INSERT INTO {self.name} VALUES {', '.join([values] * diff)};"
            for _ in range(-diff):
                tests = " AND ".join(
                    f"{name} IS NOT DISTINCT FROM {literal(value)}"
                    for name, value in zip(self.schema.names, row, strict=True)
                )
                first = f"(SELECT min(rowid) FROM {self.name} WHERE {tests})"
                yield f"DELETE FROM {self.name} WHERE rowid = {first};"

    def batch(self, times: set[int]) -> Batch:
        changes = [each for each in self.stream if each[1] in times]
        columns = {
            field.name: _column(field.type, [row[at] for row, _, _ in changes])
            for at, field in enumerate(self.schema.fields)
        }
        time, diff = ([each[place] for each in changes] for place in (1, 2))
        return Batch(np.array(time, dtype=np.int64), np.array(diff, dtype=np.int64), columns)

    def at(self, time: int) -> pa.Table:
        """Return the rows that are live at a time."""
        return self._arrow([row for row, count in live(self.stream, time).items() for _ in range(count)])

    def during(self, times: Sequence[int]) -> pa.Table:
        """Return the rows that are live before some times, and those that are inserted at them."""
        before = live(self.stream, min(times, default=0) - 1)
        new = [row for row, at, diff in self.stream if at in times for _ in range(diff)]
        return self._arrow([*(row for row, count in before.items() for _ in range(count)), *new])

    def changed(self) -> pa.Table:
        """Return the rows of all changes, of insertions and of deletions."""
        return self._arrow([row for row, _, _ in self.stream])

    def _arrow(self, rows: Sequence[Row]) -> pa.Table:
        columns = {
            field.name: pa.array([row[at] for row in rows], arrow_type(field))
            for at, field in enumerate(self.schema.fields)
        }
        return pa.table(columns)

    def is_valid(self) -> bool:
        """Return whether no weight is negative, and the key holds, at the end of each time."""
        if len(self.stream) > ROWS:
            return False
        places = [self.schema.names.index(name) for name in self.key]
        for time in {time for _, time, _ in self.stream}:
            rows = live(self.stream, time)
            keys = {tuple(row[place] for place in places) for row in rows}
            if min(rows.values(), default=0) < 0 or (places and len(keys) < sum(rows.values())):
                return False
        return True

    def simpler(self) -> Iterator[Table]:
        """Yield tables with fewer changes and columns, and with simpler values."""
        for time in sorted({time for _, time, _ in self.stream}):
            yield replace(self, stream=tuple(each for each in self.stream if each[1] != time))
        for row in dict.fromkeys(row for row, _, _ in self.stream):
            yield replace(self, stream=tuple(each for each in self.stream if each[0] != row))
        for at in range(len(self.stream)):
            yield replace(self, stream=(*self.stream[:at], *self.stream[at + 1 :]))
        if self.key:
            yield replace(self, key=())
        for at, field in enumerate(self.schema.fields):
            if len(self.schema.fields) > 1 and field.name not in self.key:
                fields = (*self.schema.fields[:at], *self.schema.fields[at + 1 :])
                stream = tuple(((*row[:at], *row[at + 1 :]), time, diff) for row, time, diff in self.stream)
                yield replace(self, schema=Schema(fields, ROWS), stream=stream)
            if field.type.nullable and all(row[at] is not None for row, _, _ in self.stream):
                fields = [*self.schema.fields]
                fields[at] = replace(field, type=replace(field.type, nullable=False))
                yield replace(self, schema=Schema(tuple(fields), ROWS))
            if field.sql:
                fields = [*self.schema.fields]
                fields[at] = Field(field.name, field.type)
                yield replace(self, schema=Schema(tuple(fields), ROWS))
        rows = dict.fromkeys(row for row, _, _ in self.stream)
        for row, at in [(each, at) for each in rows for at in range(len(each))]:
            for value in values_of(self.schema.fields[at])[:2]:
                if row[at] is not None and row[at] not in values_of(self.schema.fields[at])[:2]:
                    new = (*row[:at], value, *row[at + 1 :])
                    stream = tuple((new if other == row else other, time, diff) for other, time, diff in self.stream)
                    yield replace(self, stream=stream)


def live(stream: Sequence[tuple[Row, int, int]], time: int) -> Counter[Row]:
    rows: Counter[Row] = Counter()
    for row, at, diff in stream:
        if at <= time:
            rows[row] += diff
    return Counter({row: count for row, count in rows.items() if count})


def literal(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).upper()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):
        return f"'{value}'::{'TIMESTAMPTZ' if value.tzinfo else 'TIMESTAMP'}"
    if isinstance(value, float):
        return f"'{value}'::DOUBLE"
    return f"DATE '{value}'" if isinstance(value, dt.date) else str(value)


def sql_type(field: Field) -> str:
    return field.sql or column_type(field.type)


def arrow_type(field: Field) -> pa.DataType:
    """Return the type of Arrow that DuckDB reads as the type of a column."""
    name = sql_type(field)
    if name.startswith("DECIMAL"):
        return pa.decimal128(*map(int, re.findall(r"\d+", name)))
    if field.type.kind == "int":
        return next(type_ for type_, each in INTEGER_NAMES.items() if each == name)
    return {
        "DATE": pa.date32(),
        "BOOLEAN": pa.bool_(),
        "VARCHAR": pa.string(),
        "DOUBLE": pa.float64(),
        "TIMESTAMP": pa.timestamp("us"),
        "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    }[name]


def values_of(field: Field) -> Sequence[object]:
    """Return the values that rows have in a column, the simplest first."""
    type_ = field.type
    match type_.kind:
        case "int":
            whole = [0, 1, 2, -1, -2, 3, 25, 50, -150, 100, 250, 7]
            values = [each for each in whole if type_.low <= each <= type_.high][: 7 if type_.scale else 6]
            return [Decimal(each).scaleb(-type_.scale) for each in values] if type_.scale else values
        case "date":
            return DATES
        case "double":
            return WIDE if field.name.startswith("h") else DOUBLES
        case "timestamp":
            return MOMENTS
        case "timestamptz":
            return [each.replace(tzinfo=dt.UTC) for each in MOMENTS]
        case "bool":
            return (False, True)
        case "short":
            return SHORTS
        case "code":
            return WORDS
        case _:
            return TEXTS


def stored(value: object, type_: Type) -> int | str | None:
    """Return a value as the engine has it."""
    match type_.kind:
        case "text":
            return value
        case _ if value is None:
            return NULL
        case "int":
            return int(Decimal(value).scaleb(type_.scale))
        case "date":
            return (value - EPOCH).days
        case "double":
            return stored_double(value)
        case "timestamp" | "timestamptz":
            return microseconds(value)
        case "bool":
            return int(value)
        case "short":
            return pack_short(value)
        case _:
            return type_.words.index(value)


def _column(type_: Type, values: Sequence[object]) -> np.ndarray | pa.StringArray:
    found = [stored(value, type_) for value in values]
    return pa.array(found, pa.string()) if type_.kind == "text" else np.array(found, dtype=np.int64)


def table(choices: Choices, name: str, times: Sequence[int], letters: str = "".join(TYPES)) -> Table:
    """Draw a table and its changes. letters: the beginnings of the names of its columns."""
    names, wide = ([each for each in given if each[0] in letters] for given in (NAMES, WIDE_NAMES))
    picked = ["a", *sorted(choices.picks(names[1:], least=1, most=4), key=names.index)]
    if choices.chance(5):
        picked = wide
    elif choices.chance(50):
        picked += [each for each in choices.pick([("h",), ("h", "h2"), ("g", "h")]) if each in names]
        picked = [*dict.fromkeys(picked)]
    fields = []
    for each in picked:
        type_ = choices.pick(TYPES[each[0]])
        fields.append(Field(each, type_.or_null() if choices.chance(45) else type_, _declared(choices, type_)))
    key = tuple(picked[: choices.pick([1, 1, 2])]) if choices.chance(20) else ()
    empty = Table(name, Schema(tuple(fields), ROWS), key)
    return empty if choices.chance(4) else changing(choices, empty, times)


def _declared(choices: Choices, type_: Type) -> str:
    """Draw the type of SQL with which a column is declared, if it is."""
    names = DECLARED.get("decimal" if type_.scale else type_.kind, ())
    has_values = {each: type_of("", each) for each in names}
    fitting = [
        name
        for name, other in has_values.items()
        if other.scale == type_.scale and other.low <= type_.low and type_.high <= other.high
    ]
    return choices.pick(fitting) if fitting and choices.chance(50) else ""


def changing(choices: Choices, given: Table, times: Sequence[int]) -> Table:
    """Draw insertions and deletions of a few rows, which recur, and some of which come and go within a time."""
    pool = [tuple(_value(choices, each) for each in given.schema.fields) for _ in range(choices.pick([4, 6, 9]))]
    stream: list[tuple[Row, int, int]] = []
    most = 1 if given.key else 3
    for time in times:
        before = live(stream, time)
        for _ in range(choices.pick([0, 1, 1, 2, 3, 5] if stream else [3, 2, 6, 8])):
            row, target = choices.pick(pool), choices.pick([1, 0, 0, 1, 2, most])
            old = live(stream, time)[row]
            changes = [(row, time, min(target, most) - old)]
            if choices.chance(10):
                changes = [(row, time, 1), *changes, (row, time, -1)]
            new = [*stream, *(each for each in changes if each[2])]
            if replace(given, stream=tuple(new)).is_valid():
                stream = new
        if choices.chance(8):  # an empty table
            stream += [(row, time, -count) for row, count in before.items()]
            if not replace(given, stream=tuple(stream)).is_valid():
                stream += [(row, time, count) for row, count in before.items()]
    return replace(given, stream=tuple(stream))


def _value(choices: Choices, field: Field) -> object:
    if field.type.nullable and choices.chance(30):
        return None
    return choices.pick(values_of(field))
