"""Q9, product type profit: the profit from parts of a color, by the supplier's nation and year."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Parameter, Query, Tables
from deltamark.queries.substitution import COLORS, one_of

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

q09 = Query(SQL, order_by=("nation", "-o_year"), parameters={"color": Parameter("green", one_of(COLORS))})


@q09.variant
def plain(tpch: Tables, *, color: str) -> Collection:
    parts = tpch.part.where(col.name.contains(color)).select("partkey")
    suppliers = tpch.supplier.select("suppkey", "nationkey").join(tpch.nation.rename(nation="name"), on="nationkey")
    amount = col.extendedprice * (1 - col.discount) - col.supplycost * col.quantity
    return (
        tpch.lineitem.join(parts, on="partkey")
        .join(tpch.partsupp.join(parts, on="partkey"), on=("partkey", "suppkey"))
        .join(suppliers, on="suppkey")
        .join(tpch.orders.select("orderkey", o_year=col.orderdate.year()), on="orderkey")
        .aggregate(by=("nation", "o_year"), sum_profit=amount.sum())
    )
