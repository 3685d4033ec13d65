"""Q1, pricing summary: sums, averages and counts of the lines shipped by a date, by return flag and line status."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection, average, count, total
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Query, Tables

SQL = """
SELECT l_returnflag, l_linestatus,
       sum(l_quantity) AS sum_qty,
       sum(l_extendedprice) AS sum_base_price,
       sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
       avg(l_quantity) AS avg_qty,
       avg(l_extendedprice) AS avg_price,
       avg(l_discount) AS avg_disc,
       count(*) AS count_order
FROM lineitem
WHERE l_shipdate <= DATE '1998-12-01' - {days}
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus
"""


def diffs(tpch: Tables, *, days: int) -> Collection:
    """Hand out what each line adds, for the reader to sum."""
    return (
        tpch["lineitem"]
        .where(col.shipdate <= dt.date(1998, 12, 1) - dt.timedelta(days))
        .select("returnflag", "linestatus", "quantity", "extendedprice", "discount", "tax")
    )


def summed(lines: Collection) -> Collection:
    disc_price = col.extendedprice * (1 - col.discount)
    return lines.aggregate(
        by=("returnflag", "linestatus"),
        sum_qty=total(col.quantity),
        sum_base_price=total(col.extendedprice),
        sum_disc_price=total(disc_price),
        sum_charge=total(disc_price * (1 + col.tax)),
        avg_qty=average(col.quantity),
        avg_price=average(col.extendedprice),
        avg_disc=average(col.discount),
        count_order=count(),
    )


def data(tpch: Tables, *, days: int) -> Collection:
    """Promote the sums to data."""
    return summed(diffs(tpch, days=days))


Q01 = Query(
    SQL,
    relations=("lineitem",),
    variants={"data": data, "diffs": diffs},
    accumulated={"diffs": summed},
    order=("returnflag", "linestatus"),
)
