"""Q14, promotion effect: the share of promoted parts in a month's revenue, in percent."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col, when
from deltamark.queries.query import Parameter, Query, Tables, months_later
from deltamark.queries.substitution import month_from

SQL = """
SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
       / sum(l_extendedprice * (1 - l_discount)) AS promo_revenue
FROM lineitem, part
WHERE l_partkey = p_partkey
  AND l_shipdate >= {date} AND l_shipdate < CAST({date} + INTERVAL 1 MONTH AS DATE)
"""

q14 = Query(SQL, parameters={"date": Parameter(dt.date(1995, 9, 1), month_from(dt.date(1993, 1, 1), 60))})


@q14.variant
def plain(tpch: Tables, *, date: dt.date) -> Collection:
    parts = tpch.part.select("partkey", percent=when(col.type.starts_with("PROMO"), 100).otherwise(0))
    volume = col.extendedprice * (1 - col.discount)
    return (
        tpch.lineitem.where((col.shipdate >= date) & (col.shipdate < months_later(date, 1)))
        .join(parts, on="partkey")
        .aggregate(promo_revenue=(col.percent * volume).sum() / volume.sum())
        .or_null()
    )
