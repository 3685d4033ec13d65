"""Q03, shipping priority."""

from __future__ import annotations

import pathway as pw
from parts import REVENUE, Parameters, Table, Tables, days, first, unpacked
from pathway import left, right, this


def dataflow(t: Tables, p: Parameters) -> Table:
    date = days(p["date"])
    customers = t.customer.filter(this.c_mktsegment == p["segment"])
    orders = t.orders.filter(this.o_orderdate < date).join(customers, left.o_custkey == right.c_custkey).select(*left)
    lines = t.lineitem.filter(this.l_shipdate > date).select(this.l_orderkey, revenue=REVENUE)
    joined = lines.join(orders, left.l_orderkey == right.o_orderkey).select(
        *left, right.o_orderdate, right.o_shippriority
    )
    sums = joined.groupby(this.l_orderkey, this.o_orderdate, this.o_shippriority).reduce(
        this.l_orderkey, this.o_orderdate, this.o_shippriority, revenue=pw.reducers.sum(this.revenue)
    )
    top = first(sums, 10, this.l_orderkey, -this.revenue, this.o_orderdate, this.l_orderkey, this.o_shippriority)
    found = unpacked(top, key=(2, int), negative=(0, int), date=(1, int), priority=(3, int))
    return found.select(this.key, revenue=-this.negative, date=this.date, priority=this.priority)
