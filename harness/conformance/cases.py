"""The cases: batches of a few rows, each with the property that it shows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from deltamark.harness.conformance.rows import Change, customer, line, order, sale, shop
from deltamark.harness.engines.base import Value

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
    Case("aggregates of NULL", "null_totals", (
        (sale(0, **NULLS),), (sale(8), sale(8, price=None)), (sale(16, -1),), (sale(24, -1, price=None),),
        (sale(32, -1, **NULLS),),
    )),
)  # fmt: skip
