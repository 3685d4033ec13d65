"""Q4, order priorities: the number of orders of a quarter with a late line, by priority."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Parameter, Query, Tables, months_later
from deltamark.queries.substitution import month_from

SQL = """
SELECT o_orderpriority, count(*) AS order_count
FROM orders
WHERE o_orderdate >= {date} AND o_orderdate < CAST({date} + INTERVAL 3 MONTH AS DATE)
  AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority
ORDER BY o_orderpriority
"""

q04 = Query(
    SQL,
    order_by=("orderpriority",),
    parameters={"date": Parameter(dt.date(1993, 7, 1), month_from(dt.date(1993, 1, 1), 58))},
)


def inputs(tpch: Tables, date: dt.date) -> tuple[Collection, Collection]:
    """Return the orders of the quarter, and the late lines."""
    orders = tpch.orders.where((col.orderdate >= date) & (col.orderdate < months_later(date, 3)))
    return orders, tpch.lineitem.where(col.commitdate < col.receiptdate)


@q04.variant
def joined(tpch: Tables, *, date: dt.date) -> Collection:
    """Join the orders with all late lines, and make the pairs distinct: they are few."""
    orders, late = inputs(tpch, date)
    pairs = orders.select("orderkey", "orderpriority").join(late.select("orderkey"), on="orderkey")
    return pairs.distinct().count(by="orderpriority").rename(order_count="count")


@q04.variant
def plain(tpch: Tables, *, date: dt.date) -> Collection:
    """Make the keys of the late lines distinct, and arrange them once more for the orders."""
    orders, late = inputs(tpch, date)
    return orders.semijoin(late, on="orderkey").count(by="orderpriority").rename(order_count="count")
