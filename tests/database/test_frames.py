"""Rows go in and out as frames of every kind, with the types of the table."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from support.database.twins import counted

from deltamark import DeltamarkError, connect

DECLARATION = "CREATE TABLE sales (shop INTEGER, price DECIMAL(9, 2), day DATE, name VARCHAR, moment TIMESTAMP)"
COLUMNS = {
    "shop": [7, 8, 7, None],
    "price": [Decimal("9.50"), Decimal("0.01"), Decimal("9.50"), None],
    "day": [dt.date(2025, 1, 2), None, dt.date(2025, 1, 2), dt.date(1999, 12, 31)],
    "name": ["é", "", "é", None],
    "moment": [dt.datetime(2025, 1, 2, 3, 4, 5, 6), None, dt.datetime(2025, 1, 2, 3, 4, 5, 6), None],  # noqa: DTZ001
}
TABLE = pa.table(COLUMNS)
ROWS = TABLE.to_pylist()


class Stream:
    """An object with a stream of Arrow, and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def polars(table):
    return pytest.importorskip("polars").from_arrow(table)


def texts(table):
    return [{name: None if value is None else str(value) for name, value in row.items()} for row in table.to_pylist()]


DECLARED = pa.schema({
    "shop": pa.int32(), "price": pa.decimal128(9, 2), "day": pa.date32(), "name": pa.string(),
    "moment": pa.timestamp("us"),
})  # fmt: skip

FRAMES = {
    "table": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=1)),
    "pandas": lambda table: pd.DataFrame(table.to_pydict()),
    "pandas with an index": lambda table: pd.DataFrame(table.to_pydict(), index=range(9, 9 + len(table))),
    "polars": polars,
    "relation": duckdb.from_arrow,
    "stream": Stream,
    "dictionaries": lambda table: table.to_pylist(),
    "iterator of dictionaries": lambda table: iter(table.to_pylist()),
    "columns": lambda table: table.to_pydict(),
    "other order": lambda table: table.select(["name", "moment", "day", "shop", "price"]),
    "other case": lambda table: table.rename_columns([name.upper() for name in COLUMNS]),
    "texts": texts,
    "types of the table": lambda table: table.cast(DECLARED),
}  # fmt: skip
"""The same rows in frames of every kind."""


@pytest.fixture
def con():
    with connect() as connection:
        connection.execute(DECLARATION)
        connection.execute("CREATE VIEW everything AS SELECT * FROM sales")
        connection.execute(
            "CREATE VIEW sums AS SELECT shop, sum(price) AS price, avg(shop) AS mean FROM sales GROUP BY shop"
        )
        yield connection


def rows(con, name):
    return counted(con.execute(f"SELECT * FROM {name}").fetchall())


@pytest.mark.parametrize("kind", FRAMES)
def test_rows_come_and_go_by_frames_of_every_kind(con, kind):
    assert con.insert("sales", FRAMES[kind](TABLE)) == 4
    assert rows(con, "sales") == rows(con, "everything") == counted([tuple(row.values()) for row in ROWS])
    assert rows(con, "sums") == counted([(7, Decimal("19.00"), 7.0), (8, Decimal("0.01"), 8.0), (None, None, None)])
    assert con.delete("sales", FRAMES[kind](TABLE)) == 4
    assert not rows(con, "sales")
    assert not rows(con, "everything")
    assert not rows(con, "sums")


@pytest.mark.parametrize("kind", FRAMES)
def test_rows_are_updated_or_inserted_by_frames_of_every_kind(kind):
    with connect() as con:
        con.execute(f"CREATE TABLE shops ({DECLARATION.partition('(')[2][:-1]}, n INTEGER DEFAULT 4)")
        con.execute("CREATE VIEW everything AS SELECT shop, name, n FROM shops")
        con.execute("INSERT INTO shops (shop, name, n) VALUES (7, 'old', 1), (9, 'other', 2), (NULL, 'none', 3)")
        assert con.upsert("shops", FRAMES[kind](TABLE.slice(1)), key="shop") == 3
        assert rows(con, "everything") == counted([(7, "é", 1), (9, "other", 2), (8, "", 4), (None, None, 3)])


