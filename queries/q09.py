"""Q9, product type profit: the profit from parts of a color, by the supplier's nation and year."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection, total
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Query, Tables

SQL = """
SELECT nation, o_year, sum(amount) AS sum_profit
FROM (
    SELECT n_name AS nation, year(o_orderdate) AS o_year,
           l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
    FROM part, supplier, lineitem, partsupp, orders, nation
    WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey
      AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE '%' || {color} || '%') AS profit
GROUP BY nation, o_year
ORDER BY nation, o_year DESC
"""


def plain(tpch: Tables, *, color: str) -> Collection:
    parts = tpch["part"].where(col.name.contains(color)).select("partkey")
    costs = tpch["partsupp"].select("partkey", "suppkey", "supplycost").join(parts, on="partkey")
    nations = tpch["nation"].select("nationkey", nation=col.name)
    suppliers = tpch["supplier"].select("suppkey", "nationkey").join(nations, on="nationkey")
    return (
        tpch["lineitem"]
        .select("orderkey", "partkey", "suppkey", "quantity", volume=col.extendedprice * (1 - col.discount))
        .join(parts, on="partkey")
        .join(costs, on=("partkey", "suppkey"))
        .select("orderkey", "suppkey", amount=col.volume - col.supplycost * col.quantity)
        .join(suppliers.select("suppkey", "nation"), on="suppkey")
        .join(tpch["orders"].select("orderkey", o_year=col.orderdate.year()), on="orderkey")
        .aggregate(by=("nation", "o_year"), sum_profit=total(col.amount))
    )


Q09 = Query(
    SQL,
    relations=("lineitem", "nation", "orders", "part", "partsupp", "supplier"),
    variants={"plain": plain},
    order=("nation", "-o_year"),
)
