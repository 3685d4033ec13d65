"""Q11, important stock: the parts whose stock in a nation is worth more than a fraction of all stock there."""

from __future__ import annotations

from decimal import Decimal

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Parameter, Query, Tables
from deltamark.queries.substitution import NATION

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

q11 = Query(
    SQL,
    order_by=("-value", "partkey"),
    parameters={"nation": Parameter("GERMANY", NATION), "inverse_fraction": Parameter(Decimal(10000))},
    per_scale_factor=frozenset({"inverse_fraction"}),
)


@q11.variant
def moving(tpch: Tables, *, nation: str, inverse_fraction: Decimal) -> Collection:
    suppliers = tpch.supplier.join(tpch.nation.where(col.name == nation), on="nationkey")
    stock = tpch.partsupp.semijoin(suppliers, on="suppkey")
    values = stock.aggregate(by="partkey", value=(col.supplycost * col.availqty).sum())
    everything = stock.aggregate(all=(col.supplycost * col.availqty).sum())
    return values.cross(everything).where(col.value * inverse_fraction > col.all).select("partkey", "value")
