"""Q3, shipping priority: the ten orders of a market segment with the most revenue still to be shipped at a date."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Parameter, Query, Tables
from deltamark.queries.substitution import SEGMENTS, one_of

SQL = """
SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM customer, orders, lineitem
WHERE c_mktsegment = {segment} AND c_custkey = o_custkey AND l_orderkey = o_orderkey
  AND o_orderdate < {date} AND l_shipdate > {date}
GROUP BY l_orderkey, o_orderdate, o_shippriority
ORDER BY revenue DESC, o_orderdate, l_orderkey, o_shippriority
LIMIT 10
"""

ORDER = ("-revenue", "orderdate")

q03 = Query(
    SQL,
    order_by=ORDER,
    parameters={
        "segment": Parameter("BUILDING", one_of(SEGMENTS)),
        "date": Parameter(dt.date(1995, 3, 15), lambda chance: dt.date(1995, 3, chance.randint(1, 31))),
    },
)


@q03.variant
def plain(tpch: Tables, *, segment: str, date: dt.date) -> Collection:
    customers = tpch.customer.where(col.mktsegment == segment)
    orders = tpch.orders.where(col.orderdate < date).join(customers, on="custkey")
    return (
        tpch.lineitem.where(col.shipdate > date)
        .join(orders, on="orderkey")
        .aggregate(by=("orderkey", "orderdate", "shippriority"), revenue=(col.extendedprice * (1 - col.discount)).sum())
        .select("orderkey", "revenue", "orderdate", "shippriority")
        .top(10, ORDER)
    )
