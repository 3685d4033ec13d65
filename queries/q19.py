"""Q19, discounted revenue: what parts of three brands brought in, each in its own containers, sizes and quantities."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection, total
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Query, Tables

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


def plain(  # noqa: PLR0913 (SQL's parameters)
    tpch: Tables, *, brand1: str, quantity1: int, brand2: str, quantity2: int, brand3: str, quantity3: int
) -> Collection:
    """Give each part the quantities that it is sought in; their containers keep the three kinds apart."""
    small = _parts(tpch, brand1, ["SM CASE", "SM BOX", "SM PACK", "SM PKG"], 5, quantity1)
    medium = _parts(tpch, brand2, ["MED BAG", "MED BOX", "MED PKG", "MED PACK"], 10, quantity2)
    large = _parts(tpch, brand3, ["LG CASE", "LG BOX", "LG PACK", "LG PKG"], 15, quantity3)
    lines = tpch["lineitem"].where(
        col.quantity.between(min(quantity1, quantity2, quantity3), max(quantity1, quantity2, quantity3) + 10)
        & (col.shipinstruct == "DELIVER IN PERSON")
        & col.shipmode.is_in(["AIR", "AIR REG"])
    )
    return (
        lines.select("partkey", "quantity", volume=col.extendedprice * (1 - col.discount))
        .join(small.concat(medium, large), on="partkey")
        .where((col.quantity >= col.least) & (col.quantity <= col.most))
        .aggregate(revenue=total(col.volume))
        .or_null()
    )


def _parts(tpch: Tables, brand: str, containers: list[str], size: int, quantity: int) -> Collection:
    wanted = (col.brand == brand) & col.container.is_in(containers) & col.size.between(1, size)
    return tpch["part"].where(wanted).select("partkey", least=quantity, most=quantity + 10)


Q19 = Query(SQL, relations=("lineitem", "part"), variants={"plain": plain})
