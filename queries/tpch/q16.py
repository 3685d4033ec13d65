"""Q16, parts and suppliers: the number of suppliers without complaints for each brand, type and size of parts."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Parameter, Query, Tables
from deltamark.queries.substitution import FINISHES, KINDS, brand, phrase_of

SQL = """
SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS supplier_cnt
FROM partsupp, part
WHERE p_partkey = ps_partkey AND p_brand <> {brand} AND p_type NOT LIKE {type} || '%' AND p_size IN {sizes}
  AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
GROUP BY p_brand, p_type, p_size
ORDER BY supplier_cnt DESC, p_brand, p_type, p_size
"""

q16 = Query(
    SQL,
    order_by=("-supplier_cnt", "brand", "type", "size"),
    parameters={
        "brand": Parameter("Brand#45", brand),
        "type": Parameter("MEDIUM POLISHED", phrase_of(KINDS, FINISHES)),
        "sizes": Parameter((49, 14, 23, 45, 19, 3, 36, 9), lambda chance: tuple(chance.sample(range(1, 51), 8))),
    },
)


@q16.variant
def plain(tpch: Tables, *, brand: str, type: str, sizes: tuple[int, ...]) -> Collection:  # noqa: A002 (the column's name)
    parts = tpch.part.where((col.brand != brand) & ~col.type.starts_with(type) & col.size.is_in(sizes))
    complaints = tpch.supplier.where(col.comment.like("%Customer%Complaints%"))
    return (
        tpch.partsupp.join(parts, on="partkey")
        .antijoin(complaints, on="suppkey")
        .distinct("brand", "type", "size", "suppkey")
        .count(by=("brand", "type", "size"))
        .rename(supplier_cnt="count")
    )
