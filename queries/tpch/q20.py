"""Q20, potential part promotion: suppliers in a nation with a stock of a color's part above half of a year's sales."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Parameter, Query, Tables, months_later
from deltamark.queries.substitution import COLORS, NATION, one_of, year

SQL = """
SELECT s_name, s_address
FROM supplier, nation
WHERE s_suppkey IN (
    SELECT ps_suppkey
    FROM partsupp
    WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE {color} || '%')
      AND ps_availqty > (
        SELECT 0.5 * sum(l_quantity)
        FROM lineitem
        WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
          AND l_shipdate >= {date} AND l_shipdate < CAST({date} + INTERVAL 1 YEAR AS DATE)))
  AND s_nationkey = n_nationkey AND n_name = {nation}
ORDER BY s_name, s_address
"""

q20 = Query(
    SQL,
    order_by=("name", "address"),
    parameters={
        "color": Parameter("forest", one_of(COLORS)),
        "date": Parameter(dt.date(1994, 1, 1), year),
        "nation": Parameter("CANADA", NATION),
    },
)


@q20.variant
def plain(tpch: Tables, *, color: str, date: dt.date, nation: str) -> Collection:
    parts = tpch.part.where(col.name.starts_with(color)).select("partkey")
    sold = (
        tpch.lineitem.where((col.shipdate >= date) & (col.shipdate < months_later(date, 12)))
        .join(parts, on="partkey")
        .aggregate(by=("partkey", "suppkey"), sold=col.quantity.sum())
    )
    stock = tpch.partsupp.join(parts, on="partkey").join(sold, on=("partkey", "suppkey"))
    suppliers = tpch.supplier.join(tpch.nation.where(col.name == nation), on="nationkey")
    return suppliers.semijoin(stock.where(2 * col.availqty > col.sold), on="suppkey").select("name", "address")
