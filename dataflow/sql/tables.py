"""Inputs from CREATE TABLE statements, which DuckDB parses.

A column is an input's column with the bounds of its SQL type, narrowed by CHECK constraints: DuckDB would refuse a row
that violates a CHECK, and the engine refuses a value outside the bounds. So a CHECK must be a bound. A PRIMARY KEY, or
else a UNIQUE constraint of columns that are NOT NULL, is the key of the input. It is a promise, which is not checked:
the answer may be wrong while two live rows have the same key. FOREIGN KEY, DEFAULT and GENERATED are ignored, because
they change no answer over rows that are fed with all their values.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from deltamark.dataflow.language.collection import ROWS, Collection, declared
from deltamark.dataflow.sql.check_bounds import narrowed
from deltamark.dataflow.sql.planner import quoted
from deltamark.dataflow.types import (
    BOOL,
    DOUBLE,
    LARGEST,
    MICROSECONDS_PER_DAY,
    TEXT,
    TIME,
    Field,
    Type,
    date_type,
    integer,
    timestamp_type,
)
from deltamark.errors import DeltamarkError, unknown

if TYPE_CHECKING:
    import duckdb

DATES = date_type(dt.date(1900, 1, 1), dt.date(2199, 12, 31))
"""The type of dates without bounds. Functions of dates become tables of all days between the bounds."""

TIMESTAMPS = timestamp_type(DATES.low * MICROSECONDS_PER_DAY, (DATES.high + 1) * MICROSECONDS_PER_DAY - 1)
"""The type of timestamps without narrower bounds."""

ALL_DATES = date_type(dt.date.min, dt.date.max)
"""The dates that a CHECK may admit."""

UNBOUNDED_DATES = date_type(ALL_DATES.low - 1, ALL_DATES.high + 1)
"""The type of dates without a CHECK: a bound that a CHECK states differs from both of its bounds."""

MAX_DIGITS = 18
"""The decimal digits that fit into 64 bits. Of a DECIMAL with more, the numbers that fit are accepted."""

INTEGERS = {
    **{name: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in (("TINYINT", 8), ("SMALLINT", 16))},
    "INTEGER": (-(2**31), 2**31 - 1), "BIGINT": (-LARGEST, LARGEST), "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1), "UINTEGER": (0, 2**32 - 1), "UBIGINT": (0, LARGEST),
    "HUGEINT": (-LARGEST, LARGEST), "UHUGEINT": (0, LARGEST),
}  # fmt: skip
"""The bounds of the integer types of SQL; those of 64 bits and more are the numbers that the engine can store."""

REMEDIES = {
    ("HALFFLOAT",): "store it as FLOAT",
    ("TIMESTAMP",): "store it as TIMESTAMP",
    ("VARCHAR COLLATE",): "leave the collation out: texts are compared by their bytes",
    ("DECIMAL",): f"store it with at most {MAX_DIGITS} digits behind the point",
}
"""Remedies for types that the engine lacks, by the beginnings of their names. A cast in a query comes too late."""

OTHERS = {
    "BOOLEAN": BOOL, "DATE": UNBOUNDED_DATES, "VARCHAR": TEXT, "DOUBLE": DOUBLE, "FLOAT": DOUBLE, "TIME": TIME,
    "TIMESTAMP": TIMESTAMPS, "TIMESTAMP WITH TIME ZONE": replace(TIMESTAMPS, kind="timestamptz"),
}  # fmt: skip
DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")

COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable
FROM duckdb_columns() WHERE NOT internal ORDER BY table_oid, column_index
"""

CONSTRAINTS = """
SELECT constraint_type, table_name, expression, constraint_column_names
FROM duckdb_constraints() ORDER BY table_oid, constraint_type, constraint_index
"""


