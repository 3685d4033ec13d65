"""Rows made by hand, of TPC-H and of tables with NULL: complete rows from a few values, and batches of changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from deltamark.datagen.tpch import RELATIONS
from deltamark.harness.engines.base import Value
from deltamark.harness.engines.external.columns import DIFF, TIME
from deltamark.harness.engines.external.messages import Columns, RelationColumns

ARROW_TYPES: Mapping[str, pa.DataType] = {
    "int64": pa.int64(), "decimal(2)": pa.decimal128(15, 2), "date32": pa.date32(), "string": pa.string(),
}  # fmt: skip

SQL_TYPES = {"int64": "BIGINT", "decimal(2)": "DECIMAL(15, 2)", "date32": "DATE", "string": "VARCHAR"}

MAX_ROWS = 100_000
"""A bound of the live rows of each relation, in the cases and in the batches of `times`."""

SALES = RelationColumns(
    [("sale", "int64"), ("shop", "int64"), ("price", "decimal(2)"), ("sold", "date32"), ("kind", "string"),
     ("note", "string")], MAX_ROWS, ["shop", "price", "sold", "kind", "note"],
)  # fmt: skip
SHOPS = RelationColumns([("place", "int64"), ("sort", "string"), ("city", "string")], MAX_ROWS, ["place", "sort"])

WITH_NULL: Mapping[str, RelationColumns] = {"sales": SALES, "shops": SHOPS}
"""Tables that no benchmark has, since the relations of TPC-H have no NULL."""

PRIMARY_KEYS: Mapping[str, tuple[str, ...]] = {
    name: tuple(each.prefix + column for column in each.key) for name, each in RELATIONS.items()
}  # fmt: skip

DICTIONARIES = {"kind", "sort", *(each.prefix + name for each in RELATIONS.values() for name in each.codes)}
"""The columns whose texts are in a dictionary, as the codes of TPC-H are."""

SHIPPED = dt.date(1994, 6, 15)
ORDERED = dt.date(1994, 6, 1)

LINE: Mapping[str, Value] = {
    "l_orderkey": 1, "l_partkey": 1, "l_suppkey": 1, "l_linenumber": 1, "l_quantity": Decimal("10.00"),
    "l_extendedprice": Decimal("1000.10"), "l_discount": Decimal("0.06"), "l_tax": Decimal("0.02"),
    "l_returnflag": "N", "l_linestatus": "O", "l_shipdate": SHIPPED, "l_commitdate": SHIPPED, "l_receiptdate": SHIPPED,
    "l_shipinstruct": "NONE", "l_shipmode": "AIR", "l_comment": "none",
}  # fmt: skip
ORDER: Mapping[str, Value] = {
    "o_orderkey": 1, "o_custkey": 1, "o_orderstatus": "O", "o_totalprice": Decimal("1000.10"), "o_orderdate": ORDERED,
    "o_orderpriority": "1-URGENT", "o_clerk": "Clerk#000000001", "o_shippriority": 0, "o_comment": "none",
}  # fmt: skip
CUSTOMER: Mapping[str, Value] = {
    "c_custkey": 1, "c_name": "Customer#000000001", "c_address": "1 Main Street", "c_nationkey": 1,
    "c_phone": "11-111-111-1111", "c_acctbal": Decimal("1.00"), "c_mktsegment": "BUILDING", "c_comment": "none",
}  # fmt: skip

SALE: Mapping[str, Value] = {
    "sale": 1, "shop": 1, "price": Decimal("9.50"), "sold": SHIPPED, "kind": "BOOK", "note": "gift",
}  # fmt: skip
SHOP: Mapping[str, Value] = {"place": 1, "sort": "BOOK", "city": "Oslo"}

TEMPLATES: Mapping[str, Mapping[str, Value]] = {
    "lineitem": LINE, "orders": ORDER, "customer": CUSTOMER, "sales": SALE, "shops": SHOP,
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """A change of a relation. values: those that differ from the template of the relation."""

    time: int
    diff: int
    relation: str
    values: Mapping[str, Value]

    def row(self, columns: Columns) -> tuple[Value, ...]:
        """Return the values of some columns."""
        return tuple({**TEMPLATES[self.relation], **self.values}[name] for name, _ in columns)


def line(time: int, diff: int = 1, **values: Value) -> Change:
    return Change(time, diff, "lineitem", {f"l_{name}": value for name, value in values.items()})


def order(time: int, diff: int = 1, **values: Value) -> Change:
    return Change(time, diff, "orders", {f"o_{name}": value for name, value in values.items()})


def customer(time: int, diff: int = 1, **values: Value) -> Change:
    return Change(time, diff, "customer", {f"c_{name}": value for name, value in values.items()})


def sale(time: int, diff: int = 1, /, **values: Value) -> Change:
    return Change(time, diff, "sales", values)


def shop(time: int, diff: int = 1, /, **values: Value) -> Change:
    return Change(time, diff, "shops", values)


def batch_of(columns: Columns, changes: Sequence[Change]) -> pa.RecordBatch:
    """Return the changes of one relation as the content of a file of the protocol."""
    rows = [change.row(columns) for change in changes]
    arrays = [pa.array([change.time for change in changes], pa.int64()),
              pa.array([change.diff for change in changes], pa.int64())]  # fmt: skip
    for at, (name, type_) in enumerate(columns):
        array = pa.array([row[at] for row in rows], ARROW_TYPES[type_])
        arrays.append(array.dictionary_encode() if name in DICTIONARIES else array)
    return pa.RecordBatch.from_arrays(arrays, names=[TIME, DIFF, *(name for name, _ in columns)])


def declared(name: str, relation: RelationColumns) -> str:
    """Return the SQL that creates a table."""
    columns = (
        f"{column} {SQL_TYPES[type_]}{'' if column in relation.nullable else ' NOT NULL'}"
        for column, type_ in relation.columns
    )
    return f"CREATE TABLE {name} ({', '.join(columns)})"