def test_results_are_frames_of_every_kind(con):
    con.insert("sales", TABLE)
    query = "SELECT shop, price, day, name, moment, sum(shop) OVER () AS total FROM sales ORDER BY shop, name LIMIT 2"
    result = con.execute(query)
    first = (7, Decimal("9.50"), dt.date(2025, 1, 2), "é", COLUMNS["moment"][0], 22)
    assert result.fetchone() == first
    assert result.fetchmany(5) == [first]
    assert result.fetchone() is None
    assert result.fetchall() == []
    result = con.execute(query)
    assert list(result) == [first, first]
    assert result.arrow().schema.field("price").type == pa.decimal128(9, 2)
    assert result.df()["shop"].tolist() == [7, 7]
    assert pa.table(result) == result.arrow()
    assert duckdb.from_arrow(result.arrow()).fetchall() == [first, first]
    assert [(name, type_) for name, type_, *_ in result.description] == [
        ("shop", "INTEGER"), ("price", "DECIMAL(9,2)"), ("day", "DATE"), ("name", "VARCHAR"), ("moment", "TIMESTAMP"),
        ("total", "HUGEINT"),
    ]  # fmt: skip
    assert (result.rowcount, len(result), result.columns[0]) == (2, 2, "shop")
    assert con.execute("UPDATE sales SET shop = 1 WHERE shop = 8").rowcount == 1
    assert con.execute("BEGIN").rowcount == -1


def test_a_result_becomes_a_frame_of_polars(con):
    pytest.importorskip("polars")
    con.insert("sales", TABLE)
    assert con.execute("SELECT shop FROM sums WHERE shop IS NOT NULL ORDER BY shop").pl()["shop"].to_list() == [7, 8]


def test_a_result_is_printed_as_a_table(con):
    con.insert("sales", TABLE)
    assert (
        repr(con.execute("SELECT shop, name, 'a\nb' AS lines FROM sales ORDER BY shop, name LIMIT 3"))
        == """\
   shop  name     lines
INTEGER  VARCHAR  VARCHAR
-------  -------  -------
      7  é        a\\nb
      7  é        a\\nb
      8           a\\nb
3 rows"""
    )
    many = repr(con.execute("SELECT range AS n, repeat('x', 100) AS x FROM range(50)"))
    assert many.endswith("50 rows, of which 20 are shown")
    assert max(map(len, many.splitlines())) < 60
    assert repr(con.execute("SELECT 1 WHERE false")).endswith("0 rows")


