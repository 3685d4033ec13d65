"""Q11, important stock: the parts whose stock in a nation is worth more than a fraction of all stock there."""

from __future__ import annotations

from decimal import Decimal

from deltamark.dataflow.language.collection import Collection, total
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Query, Tables

SQL = """
SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value
FROM partsupp, supplier, nation
WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = {nation}
GROUP BY ps_partkey
HAVING sum(ps_supplycost * ps_availqty) * {inverse_fraction} > (
    SELECT sum(ps_supplycost * ps_availqty)
    FROM partsupp, supplier, nation
    WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name = {nation})
ORDER BY value DESC, ps_partkey
"""


def _values(tpch: Tables, nation: str) -> tuple[Collection, Collection]:
    """Return the value of each part, and that of all."""
    nations = tpch["nation"].where(col.name == nation).select("nationkey")
    suppliers = tpch["supplier"].select("suppkey", "nationkey").join(nations, on="nationkey").select("suppkey")
    stock = tpch["partsupp"].select("partkey", "suppkey", value=col.supplycost * col.availqty)
    local = stock.semijoin(suppliers, on="suppkey")
    return local.aggregate(by="partkey", value=total(col.value)), local.aggregate(all=total(col.value))


def moving(tpch: Tables, *, nation: str, inverse_fraction: Decimal) -> Collection:
    """Move the threshold: when it rises, only the parts that it passes are touched."""
    parts, everything = _values(tpch, nation)
    limit = everything.select("all", inverse_fraction=inverse_fraction)
    return parts.above(limit, col.value, "all", "inverse_fraction")


def joined(tpch: Tables, *, nation: str, inverse_fraction: Decimal) -> Collection:
    """Join every part with the total: whenever it changes, all of them are looked at again."""
    parts, everything = _values(tpch, nation)
    return parts.cross(everything).where(col.value * inverse_fraction > col["all"]).select("partkey", "value")


Q11 = Query(
    SQL,
    relations=("nation", "partsupp", "supplier"),
    variants={"moving": moving, "joined": joined},
    order=("-value", "partkey"),
)
