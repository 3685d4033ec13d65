"""Q5, local supplier volume: the revenue of a year, by nation of a region, where customer and supplier share it."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection, total
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Query, Tables, months_later

SQL = """
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
  AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey
  AND n_regionkey = r_regionkey AND r_name = {region}
  AND o_orderdate >= {date} AND o_orderdate < CAST({date} + INTERVAL 1 YEAR AS DATE)
GROUP BY n_name
ORDER BY revenue DESC, n_name
"""


def plain(tpch: Tables, *, region: str, date: dt.date) -> Collection:
    regions = tpch["region"].where(col.name == region).select("regionkey")
    nations = tpch["nation"].select("nationkey", "name", "regionkey").join(regions, on="regionkey")
    suppliers = tpch["supplier"].select("suppkey", "nationkey").join(nations, on="nationkey")
    customers = tpch["customer"].select("custkey", "nationkey").join(nations, on="nationkey")
    orders = (
        tpch["orders"]
        .where((col.orderdate >= date) & (col.orderdate < months_later(date, 12)))
        .select("orderkey", "custkey")
        .join(customers.select("custkey", "nationkey"), on="custkey")
    )
    return (
        tpch["lineitem"]
        .select("orderkey", "suppkey", volume=col.extendedprice * (1 - col.discount))
        .join(orders.select("orderkey", "nationkey"), on="orderkey")
        .join(suppliers.select("suppkey", "nationkey", "name"), on=("suppkey", "nationkey"))
        .aggregate(by="name", revenue=total(col.volume))
    )


Q05 = Query(
    SQL,
    relations=("customer", "lineitem", "nation", "orders", "region", "supplier"),
    variants={"plain": plain},
    order=("-revenue", "name"),
)
