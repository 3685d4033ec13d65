"""Q15, top supplier: the supplier with the most revenue in a quarter."""

from __future__ import annotations

import datetime as dt

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Parameter, Query, Tables, months_later
from deltamark.queries.substitution import month_from

SQL = """
WITH revenue AS (
    SELECT l_suppkey AS supplier_no, sum(l_extendedprice * (1 - l_discount)) AS total_revenue
    FROM lineitem
    WHERE l_shipdate >= {date} AND l_shipdate < CAST({date} + INTERVAL 3 MONTH AS DATE)
    GROUP BY l_suppkey)
SELECT s_suppkey, s_name, s_address, s_phone, total_revenue
FROM supplier, revenue
WHERE s_suppkey = supplier_no AND total_revenue = (SELECT max(total_revenue) FROM revenue)
ORDER BY s_suppkey, s_name, s_address, s_phone, total_revenue
"""

q15 = Query(
    SQL,
    order_by=("suppkey",),
    parameters={"date": Parameter(dt.date(1996, 1, 1), month_from(dt.date(1993, 1, 1), 58))},
)


def revenues(tpch: Tables, date: dt.date) -> Collection:
    """Return the revenue of each supplier in the quarter."""
    return tpch.lineitem.where((col.shipdate >= date) & (col.shipdate < months_later(date, 3))).aggregate(
        by="suppkey", total_revenue=(col.extendedprice * (1 - col.discount)).sum()
    )


def suppliers_of(tpch: Tables, best: Collection) -> Collection:
    return tpch.supplier.select("suppkey", "name", "address", "phone").join(best, on="suppkey")


@q15.variant
def two_level(tpch: Tables, *, date: dt.date) -> Collection:
    """Find the maximum of each of a hundred groups, then among these."""
    return suppliers_of(tpch, revenues(tpch, date).largest("total_revenue", levels=(100,)))


@q15.variant
def flat(tpch: Tables, *, date: dt.date) -> Collection:
    """Find the maximum among all suppliers at once."""
    return suppliers_of(tpch, revenues(tpch, date).largest("total_revenue", levels=(1,)))


@q15.variant
def four_level(tpch: Tables, *, date: dt.date) -> Collection:
    return suppliers_of(tpch, revenues(tpch, date).largest("total_revenue", levels=(1000, 100, 10)))


@q15.variant
def ordered(tpch: Tables, *, date: dt.date) -> Collection:
    """Keep all revenues in order: the first one is the maximum, and its ties reach it."""
    revenue = revenues(tpch, date)
    maximum = revenue.select(maximum=col.total_revenue).top(1, ["-maximum"])
    best = revenue.cross(maximum).where(col.total_revenue >= col.maximum)
    return suppliers_of(tpch, best.select("suppkey", "total_revenue"))
