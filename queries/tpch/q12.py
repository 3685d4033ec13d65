"""Q12, shipping modes: late lines of urgent and of other orders, by shipping mode, that were received in a year."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col, when
from deltamark.queries.query import Parameter, Query, Tables, months_later
from deltamark.queries.substitution import MODES, several_of, year

SQL = """
SELECT l_shipmode,
       sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END) AS high_line_count,
       sum(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) AS low_line_count
FROM orders, lineitem
WHERE o_orderkey = l_orderkey AND l_shipmode IN {modes}
  AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
  AND l_receiptdate >= {date} AND l_receiptdate < CAST({date} + INTERVAL 1 YEAR AS DATE)
GROUP BY l_shipmode
ORDER BY l_shipmode
"""

q12 = Query(
    SQL,
    order_by=("shipmode",),
    parameters={
        "modes": Parameter(("MAIL", "SHIP"), several_of(MODES, 2)),
        "date": Parameter(dt.date(1994, 1, 1), year),
    },
)


@q12.variant
def plain(tpch: Tables, *, modes: tuple[str, ...], date: dt.date) -> Collection:
    lines = tpch.lineitem.where(
        (col.receiptdate >= date)
        & (col.receiptdate < months_later(date, 12))
        & col.shipmode.is_in(modes)
        & (col.commitdate < col.receiptdate)
        & (col.shipdate < col.commitdate)
    )
    urgent = when(col.orderpriority.is_in(["1-URGENT", "2-HIGH"]), 1).otherwise(0)
    return lines.join(tpch.orders.select("orderkey", urgent=urgent), on="orderkey").aggregate(
        by="shipmode", high_line_count=col.urgent.sum(), low_line_count=(1 - col.urgent).sum()
    )