def sql_tables(text: str, rows: int | Mapping[str, int] = ROWS) -> dict[str, Collection]:
    """Declare an input for each CREATE TABLE statement. rows: the largest number of live rows, of all or of each table.

    >>> sql_tables("CREATE TABLE sales (shop INTEGER CHECK (shop BETWEEN 1 AND 99), price DECIMAL(6, 2))", 1000)
    {'sales': Collection of at most 1000 rows
      shop   integer(1, 99).or_null()
      price  integer(-999999, 999999, scale=2).or_null()}
    """
    import duckdb  # noqa: PLC0415 - loaded only by those who use SQL

    with duckdb.connect(config={"enable_external_access": "false", "threads": 1}) as connection:
        _create(connection, text)
        types, names = _columns(connection)
        keys: dict[str, Sequence[str]] = {}
        for kind, table, check, columns in connection.execute(CONSTRAINTS).fetchall():
            if kind == "CHECK":
                types[table] |= narrowed(connection, table, check, types[table])
            elif kind in ("PRIMARY KEY", "UNIQUE") and not any(types[table][each].nullable for each in columns):
                keys.setdefault(table, columns)
    limits = rows if isinstance(rows, Mapping) else dict.fromkeys(types, rows)
    for name in limits:
        if name not in types:
            raise unknown("table", name, types)
    return {
        table: declared(
            table, [Field(each, usual(type_), names[table][each]) for each, type_ in types[table].items()],
            limits.get(table, ROWS), keys.get(table, ()),
        )
        for table in types
    }  # fmt: skip


def sql_type(where: str, name: str) -> Type:
    """Return the type of a column of SQL, with all values that its SQL type has. where: names the table and the column.

    >>> sql_type("sales.price", "DECIMAL(6,2)")
    integer(-999999, 999999, scale=2)
    """
    if name in INTEGERS:
        return integer(*INTEGERS[name])
    if name in OTHERS:
        return OTHERS[name]
    if (decimal := DECIMAL.fullmatch(name)) is not None:
        precision, scale = map(int, decimal.groups())
        if scale <= MAX_DIGITS:
            largest = min(10**precision - 1, LARGEST)
            return integer(-largest, largest, scale)
    raise absent_type(where, name)


def absent_type(where: str, name: str) -> DeltamarkError:
    """Return the error for a column of a type that the engine does not have."""
    others = f"an integer, DECIMAL({MAX_DIGITS}, s), DOUBLE, DATE, TIME, TIMESTAMP, BOOLEAN or VARCHAR"
    other = f"store it as {others}, or leave it out"
    remedy = next((remedy for begins, remedy in REMEDIES.items() if name.upper().startswith(begins)), other)
    return DeltamarkError("a type that the engine does not have", f"{where} {name}", remedy)


def _create(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Create the tables of a text in DuckDB, without rows."""
    import duckdb  # noqa: PLC0415

    number, remedy = 0, "give CREATE TABLE statements, as DuckDB reads them"
    try:
        for number, statement in enumerate(connection.extract_statements(text), 1):
            if statement.type == duckdb.StatementType.CREATE:
                connection.execute(statement)
            found = connection.execute("SELECT count(*), sum(estimated_size) FROM duckdb_tables()").fetchone()
            if found != (number, 0):
                actual = f"{' '.join(statement.query.split()).rstrip(';'):.60}"
                raise DeltamarkError("not the declaration of a new table", actual, remedy)
        if number == 0:
            raise DeltamarkError("no declaration of a table", repr(text), remedy)
    except duckdb.Error as error:
        raise DeltamarkError("DuckDB refuses a declaration", str(error).partition("\n\n")[0], remedy) from None


Columns = dict[str, dict[str, Type]]
Names = dict[str, dict[str, str]]
"""The types of the columns of each table, and their names in SQL."""


def _columns(connection: duckdb.DuckDBPyConnection) -> tuple[Columns, Names]:
    types: Columns = {}
    names: Names = {}
    for table, column, name, is_nullable in connection.execute(COLUMNS).fetchall():
        type_ = sql_type(f"{table}.{column}", name)
        types.setdefault(table, {})[column] = type_.or_null() if is_nullable else type_
        names.setdefault(table, {})[column] = name
    for table in types:
        refuse_collations(connection, table)
    return types, names


def refuse_collations(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Raise an error for a column with a collation, which only DuckDB's plans show."""
    plan = connection.execute("SELECT json_serialize_plan(?)", [f"FROM {quoted(table)}"]).fetchall()[0][0]
    for each in json.loads(plan)["plans"][0]["expressions"]:
        if collation := (each["return_type"]["type_info"] or {}).get("collation"):
            raise absent_type(f"{table}.{each['alias']}", f"VARCHAR COLLATE {collation}")


def usual(type_: Type) -> Type:
    """Return the type of a column, in which the bounds of DATES take the place of those that no CHECK states."""
    if type_.kind != "date":
        return type_
    low, high = type_.low, type_.high
    if low == UNBOUNDED_DATES.low:
        low = DATES.low if high >= DATES.low else ALL_DATES.low
    if high == UNBOUNDED_DATES.high:
        high = DATES.high if low <= DATES.high else ALL_DATES.high
    return replace(type_, low=low, high=high)
