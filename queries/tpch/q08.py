"""Q8, national market share: the share of a nation in a region's revenue from parts of a type, by year."""

from __future__ import annotations

import datetime as dt
from random import Random

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col, when
from deltamark.queries.query import Parameter, Parameters, Query, Tables
from deltamark.queries.substitution import NATIONS, TYPE, one_of

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


def draw(chance: Random) -> Parameters:
    """Draw a nation of the region."""
    region = one_of(tuple(NATIONS))(chance)
    return {"nation": chance.choice(NATIONS[str(region)]), "region": region, "type": TYPE(chance)}


q08 = Query(
    SQL,
    order_by=("o_year",),
    parameters={
        "nation": Parameter("BRAZIL"), "region": Parameter("AMERICA"), "type": Parameter("ECONOMY ANODIZED STEEL"),
    },
    draw=draw,
)  # fmt: skip


@q08.variant
def plain(tpch: Tables, *, nation: str, region: str, type: str) -> Collection:  # noqa: A002 (the column's name)
    members = tpch.nation.join(tpch.region.where(col.name == region), on="regionkey").select("nationkey")
    customers = tpch.customer.join(members, on="nationkey").select("custkey")
    orders = (
        tpch.orders.where(col.orderdate.between(dt.date(1995, 1, 1), dt.date(1996, 12, 31)))
        .join(customers, on="custkey")
        .select("orderkey", o_year=col.orderdate.year())
    )
    nations = tpch.nation.select("nationkey", ours=when(col.name == nation, 1).otherwise(0))
    volume = col.extendedprice * (1 - col.discount)
    return (
        tpch.lineitem.join(tpch.part.where(col.type == type).select("partkey"), on="partkey")
        .join(orders, on="orderkey")
        .join(tpch.supplier.join(nations, on="nationkey"), on="suppkey")
        .aggregate(by="o_year", mkt_share=(col.ours * volume).sum() / volume.sum())
    )
