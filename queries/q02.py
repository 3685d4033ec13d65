"""Q2, minimum cost supplier: who in a region supplies each part of a size and metal at the lowest cost."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Query, Tables

SQL = """
SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
FROM part, supplier, partsupp, nation, region
WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey
  AND p_size = {size} AND p_type LIKE '%' || {metal}
  AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = {region}
  AND ps_supplycost = (
    SELECT min(ps_supplycost)
    FROM partsupp, supplier, nation, region
    WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey
      AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = {region})
ORDER BY s_acctbal DESC, n_name, s_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
LIMIT 100
"""

ORDER = ("-acctbal", "nation", "name", "partkey")


def plain(tpch: Tables, *, size: int, metal: str, region: str) -> Collection:
    regions = tpch["region"].where(col.name == region).select("regionkey")
    nations = tpch["nation"].select("nationkey", "regionkey", nation=col.name).join(regions, on="regionkey")
    suppliers = (
        tpch["supplier"]
        .select("suppkey", "nationkey", "acctbal", "name", "address", "phone", "comment")
        .join(nations.select("nationkey", "nation"), on="nationkey")
    )
    parts = tpch["part"].where((col.size == size) & col.type.like(f"%{metal}")).select("partkey", "mfgr")
    return (
        tpch["partsupp"]
        .select("partkey", "suppkey", "supplycost")
        .join(parts, on="partkey")
        .join(suppliers, on="suppkey")
        .smallest("supplycost", by="partkey")
        .select("acctbal", "name", "nation", "partkey", "mfgr", "address", "phone", "comment")
        .top(100, ORDER)
    )


Q02 = Query(
    SQL,
    relations=("nation", "part", "partsupp", "region", "supplier"),
    variants={"plain": plain},
    order=ORDER,
)
