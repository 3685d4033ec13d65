"""Q19, discounted revenue: the revenue of parts of three brands, each with its own containers, sizes and quantities."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Parameter, Query, Tables
from deltamark.queries.substitution import brand, number_between

SQL = """
SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem, part
WHERE (p_partkey = l_partkey AND p_brand = {brand1}
    AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
    AND l_quantity >= {quantity1} AND l_quantity <= {quantity1} + 10 AND p_size BETWEEN 1 AND 5
    AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
  OR (p_partkey = l_partkey AND p_brand = {brand2}
    AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
    AND l_quantity >= {quantity2} AND l_quantity <= {quantity2} + 10 AND p_size BETWEEN 1 AND 10
    AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
  OR (p_partkey = l_partkey AND p_brand = {brand3}
    AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
    AND l_quantity >= {quantity3} AND l_quantity <= {quantity3} + 10 AND p_size BETWEEN 1 AND 15
    AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON')
"""

q19 = Query(
    SQL,
    parameters={
        "brand1": Parameter("Brand#12", brand), "quantity1": Parameter(1, number_between(1, 10)),
        "brand2": Parameter("Brand#23", brand), "quantity2": Parameter(10, number_between(10, 20)),
        "brand3": Parameter("Brand#34", brand), "quantity3": Parameter(20, number_between(20, 30)),
    },
)  # fmt: skip


def parts_of(tpch: Tables, brand: str, containers: list[str], size: int, quantity: int) -> Collection:
    """Return the parts of one of the three kinds, with the quantities in which they count."""
    kind = (col.brand == brand) & col.container.is_in(containers) & col.size.between(1, size)
    return tpch.part.where(kind).select("partkey", least=quantity, most=quantity + 10)


@q19.variant
def plain(  # noqa: PLR0913 (SQL's parameters)
    tpch: Tables, *, brand1: str, quantity1: int, brand2: str, quantity2: int, brand3: str, quantity3: int
) -> Collection:
    small = parts_of(tpch, brand1, ["SM CASE", "SM BOX", "SM PACK", "SM PKG"], 5, quantity1)
    medium = parts_of(tpch, brand2, ["MED BAG", "MED BOX", "MED PKG", "MED PACK"], 10, quantity2)
    large = parts_of(tpch, brand3, ["LG CASE", "LG BOX", "LG PACK", "LG PKG"], 15, quantity3)
    lines = tpch.lineitem.where(
        col.quantity.between(min(quantity1, quantity2, quantity3), max(quantity1, quantity2, quantity3) + 10)
        & (col.shipinstruct == "DELIVER IN PERSON")
        & col.shipmode.is_in(["AIR", "AIR REG"])
    )
    return (
        lines.join(small.concat(medium, large), on="partkey")
        .where((col.quantity >= col.least) & (col.quantity <= col.most))
        .aggregate(revenue=(col.extendedprice * (1 - col.discount)).sum())
        .or_null()
    )
