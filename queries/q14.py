"""Q14, promotion effect: which share of a month's revenue came from promoted parts, in percent."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection, total
from deltamark.dataflow.language.expr import col, when
from deltamark.queries.query import Query, Tables, months_later

SQL = """
SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
       / sum(l_extendedprice * (1 - l_discount)) AS promo_revenue
FROM lineitem, part
WHERE l_partkey = p_partkey
  AND l_shipdate >= {date} AND l_shipdate < CAST({date} + INTERVAL 1 MONTH AS DATE)
"""


def plain(tpch: Tables, *, date: dt.date) -> Collection:
    parts = tpch["part"].select("partkey", percent=when(col.type.starts_with("PROMO"), 100).otherwise(0))
    revenue = (
        tpch["lineitem"]
        .where((col.shipdate >= date) & (col.shipdate < months_later(date, 1)))
        .select("partkey", volume=col.extendedprice * (1 - col.discount))
        .join(parts, on="partkey")
    )
    share = {"promo_revenue.num": total(col.percent * col.volume), "promo_revenue.den": total(col.volume)}
    return revenue.aggregate(by=(), **share).or_null()


Q14 = Query(SQL, relations=("lineitem", "part"), variants={"plain": plain})