WRONG = {
    "an unknown column": ([{"shp": 1}], "unknown column of sales: shp; did you mean shop"),
    "a column twice": (pa.table({"shop": [1], "SHOP": [2]}), "several columns with the same name: sales.shop"),
    "no number": ([{"shop": "seven"}], "Could not convert string 'seven' to INT32 .* in: insert into sales"),
    "too large": ([{"shop": 2**40}], "out of range"),
    "several types": ([{"shop": 1}, {"shop": "x"}], "rows that Arrow cannot read"),
    "no rows": (5, "not rows: int; give a table of Arrow"),
    "a text": ("shop", "not rows: str"),
    "a list of numbers": ([1, 2], "not rows: list"),
    "too early": ([{"day": dt.date(1850, 1, 1)}], "the views cannot follow a change: a value outside its bounds"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rows_change_nothing(con, name):
    con.insert("sales", TABLE)
    frame, message = WRONG[name]
    with pytest.raises(DeltamarkError, match=message):
        con.insert("sales", frame)
    assert sum(rows(con, "sales").values()) == sum(rows(con, "everything").values()) == 4
    con.insert("sales", [{"shop": 1}])
    assert sum(rows(con, "everything").values()) == 5


@pytest.mark.parametrize("rows", [[], TABLE[:0], pd.DataFrame({"shop": []})], ids=["list", "table", "pandas"])
def test_no_rows_change_nothing(rows):
    with connect() as con:
        con.execute("CREATE TABLE t (shop INTEGER NOT NULL)")
        assert (con.insert("t", rows), con.delete("t", rows), con.upsert("t", rows)) == (0, 0, 0)


def test_columns_that_rows_lack_are_null_or_have_their_default():
    with connect() as con:
        con.execute("CREATE TABLE t (a INTEGER DEFAULT 5, b VARCHAR, c INTEGER NOT NULL)")
        con.execute("CREATE VIEW v AS SELECT a, b, c FROM t")
        con.insert("t", [{"c": 1}])
        con.insert("t", [{"c": 2, "a": None}])
        with pytest.raises(DeltamarkError, match="NOT NULL"):
            con.insert("t", [{"b": "x"}])
        with pytest.raises(DeltamarkError, match="NOT NULL"):
            con.insert("t", [{"a": 1, "b": "x", "c": None}])
        assert rows(con, "v") == rows(con, "t") == counted([(5, None, 1), (None, None, 2)])


def test_rows_wait_beside_a_table_until_a_statement_reads_it(con):
    """Statements see the rows, inside and outside of transactions, and a rollback undoes what it should."""
    con.insert("sales", [{"shop": 1}])
    con.execute("BEGIN")
    con.insert("sales", [{"shop": 2}])
    assert con.execute("SELECT count(*) FROM sales").fetchall() == [(2,)]
    con.insert("sales", [{"shop": 3}])
    con.execute("UPDATE sales SET shop = shop + 10")
    con.execute("ROLLBACK")
    assert rows(con, "sales") == rows(con, "everything") == counted([(1, None, None, None, None)])
    with con.transaction():
        con.insert("sales", [{"shop": 4}])
        con.execute("INSERT INTO sales (shop) SELECT shop + 1 FROM sales")
        con.insert("sales", [{"shop": 6}])
    shops = con.execute("SELECT shop FROM everything ORDER BY shop").fetchall()
    assert shops == con.execute("SELECT shop FROM sales ORDER BY shop").fetchall() == [(1,), (2,), (4,), (5,), (6,)]


def test_columns_that_may_be_null_wait_beside_those_that_may_not(con):
    whole = pa.table({"shop": pa.array([7], pa.int32())})
    required = pa.table(whole.columns, schema=pa.schema([pa.field("shop", pa.int32(), nullable=False)]))
    both = [each.append_column("name", [["x"]]) for each in (whole, required)]
    for each in (whole, required, *both, {"shop": [8]}):
        con.insert("sales", each)
    assert rows(con, "sales") == rows(con, "everything")
    assert con.execute("SELECT sum(shop) FROM sales").fetchall() == [(36,)]


def test_macros_see_rows_that_wait_and_answers_of_views(con):
    con.execute("CREATE MACRO total() AS (SELECT count(*) FROM sales)")
    con.execute("CREATE MACRO seen() AS TABLE SELECT shop FROM everything")
    con.insert("sales", [{"shop": 1}, {"shop": 2}])
    assert con.execute("SELECT total()").fetchall() == [(2,)]
    assert con.execute("SELECT sum(shop) FROM seen()").fetchall() == [(3,)]


def test_a_view_on_rows_that_wait_has_them(con):
    con.insert("sales", TABLE)
    con.insert("sales", TABLE)
    con.execute("CREATE VIEW late AS SELECT name, count(*) AS n FROM sales GROUP BY name")
    assert rows(con, "late") == counted([("é", 4), ("", 2), (None, 2)])


def test_equal_rows_are_deleted_one_by_one(con):
    con.insert("sales", TABLE)
    assert con.delete("sales", [ROWS[0]]) == 1
    with pytest.raises(DeltamarkError, match=r"a row to delete that is not there: sales: 7, 9\.50, .*, and 1 more"):
        con.delete("sales", [ROWS[0], ROWS[0], ROWS[0]])
    assert rows(con, "everything") == counted([tuple(row.values()) for row in ROWS[1:]])


def test_rows_are_deleted_by_their_key():
    with connect() as con:
        con.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR)")
        con.execute("CREATE VIEW v AS SELECT b FROM t")
        con.insert("t", [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
        with pytest.raises(
            DeltamarkError, match="rows to delete that are not whole: t: b; give all columns, or at least the"
        ):
            con.delete("t", [{"b": "x"}])
        with pytest.raises(DeltamarkError, match="a row to delete that is not there: t: 3"):
            con.delete("t", [{"a": 1}, {"a": 3}])
        assert con.delete("t", [{"a": 1}]) == 1
        assert con.execute("FROM v").fetchall() == [("y",)]


def test_an_upsert_needs_a_key():
    with connect() as con:
        con.execute("CREATE TABLE t (a INTEGER, b VARCHAR)")
        for frame, key, message in (
            ([{"a": 1}], (), "an upsert without a key: t; give key=, or declare a PRIMARY KEY"),
            ([{"b": "x"}], "a", "a key without values: t.a"),
            ([{"a": 1, "b": "x"}, {"a": 1, "b": "y"}], "a", "several rows with the same key: t: a"),
        ):
            with pytest.raises(DeltamarkError, match=message):
                con.upsert("t", frame, key=key)
        assert con.upsert("t", [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], key="A") == 2
        assert con.upsert("t", [{"a": 1}], key=["a"]) == 0
        assert rows(con, "t") == counted([(1, "x"), (2, "y")])
