"""Q08, national market share."""

from __future__ import annotations

import pathway as pw
from parts import REVENUE, Parameters, Table, Tables, days, in_region, year
from pathway import left, right, this


def dataflow(t: Tables, p: Parameters) -> Table:
    customers = in_region(t, t.customer, this.c_nationkey, p["region"])
    orders = (
        t.orders.filter((this.o_orderdate >= days("1995-01-01")) & (this.o_orderdate <= days("1996-12-31")))
        .join(customers, left.o_custkey == right.c_custkey)
        .select(left.o_orderkey, left.o_orderdate)
    )
    parts = t.part.filter(this.p_type == p["type"])
    lines = t.lineitem.select(this.l_orderkey, this.l_partkey, this.l_suppkey, revenue=REVENUE)
    joined = (
        lines.join(parts, left.l_partkey == right.p_partkey)
        .select(left.l_orderkey, left.l_suppkey, left.revenue)
        .join(orders, left.l_orderkey == right.o_orderkey)
        .select(left.l_suppkey, left.revenue, right.o_orderdate)
        .join(t.supplier, left.l_suppkey == right.s_suppkey)
        .select(left.revenue, left.o_orderdate, right.s_nationkey)
        .join(t.nation, left.s_nationkey == right.n_nationkey)
        .select(left.revenue, right.n_name, year=year(left.o_orderdate))
    )
    sums = joined.groupby(this.year).reduce(
        this.year, all=pw.reducers.sum(this.revenue),
        own=pw.reducers.sum(pw.if_else(this.n_name == p["nation"], this.revenue, 0)),
    )  # fmt: skip
    return sums.select(this.year, share=this.own / this.all)
