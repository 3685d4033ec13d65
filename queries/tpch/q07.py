"""Q7, volume shipping: the revenue of goods shipped between two nations, by direction and year, for two years."""

from __future__ import annotations

import datetime as dt
from random import Random

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Parameter, Parameters, Query, Tables
from deltamark.queries.substitution import NATIONS

SQL = """
SELECT supp_nation, cust_nation, l_year, sum(volume) AS revenue
FROM (
    SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, year(l_shipdate) AS l_year,
           l_extendedprice * (1 - l_discount) AS volume
    FROM supplier, lineitem, orders, customer, nation n1, nation n2
    WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
      AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
      AND ((n1.n_name = {nation1} AND n2.n_name = {nation2}) OR (n1.n_name = {nation2} AND n2.n_name = {nation1}))
      AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') AS shipping
GROUP BY supp_nation, cust_nation, l_year
ORDER BY supp_nation, cust_nation, l_year
"""


def draw(chance: Random) -> Parameters:
    """Draw two different nations."""
    nation1, nation2 = chance.sample([nation for nations in NATIONS.values() for nation in nations], 2)
    return {"nation1": nation1, "nation2": nation2}


q07 = Query(
    SQL,
    order_by=("supp_nation", "cust_nation", "l_year"),
    parameters={"nation1": Parameter("FRANCE"), "nation2": Parameter("GERMANY")},
    draw=draw,
)


@q07.variant
def plain(tpch: Tables, *, nation1: str, nation2: str) -> Collection:
    nations = tpch.nation.where((col.name == nation1) | (col.name == nation2)).select("nationkey", "name")
    suppliers = tpch.supplier.select("suppkey", "nationkey").join(nations.rename(supp_nation="name"), on="nationkey")
    customers = tpch.customer.select("custkey", "nationkey").join(nations.rename(cust_nation="name"), on="nationkey")
    return (
        tpch.lineitem.where(col.shipdate.between(dt.date(1995, 1, 1), dt.date(1996, 12, 31)))
        .join(suppliers, on="suppkey")
        .join(tpch.orders.join(customers, on="custkey"), on="orderkey")
        .where(col.supp_nation != col.cust_nation)
        .select("supp_nation", "cust_nation", l_year=col.shipdate.year(), volume=col.extendedprice * (1 - col.discount))
        .aggregate(by=("supp_nation", "cust_nation", "l_year"), revenue=col.volume.sum())
    )
