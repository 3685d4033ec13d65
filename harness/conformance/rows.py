"""Rows of TPC-H made by hand: complete rows from a few values, and batches of changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from deltamark.harness.engines.base import Value
from deltamark.harness.engines.external.columns import DIFF, TIME
from deltamark.harness.engines.external.messages import Columns

ARROW_TYPES: Mapping[str, pa.DataType] = {
    "int64": pa.int64(), "decimal(2)": pa.decimal128(15, 2), "date32": pa.date32(), "string": pa.string(),
}  # fmt: skip

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

TEMPLATES: Mapping[str, Mapping[str, Value]] = {"lineitem": LINE, "orders": ORDER, "customer": CUSTOMER}


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


def batch_of(columns: Columns, changes: Sequence[Change]) -> pa.RecordBatch:
    """Return the changes of one relation as the content of a file of the protocol."""
    rows = [change.row(columns) for change in changes]
    arrays = [pa.array([change.time for change in changes], pa.int64()),
              pa.array([change.diff for change in changes], pa.int64())]  # fmt: skip
    arrays += [pa.array([row[at] for row in rows], ARROW_TYPES[type_]) for at, (_, type_) in enumerate(columns)]
    return pa.RecordBatch.from_arrays(arrays, names=[TIME, DIFF, *(name for name, _ in columns)])
