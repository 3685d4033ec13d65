"""Q17, small-quantity-order revenue: the yearly revenue of lines below a fifth of their part's average quantity."""

from __future__ import annotations

from decimal import Decimal

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Parameter, Query, Tables
from deltamark.queries.substitution import CONTAINERS, PACKS, brand, phrase_of

SQL = """
SELECT sum(l_extendedprice) / 7.0 AS avg_yearly
FROM lineitem, part
WHERE p_partkey = l_partkey AND p_brand = {brand} AND p_container = {container}
  AND l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)
"""

q17 = Query(
    SQL,
    parameters={
        "brand": Parameter("Brand#23", brand),
        "container": Parameter("MED BOX", phrase_of(PACKS, CONTAINERS)),
    },
)


@q17.variant
def plain(tpch: Tables, *, brand: str, container: str) -> Collection:
    parts = tpch.part.where((col.brand == brand) & (col.container == container)).select("partkey")
    lines = tpch.lineitem.join(parts, on="partkey")
    means = lines.aggregate(by="partkey", mean=col.quantity.mean())
    small = lines.join(means, on="partkey").where(col.quantity < Decimal("0.2") * col.mean)
    return small.aggregate(price=col.extendedprice.sum()).select(avg_yearly=col.price / 7).or_null()
