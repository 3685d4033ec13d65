"""The backend of ibis: views of expressions are maintained, and all expressions have the answers of ibis over DuckDB.

ibis' own tests of backends are run by `make ibis`.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from pkgutil import resolve_name

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from support.paths import ROOT

from deltamark import DeltamarkError, connect

ibis = pytest.importorskip("ibis")
exc = ibis.common.exceptions

from deltamark.database.ibis_backend import Backend  # noqa: E402  (it needs ibis)

SALES = pa.table({
    "shop": pa.array([7, 8, 7, None], pa.int32()), "price": pa.array([9.5, 4, 0.25, 3], pa.float64()),
    "day": pa.array(["2025-01-02", "2025-01-03", "2025-02-01", None]).cast(pa.date32()),
})  # fmt: skip
SHOPS = pa.table({"shop": pa.array([7, 8, 9], pa.int32()), "city": ["Bonn", "Ulm", None]})


@pytest.fixture
def con():
    found = Backend().connect()
    found.create_table("sales", SALES)
    found.create_table("shops", SHOPS)
    yield found
    found.disconnect()


def rows(table):
    return Counter(tuple(row.values()) for row in table.to_pyarrow().to_pylist())


class Twin:
    """The backend, and a plain DuckDB that gets the same rows and runs the texts of expressions."""

    def __init__(self, con):
        self.con = con
        self.theirs = duckdb.connect()
        for name, given in (("sales", SALES), ("shops", SHOPS)):
            self.theirs.register("given", given)
            self.theirs.execute(f"CREATE TABLE {name} AS FROM given")

    def insert(self, table, more):
        self.con.insert(table, more)
        self.theirs.register("more", more)
        self.theirs.execute(f"INSERT INTO {table} BY NAME FROM more")

    def insert_of(self, table, expression):
        text = self.con.compile(expression)
        self.con.insert(table, expression)
        self.theirs.execute(f"INSERT INTO {table} {text}")

    def answer(self, expression):
        return Counter(self.theirs.execute(self.con.compile(expression)).fetchall())


EXPRESSIONS = {
    "sums": lambda sales, _: sales.group_by("shop").agg(price=sales.price.sum(), n=sales.count()),
    "joined": lambda sales, shops: sales.left_join(shops, "shop").group_by("city").agg(most=sales.price.max()),
    "filtered": lambda sales, _: sales.filter(sales.day > ibis.date(2025, 1, 2)).select(
        "price", month=sales.day.month()
    ),
    "missing": lambda sales, shops: shops.anti_join(sales, "shop"),
    "numbered": lambda sales, _: sales.mutate(
        place=ibis.row_number().over(group_by="shop", order_by=[sales.price, sales.day])
    ),
    "all": lambda sales, shops: sales.select("shop").union(shops.select("shop"), distinct=True),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_views_have_the_answers_of_duckdb_after_each_change(con, name):
    twin = Twin(con)
    sales, shops = con.table("sales"), con.table("shops")
    expression = EXPRESSIONS[name](sales, shops)
    view = con.create_view(name, expression)
    assert view.schema() == con.table(name).schema()
    assert rows(view) == twin.answer(expression)
    twin.insert("sales", pa.table({"shop": [9, 7], "price": [2, 9.5]}))
    twin.insert("shops", SHOPS.slice(0, 1))
    assert rows(view) == twin.answer(expression)
    twin.insert_of("sales", sales.filter(sales.shop == 7).mutate(price=sales.price * 2))
    assert rows(view) == twin.answer(expression)
    con.insert("sales", SALES.slice(1, 2), overwrite=True)
    twin.theirs.execute("DELETE FROM sales WHERE rowid NOT IN (1, 2)")
    assert rows(view) == twin.answer(expression)


def test_a_view_reads_views_and_can_be_replaced(con):
    sales = con.table("sales")
    sums = con.create_view("sums", sales.group_by("shop").agg(price=sales.price.sum()))
    largest = con.create_view("largest", sums.agg(price=sums.price.max()))
    con.insert("sales", [{"shop": 8, "price": 100.0}])
    assert largest.execute()["price"].tolist() == [104]
    assert largest.price.max().execute() == 104
    with pytest.raises(DeltamarkError, match="views read what a statement would change"):
        con.create_view("sums", sales, overwrite=True)
    con.create_view("largest", sums.agg(price=sums.price.min()), overwrite=True)
    assert con.table("largest").execute()["price"].tolist() == [3]
    assert con.list_tables() == ["largest", "sales", "shops", "sums"]
    assert con.list_tables(like="^s.*s$") == ["sales", "shops", "sums"]
    con.drop_view("largest")
    con.drop_view("largest", force=True)
    assert "largest" not in con.list_tables()


def test_an_overwriting_insert_is_one_commit(con):
    sales = con.table("sales")
    con.create_view("total", sales.agg(price=sales.price.sum()))
    with con.con.subscribe("total") as changes:
        con.insert("sales", pd.DataFrame({"shop": [1], "price": [2.5]}), overwrite=True)
        assert changes.read(0).fetchall() == [(1, -1, 16.75), (1, 1, 2.5)]
        assert changes.read(0) is None


def test_tables_are_made_of_rows_of_expressions_and_of_schemas(con):
    schema = ibis.schema({"a": "!int32", "b": "array<string>", "c": "decimal(9, 2)"})
    assert con.create_table("declared", schema=schema).schema() == schema
    con.insert("declared", [(1, ["x"], 2)])
    with pytest.raises(DeltamarkError, match="NOT NULL"):
        con.insert("declared", {"b": [["x"]]})
    made = con.create_table("made", con.table("sales").select("shop", twice=ibis._.price * 2))
    assert made.twice.sum().execute() == 33.5
    con.create_table("made", made.filter(ibis._.shop == 8), overwrite=True)
    assert con.table("made").execute().to_numpy().tolist() == [[8, 8]]
    con.upsert("made", {"shop": [8, 9], "twice": [1.0, 2.0]}, on="shop")
    assert sorted(con.table("made").execute().to_numpy().tolist()) == [[8, 1], [9, 2]]
    con.rename_table("made", "renamed")
    con.truncate_table("renamed")
    assert con.table("renamed").count().execute() == 0
    con.drop_table("renamed")
    with pytest.raises(exc.TableNotFound):
        con.table("renamed")


def test_files_become_tables(con, tmp_path):
    con.to_parquet(con.table("sales"), tmp_path / "sales.parquet")
    con.to_csv(con.table("shops"), tmp_path / "shops.csv")
    read = con.read_parquet(tmp_path / "sales.parquet", table_name="read")
    assert rows(read) == rows(con.table("sales"))
    con.create_view("few", read.filter(read.price > 3))
    assert con.table("few").count().execute() == 2
    assert con.read_csv(tmp_path / "shops.csv", header=True).columns == ("shop", "city")


def test_rows_in_memory_are_read_by_statements_and_not_by_views(con):
    memory = ibis.memtable({"shop": [7], "boss": ["Ann"]})
    joined = con.table("sales").join(memory, "shop")
    assert con.execute(joined.price.sum()) == 9.75
    with pytest.raises(exc.UnsupportedOperationError, match="a view cannot read rows in memory"):
        con.create_view("joined", joined)


def test_answers_come_as_frames_columns_values_and_batches(con):
    sales = con.table("sales").order_by("price")
    assert sales.execute()["shop"].dropna().tolist() == [7, 8, 7]
    assert sales.price.execute().tolist() == [0.25, 3, 4, 9.5]
    assert sales.count().to_pyarrow().as_py() == 4
    assert [len(each) for each in sales.to_pyarrow_batches(chunk_size=3)] == [3, 1]
    assert sales.limit(1).to_pyarrow().to_pylist() == SALES.slice(2, 1).to_pylist()
    assert con.sql("SELECT max(shop) AS m FROM sales").execute()["m"].tolist() == [8]
    cached = sales.filter(sales.price > 3).cache()
    assert cached.count().execute() == 2


@pytest.mark.parametrize("method", [
    lambda con: con.create_table("t", SALES, temp=True),
    lambda con: con.create_table("t", SALES, database="other"),
    lambda con: con.list_tables(database="other"),
    lambda con: con.table("sales", database="other"),
])  # fmt: skip
def test_a_database_has_no_temporary_tables_and_no_schemas(con, method):
    with pytest.raises(exc.UnsupportedOperationError, match="deltamark has"):
        method(con)


def test_an_open_connection_becomes_a_backend(tmp_path):
    with connect(tmp_path / "shop.db") as ours:
        ours.execute("CREATE TABLE t (i INTEGER); INSERT INTO t VALUES (1)")
        con = Backend.from_connection(ours)
        con.create_view("v", con.table("t").mutate(j=ibis._.i + 1))
        with ours.transaction():
            con.insert("t", {"i": [5]})
            con.insert("t", {"i": [6]})
        assert ours.execute("FROM v ORDER BY i").fetchall() == [(1, 2), (5, 6), (6, 7)]
    again = Backend().connect(tmp_path / "shop.db", durable=True)
    assert again.table("v").j.max().execute() == 7
    again.disconnect()


def test_ibis_finds_the_backend():
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["ibis.backends"]
    assert {name: resolve_name(module).Backend for name, module in points.items()} == {Backend.name: Backend}
