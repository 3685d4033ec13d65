"""Inputs that are declared by CREATE TABLE statements."""

from __future__ import annotations

import datetime as dt

import pytest

from deltamark.dataflow.sql.tables import DATES, sql_tables
from deltamark.dataflow.types import BOOL, LARGEST, TEXT, date_type, integer
from deltamark.errors import DeltamarkError

TYPES = {
    "TINYINT": integer(-128, 127),
    "USMALLINT": integer(0, 65535),
    "INTEGER": integer(-(2**31), 2**31 - 1),
    "BIGINT": integer(-LARGEST, LARGEST),
    "UBIGINT": integer(0, LARGEST),
    "BOOLEAN": BOOL,
    "DECIMAL(5, 2)": integer(-99999, 99999, scale=2),
    "NUMERIC(18)": integer(1 - 10**18, 10**18 - 1),
    "DATE": DATES,
    "VARCHAR(9)": TEXT,
    "CHAR(1)": TEXT,
}


def columns(text):
    (table,) = sql_tables(text).values()
    return {field.name: field.type for field in table.schema.fields}


@pytest.mark.parametrize("name", TYPES)
def test_a_type_has_the_values_of_its_sql_type(name):
    assert columns(f'CREATE TABLE t ("a b" {name} NOT NULL, c {name})') == {
        "a b": TYPES[name], "c": TYPES[name].or_null(),
    }  # fmt: skip


def test_each_statement_is_an_input():
    made = sql_tables("-- two tables\nCREATE TABLE t (a INTEGER); CREATE TABLE u (b DATE);", {"u": 7})
    assert list(made) == ["t", "u"]
    assert made["u"].schema.rows == 7


@pytest.mark.parametrize(
    ("constraints", "key"),
    [
        ("a INTEGER PRIMARY KEY, b INTEGER UNIQUE", ("a",)),
        ("a INTEGER, b INTEGER, UNIQUE (b), PRIMARY KEY (b, a)", ("b", "a")),
        ("a INTEGER UNIQUE, b INTEGER NOT NULL UNIQUE", ("b",)),
        ("a INTEGER NOT NULL, b INTEGER, UNIQUE (a, b)", ()),
        ("a INTEGER NOT NULL", ()),
    ],
)
def test_a_key_has_no_columns_that_may_be_null(constraints, key):
    assert sql_tables(f"CREATE TABLE t ({constraints})")["t"].node.key == key


CHECKS = {
    "x >= 1 AND 9 > x": (1, 8),
    "x BETWEEN 1 AND 9": (1, 9),
    "x = 4": (4, 4),
    "x > 1.5 AND x <= '7'": (2, 7),
    "-3 < x AND x < 1e2": (-2, 99),
    "x <= 1000": (-128, 127),
}


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_narrows_the_bounds(check):
    low, high = CHECKS[check]
    assert columns(f"CREATE TABLE t (x TINYINT NOT NULL CHECK ({check}))") == {"x": integer(low, high)}


@pytest.mark.parametrize(
    ("check", "low", "high"),
    [
        ("x BETWEEN '1992-01-01' AND DATE '1998-12-31'", dt.date(1992, 1, 1), dt.date(1998, 12, 31)),
        ("x < TIMESTAMP '2000-01-01 12:00:00'", dt.date(1900, 1, 1), dt.date(2000, 1, 1)),
        ("x >= DATE '1700-01-01'", dt.date(1700, 1, 1), dt.date(2199, 12, 31)),
        ("x < DATE '1700-01-01'", dt.date.min, dt.date(1699, 12, 31)),
        ("x > DATE '2300-01-01'", dt.date(2300, 1, 2), dt.date.max),
        ("x >= '0001-01-01'", dt.date.min, dt.date(2199, 12, 31)),
        ("x <= '9999-12-31'", dt.date(1900, 1, 1), dt.date.max),
        ("x BETWEEN '0001-01-01' AND '9999-12-31'", dt.date.min, dt.date.max),
        ("x <= '0001-01-01'", dt.date.min, dt.date.min),
        ("x >= '9999-12-31'", dt.date.max, dt.date.max),
    ],
)
def test_a_check_of_dates_overrides_the_usual_bound_on_its_side(check, low, high):
    assert columns(f"CREATE TABLE t (x DATE NOT NULL CHECK ({check}))") == {"x": date_type(low, high)}


REFUSED = {
    "CREATE TABLE t (x TIMESTAMP_S)": "a type that the engine does not have: t.x TIMESTAMP_S; store it as TIMESTAMP",
    "CREATE TABLE t (x DECIMAL(38, 19))": "t.x DECIMAL(38,19); store it with at most 18 digits behind the point",
    "CREATE TABLE t (x VARCHAR COLLATE NOCASE)": "t.x VARCHAR COLLATE NOCASE; leave the collation out",
    "CREATE TABLE t (x ENUM ('a', 'b'))": "a type that the engine does not have: t.x ENUM('a', 'b'); store it as",
    "CREATE TABLE t (x BOOLEAN CHECK (x = TRUE))": "a CHECK that is not a bound: t: (x = ",
    "CREATE TABLE t (x INTEGER[])": "t.x INTEGER[]; store it as an integer, DECIMAL(18, s), DOUBLE, DATE",
    "CREATE TABLE t (x INTEGER, y INTEGER CHECK (x < y))": "a CHECK that is not a bound: t: (x < y); write a >= 1",
    "CREATE TABLE t (x INTEGER CHECK (x IN (1, 3)))": "a CHECK that is not a bound",
    "CREATE TABLE t (x INTEGER CHECK (x < NULL))": "a CHECK that is not a bound",
    "CREATE TABLE t (x VARCHAR CHECK (x < 'a'))": "a CHECK that is not a bound",
    "CREATE TABLE t (x INTEGER CHECK (x > 5 AND x < 1))": "a CHECK that no value passes: t.x",
    "CREATE TABLE t (x DATE CHECK (x < '0001-01-01'))": "a CHECK that no value passes: t.x",
    "CREATE TABLE t (x DATE CHECK (x > '9999-12-31'))": "a CHECK that no value passes: t.x",
    "CREATE TABLE t (x DATE CHECK (x > '2001-01-01' AND x < '2000-01-01'))": "a CHECK that no value passes: t.x",
    "CREATE TABLE t (x INTEGER": "DuckDB refuses a declaration: Parser Error",
    "CREATE TABLE t (x INTEGER); DROP TABLE t": "not the declaration of a new table: DROP TABLE t;",
    "CREATE TABLE t AS SELECT 1 AS x": "not the declaration of a new table",
    "CREATE TABLE t AS FROM 'file.csv'": "file system operations are disabled",
    "": "no declaration of a table: ''; give CREATE TABLE statements",
}


@pytest.mark.parametrize("text", REFUSED)
def test_other_texts_are_errors_of_one_line(text):
    with pytest.raises(DeltamarkError) as error:
        sql_tables(text)
    assert REFUSED[text] in str(error.value)


def test_rows_of_an_unknown_table_are_an_error():
    with pytest.raises(DeltamarkError, match="unknown table: sale; did you mean sales"):
        sql_tables("CREATE TABLE sales (x INTEGER)", {"sale": 5})
