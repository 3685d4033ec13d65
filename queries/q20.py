"""Q20, potential part promotion: who in a nation has a stock of a color's part of over half of a year's sales."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection, total
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Query, Tables, months_later

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


def plain(tpch: Tables, *, color: str, date: dt.date, nation: str) -> Collection:
    parts = tpch["part"].where(col.name.starts_with(color)).select("partkey")
    sold = (
        tpch["lineitem"]
        .where((col.shipdate >= date) & (col.shipdate < months_later(date, 12)))
        .select("partkey", "suppkey", "quantity")
        .join(parts, on="partkey")
        .aggregate(by=("partkey", "suppkey"), sold=total(col.quantity))
    )
    stock = tpch["partsupp"].select("partkey", "suppkey", "availqty").join(parts, on="partkey")
    ample = stock.join(sold, on=("partkey", "suppkey")).where(2 * col.availqty > col.sold)
    nations = tpch["nation"].where(col.name == nation).select("nationkey")
    suppliers = tpch["supplier"].select("suppkey", "nationkey", "name", "address").join(nations, on="nationkey")
    return suppliers.semijoin(ample, on="suppkey").select("name", "address")


Q20 = Query(
    SQL,
    relations=("lineitem", "nation", "part", "partsupp", "supplier"),
    variants={"plain": plain},
    order=("name", "address"),
)
