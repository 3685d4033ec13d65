"""Laws of conversions: rows of Arrow become the batches that a checked feed reads, or the same errors."""

from __future__ import annotations

import random
from contextlib import closing
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from deltamark import DeltamarkError, connect
from deltamark.database.conversions import Conversion
from deltamark.database.store import Store
from deltamark.dataflow.batch import PADDING_BYTES
from deltamark.dataflow.runtime.inputs import checked_column
from deltamark.dataflow.sql.arrow_tables import arrow_batch

TYPES = {
    "TINYINT": [-128, 0, 127], "SMALLINT": [-32768, 5], "INTEGER": [-(2**31), 2**31 - 1],
    "BIGINT": [-(2**62), 2**62],
    "UTINYINT": [0, 255], "USMALLINT": [65535], "UINTEGER": [0, 2**32 - 1], "UBIGINT": [0, 2**62],
    "DECIMAL(3,1)": [Decimal("-99.9"), Decimal("0.1")], "DECIMAL(9,2)": [Decimal("-9999999.99"), Decimal("7.25")],
    "DECIMAL(18,4)": [Decimal("-99999999999999.9999"), Decimal(3)],
    "DECIMAL(30,2)": [Decimal("-7.25"), Decimal(10**16)],
    "HUGEINT": [-(10**18), 10**18], "DOUBLE": [-0.5, 1e300], "FLOAT": [0.25], "BOOLEAN": [True, False],
    "VARCHAR": ["", "seven letters", "ü"], "DATE": ["1900-01-01", "2199-12-31"],
    "TIME": ["00:00:00", "23:59:59.999999"],
    "TIMESTAMP": ["1970-01-01 00:00:00", "2100-05-05 05:05:05.123456"], "TIMESTAMPTZ": ["2025-06-01 12:00:00+02"],
}  # fmt: skip
"""Some values of each type, with the least and the largest ones."""


@pytest.fixture
def store():
    with closing(Store(10**6)) as found:
        yield found


def declared(store, type_):
    """Return a table of columns of a type: v may be NULL, w may not."""
    store.duckdb.execute(f"CREATE OR REPLACE TABLE t (v {type_}, w {type_} NOT NULL)")
    store.catalog.forget()
    return store.catalog["t"]


def rows_of(store, values):
    """Return rows in the types of the table. values: those of each row."""
    literals = ", ".join(
        "(" + ", ".join("NULL" if each is None else f"'{each}'" for each in row) + ")" for row in values
    )
    store.duckdb.execute(f"DELETE FROM t; INSERT INTO t VALUES {literals}")
    return store.duckdb.sql("FROM t").to_arrow_table()


def cut(rows, rng):
    """Return equal rows that are divided into chunks, each of which begins within its buffers."""
    chunks, at = [], 0
    while at < rows.num_rows:
        size = rng.randrange(1, 4)
        whole = pa.concat_tables([rows.slice(0, 3), rows.slice(at, size)]).combine_chunks()
        chunks.append(whole.slice(min(3, rows.num_rows)))
        at += size
    return pa.concat_tables(chunks)


def contents(columns):
    return {name: each.to_pylist() if isinstance(each, pa.Array) else each.tolist() for name, each in columns.items()}


def checked(rows, table, names):
    """Return the columns that a feed reads of the batch that the general way makes of rows."""
    schema = table.collection.schema
    batch = arrow_batch(rows, schema, 1)
    return {name: checked_column(name, schema[name], batch.columns[name]) for name in names}


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("nulls", [False, True])
def test_a_conversion_has_the_columns_that_a_feed_makes_of_any_batch(store, type_, nulls):
    rng, table = random.Random(1), declared(store, type_)
    values = TYPES[type_]
    rows = [(None if nulls and rng.random() < 0.3 else rng.choice(values), rng.choice(values)) for _ in range(40)]
    given = rows_of(store, [*rows, *((each, each) for each in values)])
    conversion = Conversion(table, ["v", "w"])
    for each in (given, given.slice(3), cut(given, rng)):
        found, expected = conversion.batch([(each, 1)], 7), checked(each, table, ["v", "w"])
        assert contents(found.columns) == contents(expected)
        assert [getattr(of, "dtype", None) for of in found.columns.values()] == [
            getattr(of, "dtype", None) for of in expected.values()
        ]
        assert found.time.tolist() == [7] * each.num_rows
        assert found.diff.tolist() == [1] * each.num_rows


def test_deleted_rows_come_first_and_are_counted(store):
    table = declared(store, "INTEGER")
    one, two = rows_of(store, [(1, 1)]), rows_of(store, [(2, 2), (3, 3)])
    found = Conversion(table, ["w"]).batch([(two, 1), (one, -1)], 5)
    assert (found.columns["w"].tolist(), found.diff.tolist()) == ([1, 2, 3], [-1, 1, 1])
    assert (found.added, found.pointers.inserts) == (1, False)


def test_numbers_at_any_address_are_read(store):
    """Arrow reads a file where it is, so a buffer may begin anywhere."""
    table = declared(store, "BIGINT")
    content = bytes(3) + np.array([7, -8], np.int64).tobytes() + bytes(PADDING_BYTES)
    column = pa.Array.from_buffers(pa.int64(), 2, [None, pa.py_buffer(content)[3:]])
    found = Conversion(table, ["v"]).batch([(pa.table({"v": column, "w": column}), 1)], 1)
    assert found.columns["v"].tolist() == [7, -8]
    assert found.columns["v"].flags.aligned


BEYOND = {
    "DECIMAL(9,2)": [(10**9, 0), (7, 1), (2**63 - 1, -1), (-1, 0)],
    "DECIMAL(18,2)": [(10**18, 0), (7, -1), (-(2**63), -1)],
}
"""Words of decimals that have more digits than their type, which Arrow does not check."""


@pytest.mark.parametrize(("type_", "words"), [(name, each) for name, of in BEYOND.items() for each in of])
def test_a_decimal_with_more_digits_than_its_type_is_refused(store, type_, words):
    table = declared(store, type_)
    buffer = pa.py_buffer(np.array([5, 0, *words], np.int64))
    column = pa.Array.from_buffers(table.schema.field("w").type, 2, [None, buffer])
    rows = pa.table({"v": column, "w": column})
    with pytest.raises(DeltamarkError, match="a value outside its bounds"):
        Conversion(table, ["w"]).batch([(rows, 1)], 1)


@pytest.mark.parametrize(("type_", "value"), [("UBIGINT", 2**63), ("DATE", "1899-12-31"), ("BIGINT", -(2**63))])
def test_a_value_that_the_engine_cannot_store_is_refused(store, type_, value):
    table = declared(store, type_)
    rows = rows_of(store, [(value, value)])
    for name in ("v", "w"):
        with pytest.raises(DeltamarkError, match=f"a value outside its bounds|{value} not in range"):
            Conversion(table, [name]).batch([(rows, 1)], 1)


def test_the_most_live_rows_are_counted_over_commits():
    with connect(rows=3) as con:
        con.execute("CREATE TABLE sales (shop INTEGER); CREATE VIEW n AS SELECT count(*) AS n FROM sales")
        for _ in range(3):
            con.insert("sales", {"shop": [7]})
        with pytest.raises(DeltamarkError, match="more rows than declared: sales: 4, declared 3"):
            con.insert("sales", {"shop": [7]})
        con.execute("DELETE FROM sales WHERE rowid = 0")
        con.insert("sales", {"shop": [8]})
        assert con.execute("FROM n").fetchall() == [(3,)]
