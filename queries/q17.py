"""Q17, small-quantity-order revenue: what a year brings in by lines of less than a fifth of their part's average."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection, average, total
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Query, Tables

SQL = """
SELECT sum(l_extendedprice) / 7.0 AS avg_yearly
FROM lineitem, part
WHERE p_partkey = l_partkey AND p_brand = {brand} AND p_container = {container}
  AND l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)
"""


def plain(tpch: Tables, *, brand: str, container: str) -> Collection:
    parts = tpch["part"].where((col.brand == brand) & (col.container == container)).select("partkey")
    lines = tpch["lineitem"].select("partkey", "quantity", "extendedprice").join(parts, on="partkey")
    averages = lines.aggregate(by="partkey", quantity=average(col.quantity))
    small = lines.below(averages, 5 * col.quantity, "quantity.num", "quantity.den", on="partkey")
    revenue = small.aggregate(revenue=total(col.extendedprice))
    return revenue.select(**{"avg_yearly.num": col.revenue, "avg_yearly.den": 7}).or_null()


Q17 = Query(SQL, relations=("lineitem", "part"), variants={"plain": plain})
