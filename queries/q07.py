"""Q7, volume shipping: the revenue of goods shipped between two nations, by direction and year, for two years."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection, total
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Query, Tables

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


def plain(tpch: Tables, *, nation1: str, nation2: str) -> Collection:
    nations = tpch["nation"].where((col.name == nation1) | (col.name == nation2)).select("nationkey", "name")
    suppliers = tpch["supplier"].select("suppkey", "nationkey").join(nations.rename(supp_nation="name"), on="nationkey")
    customers = tpch["customer"].select("custkey", "nationkey").join(nations.rename(cust_nation="name"), on="nationkey")
    orders = tpch["orders"].select("orderkey", "custkey").join(customers.select("custkey", "cust_nation"), on="custkey")
    return (
        tpch["lineitem"]
        .where(col.shipdate.between(dt.date(1995, 1, 1), dt.date(1996, 12, 31)))
        .select("orderkey", "suppkey", l_year=col.shipdate.year(), volume=col.extendedprice * (1 - col.discount))
        .join(suppliers.select("suppkey", "supp_nation"), on="suppkey")
        .join(orders.select("orderkey", "cust_nation"), on="orderkey")
        .where(col.supp_nation != col.cust_nation)
        .aggregate(by=("supp_nation", "cust_nation", "l_year"), revenue=total(col.volume))
    )


Q07 = Query(
    SQL,
    relations=("customer", "lineitem", "nation", "orders", "supplier"),
    variants={"plain": plain},
    order=("supp_nation", "cust_nation", "l_year"),
)
