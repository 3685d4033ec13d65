"""Q5, local supplier volume: the revenue of a year within each nation of a region."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Parameter, Query, Tables, months_later
from deltamark.queries.substitution import REGION, year

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

q05 = Query(
    SQL,
    order_by=("-revenue", "name"),
    parameters={"region": Parameter("ASIA", REGION), "date": Parameter(dt.date(1994, 1, 1), year)},
)


@q05.variant
def plain(tpch: Tables, *, region: str, date: dt.date) -> Collection:
    nations = tpch.nation.join(tpch.region.where(col.name == region), on="regionkey")
    suppliers = tpch.supplier.join(nations, on="nationkey")
    customers = tpch.customer.join(nations, on="nationkey").select("custkey", "nationkey")
    orders = tpch.orders.where((col.orderdate >= date) & (col.orderdate < months_later(date, 12)))
    return (
        tpch.lineitem.join(orders.join(customers, on="custkey"), on="orderkey")
        .join(suppliers, on=("suppkey", "nationkey"))
        .aggregate(by="nation.name", revenue=(col.extendedprice * (1 - col.discount)).sum())
        .rename(name="nation.name")
    )
