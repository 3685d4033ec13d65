"""Q4, order priorities: the orders of a quarter of which some line came late, by priority."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Query, Tables, months_later

SQL = """
SELECT o_orderpriority, count(*) AS order_count
FROM orders
WHERE o_orderdate >= {date} AND o_orderdate < CAST({date} + INTERVAL 3 MONTH AS DATE)
  AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority
ORDER BY o_orderpriority
"""


def _inputs(tpch: Tables, date: dt.date) -> tuple[Collection, Collection]:
    orders = tpch["orders"].where((col.orderdate >= date) & (col.orderdate < months_later(date, 3)))
    late = tpch["lineitem"].where(col.commitdate < col.receiptdate)
    return orders.select("orderkey", "orderpriority"), late.select("orderkey")


def plain(tpch: Tables, *, date: dt.date) -> Collection:
    """Make the late keys distinct, and index them again to look orders up."""
    orders, late = _inputs(tpch, date)
    return orders.semijoin(late, on="orderkey").count(by="orderpriority").rename(order_count="count")


def joined(tpch: Tables, *, date: dt.date) -> Collection:
    """Index the late lines once, and make distinct what few orders meet."""
    orders, late = _inputs(tpch, date)
    met = orders.join(late, on="orderkey").distinct()
    return met.count(by="orderpriority").rename(order_count="count")


Q04 = Query(
    SQL,
    relations=("lineitem", "orders"),
    variants={"joined": joined, "plain": plain},
    order=("orderpriority",),
)
