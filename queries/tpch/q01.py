"""Q1, pricing summary: sums, averages and counts of the lines shipped by a date, by return flag and line status."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col, count
from deltamark.queries.query import Parameter, Query, Tables
from deltamark.queries.substitution import number_between

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


def summed(lines: Collection) -> Collection:
    """Sum the lines of each return flag and line status."""
    disc_price = col.extendedprice * (1 - col.discount)
    return lines.aggregate(
        by=("returnflag", "linestatus"),
        sum_qty=col.quantity.sum(),
        sum_base_price=col.extendedprice.sum(),
        sum_disc_price=disc_price.sum(),
        sum_charge=(disc_price * (1 + col.tax)).sum(),
        avg_qty=col.quantity.mean(),
        avg_price=col.extendedprice.mean(),
        avg_disc=col.discount.mean(),
        count_order=count(),
    )


def shipped(tpch: Tables, days: int) -> Collection:
    return tpch.lineitem.where(col.shipdate <= dt.date(1998, 12, 1) - dt.timedelta(days))


q01 = Query(SQL, order_by=("returnflag", "linestatus"), parameters={"days": Parameter(90, number_between(60, 120))})


@q01.variant
def data(tpch: Tables, *, days: int) -> Collection:
    """Maintain the sums."""
    return summed(shipped(tpch, days))


@q01.changes(accumulate=summed)
def diffs(tpch: Tables, *, days: int) -> Collection:
    """Emit the columns of each line, which the reader sums."""
    return shipped(tpch, days).select("returnflag", "linestatus", "quantity", "extendedprice", "discount", "tax")
