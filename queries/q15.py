"""Q15, top supplier: who brought in the most revenue in a quarter."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from deltamark.dataflow.language.collection import Collection, total
from deltamark.dataflow.language.expr import col
from deltamark.queries.query import Query, Tables, months_later

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


def _revenue(tpch: Tables, date: dt.date) -> Collection:
    return (
        tpch["lineitem"]
        .where((col.shipdate >= date) & (col.shipdate < months_later(date, 3)))
        .aggregate(by="suppkey", total_revenue=total(col.extendedprice * (1 - col.discount)))
    )


def _named(tpch: Tables, best: Collection) -> Collection:
    suppliers = tpch["supplier"].select("suppkey", "name", "address", "phone")
    return suppliers.join(best, on="suppkey")


def flat(tpch: Tables, *, date: dt.date) -> Collection:
    """Look for the maximum among all suppliers at once."""
    return _named(tpch, _revenue(tpch, date).largest("total_revenue", levels=(1,)))


def two_level(tpch: Tables, *, date: dt.date) -> Collection:
    """Look in each of a hundred groups, then among their winners."""
    return _named(tpch, _revenue(tpch, date).largest("total_revenue", levels=(100,)))


def four_level(tpch: Tables, *, date: dt.date) -> Collection:
    return _named(tpch, _revenue(tpch, date).largest("total_revenue", levels=(1000, 100, 10)))


def ordered(tpch: Tables, *, date: dt.date) -> Collection:
    """Keep all revenues in order: the first is the maximum, and what lies above the next smaller number ties."""
    revenue = _revenue(tpch, date)
    maximum = revenue.select("total_revenue").top(1, ["-total_revenue"])
    limit = maximum.select(limit=col.total_revenue - Decimal("0.0001"))
    return _named(tpch, revenue.above(limit, col.total_revenue, "limit"))


Q15 = Query(
    SQL,
    relations=("lineitem", "supplier"),
    variants={"two-level": two_level, "flat": flat, "four-level": four_level, "ordered": ordered},
    order=("suppkey",),
)
