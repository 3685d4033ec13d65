"""The cases: batches of a few rows, each with the property that it shows.

Rows made by hand, of TPC-H and of tables with NULL: complete rows from a few values, and batches of changes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile

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


LATE = dt.date(1995, 6, 15)
"""A shipping date after the year of Q6, and before the limit of Q1. Q3 takes lines that were shipped after an order of
before 1995-03-15.
"""
EARLIER = dt.date(1994, 1, 1)
"""A date of an order in the answer of Q3."""


@dataclass(frozen=True)
class Case:
    """Batches of a query. The answer is compared after each batch, and at each time if the engine has a stream.

    The keys of TPC-H that the rows of a case keep are announced.
    """

    name: str
    query: str
    batches: tuple[tuple[Change, ...], ...]

    @property
    def deletions(self) -> bool:
        """Whether rows leave."""
        return any(change.diff < 0 for batch in self.batches for change in batch)

    @property
    def before_deletions(self) -> Case:
        """The batches before the first one from which rows leave; the whole case if there are none."""
        inserting = takewhile(lambda batch: all(change.diff > 0 for change in batch), self.batches)
        kept = tuple(inserting)
        return Case(f"{self.name}, before rows leave", self.query, kept) if kept and self.deletions else self


def _joined(time: int, key: int, diff: int = 1) -> tuple[Change, ...]:
    """Return an order of a customer of its own, with a line."""
    return (
        customer(time, diff, custkey=key),
        order(time + 1, diff, orderkey=key, custkey=key),
        line(time + 2, diff, orderkey=key, shipdate=LATE),
    )


def _order(time: int, key: int, diff: int = 1, **values: Value) -> Change:
    """Return a change of the order of `_joined`, with other values."""
    return order(time, diff, **{"orderkey": key, "custkey": key, **values})


NOTHING_BETWEEN = Case("growth again after nothing", "q01", ((line(0),), (line(8, -1),), (line(16),)))

TWO_QUERIES = Case("rows that two queries read", "q01", (
    (line(0), line(0, returnflag="A")), (line(8, -1, returnflag="A"), line(8, quantity=7)), (line(16, -1, quantity=7),),
))  # fmt: skip
"""Q6 has an answer that is not NULL after each batch: not all engines have one otherwise."""

CASES = (
    Case("an empty batch before all others", "q06", ((), (line(8),))),
    Case("an empty batch between others", "q06", ((line(0),), (), (line(16),))),
    Case("rows that change no answer", "q06", ((line(0),), (line(8, shipdate=LATE),))),
    Case("retraction", "q06", ((line(0), line(0, quantity=5)), (line(8, -1, quantity=5),))),
    Case("retraction and insertion of one row at one time", "q06", ((line(0),), (line(8, -1), line(8)))),
    Case("an update at one time", "q06", ((line(0),), (line(8, -1), line(8, quantity=7)))),
    Case("an answer with NULL", "q06", ((line(0),), (line(8, -1),))),
    Case("duplicate rows", "q01", ((line(0), line(0), line(0)), (line(8, -1),), (line(16, -1), line(16, -1)))),
    Case("deletion to nothing", "q01", (
        (line(0), line(0, returnflag="A")), (line(8, -1, returnflag="A"), line(8, -1)),
    )),
    NOTHING_BETWEEN,
    Case("several times in one batch", "q01", ((line(0), line(8), line(16, -1), line(24, returnflag="R")),)),
    Case("a change that is undone within a batch", "q01", (
        (line(0),), (line(8, returnflag="R"), line(16, -1, returnflag="R")),
    )),
    Case("several relations in one batch", "q03", ((*_joined(0, 1), *_joined(8, 2)),)),
    Case("the relations of a join in batches of their own", "q03", (
        (customer(0),), (order(9),), (line(18, shipdate=LATE),),
    )),
    Case("retraction from one relation of a join", "q03", (_joined(0, 1), (customer(8, -1),), (customer(16),))),
    Case("retraction from all relations of a join", "q03", ((*_joined(0, 1), *_joined(0, 2)), _joined(8, 1, -1))),
    Case("rows that enter and leave the first ten", "q03", (
        tuple(change for key in range(1, 13) for change in _joined(0, key)), _joined(8, 3, -1), _joined(16, 1, -1),
    )),
    Case("an update of a row with a key", "q03", (
        _joined(0, 1), (_order(9, 1, -1), _order(9, 1, orderdate=EARLIER)),
        (_order(17, 1, -1, orderdate=EARLIER), _order(17, 1, orderdate=LATE)), (_order(25, 1, -1, orderdate=LATE),),
    )),
    Case("several updates of a row with a key in one batch", "q03", (
        _joined(0, 1),
        (_order(9, 1, -1), _order(9, 1, orderdate=EARLIER), _order(17, 1, -1, orderdate=EARLIER), _order(17, 1),
         _order(25, 1, -1), _order(25, 1, orderdate=EARLIER)),
    )),
    Case("a row with a key comes back with other values", "q03", (
        _joined(0, 1), (_order(9, 1, -1), _order(17, 1, orderdate=EARLIER)), (_order(25, 1, -1, orderdate=EARLIER),),
        (_order(33, 1),),
    )),
    Case("a row with a key moves to another row of a join and back", "q03", (
        (*_joined(0, 1), customer(0, custkey=2), customer(0, custkey=3, mktsegment="MACHINERY")),
        (_order(9, 1, -1), _order(9, 1, custkey=2), _order(17, 1, -1, custkey=2), _order(17, 1, custkey=3)),
        (_order(25, 1, -1, custkey=3), _order(25, 1)), (customer(32, -1, custkey=2), customer(32, -1, custkey=1)),
    )),
)  # fmt: skip

NULL_QUERIES: Mapping[str, str] = {
    "null_rows": "SELECT sale, shop, price, sold, kind, note FROM sales",
    "null_groups": (
        "SELECT shop, price, sold, kind, note, count(*) AS sales FROM sales GROUP BY shop, price, sold, kind, note"
    ),
    "null_join": "SELECT sale, city FROM sales JOIN shops ON shop = place AND kind = sort",
    "null_left_join": "SELECT sale, shop, place, city FROM sales LEFT JOIN shops ON shop = place",
    "null_totals": (
        "SELECT count(*) AS sales, count(price) AS priced, sum(price) AS revenue, min(sold) AS first_sold, "
        "max(shop) AS last_shop FROM sales"
    ),
    "null_conditions": "SELECT sale, price > 5 AS dear, shop IS NULL AS nowhere, kind = note AS alike FROM sales",
    "null_times": "SELECT sale, kind, CAST(sold AS TIMESTAMP) + INTERVAL 90 MINUTE AS paid, sold AS day FROM sales",
}
"""Queries over tables with NULL, by their names in `open`."""

NULLS: dict[str, None] = dict.fromkeys(("shop", "price", "sold", "kind", "note"))
"""NULL in every column that may have it."""

ZEROS: Mapping[str, Value] = {
    "shop": 0, "price": Decimal("0.00"), "sold": dt.date(1970, 1, 1), "kind": "", "note": "",
}  # fmt: skip
"""The values that NULL is most easily taken for, since Arrow stores them below a NULL."""


def _one_null(time: int, diff: int = 1) -> tuple[Change, ...]:
    """Return a row for each column that may have NULL, with NULL in this column."""
    return tuple(sale(time, diff, **{column: None}) for column in NULLS)


NULL_CASES = (
    Case("retraction of rows with NULL in a column", "null_rows", (
        (sale(0), *_one_null(0), sale(0, sale=2)),
        *((sale(8 * number, -1, **{name: None}),) for number, name in enumerate(reversed(NULLS), 1)), (sale(48, -1),),
    )),
    Case("one of two equal rows with NULL leaves", "null_rows", (
        (sale(0), *_one_null(0), *_one_null(0), sale(0, **NULLS), sale(0, **NULLS)),
        (*_one_null(8, -1), sale(8, -1, **NULLS)), (sale(16, **NULLS),), (sale(24, -1, **NULLS), sale(24, -1, **NULLS)),
    )),
    Case("NULL is no zero, no first day and no empty text", "null_rows", (
        (sale(0, **ZEROS), sale(0, **NULLS)), (sale(8, -1, **NULLS),), (sale(16, **NULLS), sale(16, -1, **ZEROS)),
    )),
    Case("updates from NULL to a value and back", "null_rows", (
        (sale(0), sale(0, sale=2, **NULLS)), (sale(8, -1, sale=2, **NULLS), sale(8, sale=2)),
        (sale(16, -1, sale=2), sale(16, sale=2, **NULLS)),
    )),
    Case("NULL in the key of a group", "null_groups", (
        (sale(0), *_one_null(0), *_one_null(0), sale(0, **NULLS), sale(0, **ZEROS)), (*_one_null(8, -1),),
        (sale(16, -1, **NULLS), sale(16, -1)),
    )),
    Case("NULL in the key of a join", "null_join", (
        (sale(0), sale(0, sale=2, shop=None), sale(0, sale=3, kind=None), sale(0, sale=4, **NULLS)),
        (shop(8), shop(8, place=None, city="Rome"), shop(8, sort=None, city="Lima"), shop(8, place=None, sort=None)),
        (sale(16, -1, sale=2, shop=None), sale(16, sale=2)), (shop(24, -1, place=None, city="Rome"), shop(24, -1)),
    )),
    Case("NULL in the key of a left join", "null_left_join", (
        (sale(0), sale(0, sale=2, shop=None), shop(1), shop(1, place=None, city="Rome")),
        (sale(8, -1, sale=2, shop=None), shop(9, -1, place=None, city="Rome")), (shop(17, -1),),
    )),
    Case("timestamps and dates", "null_times", (
        (sale(0), sale(0, sale=2, sold=None), sale(0, sale=3, sold=dt.date(1969, 12, 31))),
        (sale(8, -1, sale=2, sold=None), sale(8, sale=2, sold=dt.date(1970, 1, 1))), (sale(16, -1), sale(16, sale=4)),
    )),
    Case("conditions in the answer", "null_conditions", (
        (sale(0), sale(0, sale=2, **NULLS), sale(0, sale=3, kind="gift")),
        (sale(8, -1, sale=2, **NULLS), sale(8, sale=2, price=Decimal("1.00"))), (sale(16, -1), sale(16, sale=4)),
    )),
    Case("aggregates of NULL", "null_totals", (
        (sale(0, **NULLS),), (sale(8), sale(8, price=None)), (sale(16, -1),), (sale(24, -1, price=None),),
        (sale(32, -1, **NULLS),),
    )),
)  # fmt: skip
