"""Q3, shipping priority: the ten orders of a market segment with the most revenue still to be shipped at a date."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection, total
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Query, Tables

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


def plain(tpch: Tables, *, segment: str, date: dt.date) -> Collection:
    customers = tpch["customer"].where(col.mktsegment == segment).select("custkey")
    orders = (
        tpch["orders"]
        .where(col.orderdate < date)
        .select("orderkey", "custkey", "orderdate", "shippriority")
        .join(customers, on="custkey")
    )
    return (
        tpch["lineitem"]
        .where(col.shipdate > date)
        .select("orderkey", volume=col.extendedprice * (1 - col.discount))
        .join(orders, on="orderkey")
        .aggregate(by=("orderkey", "orderdate", "shippriority"), revenue=total(col.volume))
        .select("orderkey", "revenue", "orderdate", "shippriority")
        .top(10, ORDER)
    )


Q03 = Query(SQL, relations=("customer", "lineitem", "orders"), variants={"plain": plain}, order=ORDER)
