"""Q8, national market share: which share of a region's revenue from parts of a type goes to a nation, by year."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection, total
from deltamark.dataflow.language.expr import col, when
from deltamark.queries.query import Query, Tables

SQL = """
SELECT o_year, sum(CASE WHEN nation = {nation} THEN volume ELSE 0 END) / sum(volume) AS mkt_share
FROM (
    SELECT year(o_orderdate) AS o_year, l_extendedprice * (1 - l_discount) AS volume, n2.n_name AS nation
    FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
    WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey
      AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey AND r_name = {region}
      AND s_nationkey = n2.n_nationkey AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
      AND p_type = {type}) AS all_nations
GROUP BY o_year
ORDER BY o_year
"""


def plain(tpch: Tables, *, nation: str, region: str, type: str) -> Collection:  # noqa: A002 (the column's name)
    regions = tpch["region"].where(col.name == region).select("regionkey")
    members = tpch["nation"].select("nationkey", "regionkey").join(regions, on="regionkey").select("nationkey")
    customers = tpch["customer"].select("custkey", "nationkey").join(members, on="nationkey").select("custkey")
    orders = (
        tpch["orders"]
        .where(col.orderdate.between(dt.date(1995, 1, 1), dt.date(1996, 12, 31)))
        .select("orderkey", "custkey", o_year=col.orderdate.year())
        .join(customers, on="custkey")
        .select("orderkey", "o_year")
    )
    nations = tpch["nation"].select("nationkey", ours=when(col.name == nation, 1).otherwise(0))
    suppliers = tpch["supplier"].select("suppkey", "nationkey").join(nations, on="nationkey").select("suppkey", "ours")
    volumes = (
        tpch["lineitem"]
        .select("orderkey", "partkey", "suppkey", volume=col.extendedprice * (1 - col.discount))
        .join(orders, on="orderkey")
        .join(tpch["part"].where(col.type == type).select("partkey"), on="partkey")
        .join(suppliers, on="suppkey")
    )
    shares = {"mkt_share.num": total(col.ours * col.volume), "mkt_share.den": total(col.volume)}
    return volumes.aggregate(by="o_year", **shares)


Q08 = Query(
    SQL,
    relations=("customer", "lineitem", "nation", "orders", "part", "region", "supplier"),
    variants={"plain": plain},
    order=("o_year",),
)
