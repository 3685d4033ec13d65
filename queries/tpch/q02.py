"""Q2, minimum cost supplier: the suppliers of a region with the lowest cost for each part of a size and metal."""

from __future__ import annotations

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Parameter, Query, Tables
from deltamark.queries.substitution import METALS, REGION, number_between, one_of

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

q02 = Query(
    SQL,
    order_by=ORDER,
    parameters={
        "size": Parameter(15, number_between(1, 50)),
        "metal": Parameter("BRASS", one_of(METALS)),
        "region": Parameter("EUROPE", REGION),
    },
)


@q02.variant
def plain(tpch: Tables, *, size: int, metal: str, region: str) -> Collection:
    nations = tpch.nation.rename(nation="name").join(tpch.region.where(col.name == region), on="regionkey")
    suppliers = tpch.supplier.join(nations, on="nationkey")
    parts = tpch.part.where((col.size == size) & col.type.like(f"%{metal}")).select("partkey", "mfgr")
    return (
        tpch.partsupp.select("partkey", "suppkey", "supplycost")
        .join(parts, on="partkey")
        .join(suppliers, on="suppkey")
        .smallest("supplycost", by="partkey")
        .select("acctbal", "name", "nation", "partkey", "mfgr", "address", "phone", "comment")
        .top(100, ORDER)
    )
