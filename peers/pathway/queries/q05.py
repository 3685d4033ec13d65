"""Q05, local supplier volume."""

from __future__ import annotations

import pathway as pw
from parts import REVENUE, Parameters, Table, Tables, days, in_region
from pathway import left, right, this


def dataflow(t: Tables, p: Parameters) -> Table:
    suppliers = in_region(t, t.supplier, this.s_nationkey, p["region"])
    orders = (
        t.orders.filter((this.o_orderdate >= days(p["date"])) & (this.o_orderdate < days(p["date"], 12)))
        .join(t.customer, left.o_custkey == right.c_custkey)
        .select(left.o_orderkey, right.c_nationkey)
    )
    lines = t.lineitem.select(this.l_orderkey, this.l_suppkey, revenue=REVENUE)
    joined = (
        lines.join(orders, left.l_orderkey == right.o_orderkey)
        .select(left.l_suppkey, left.revenue, right.c_nationkey)
        .join(suppliers, left.l_suppkey == right.s_suppkey, left.c_nationkey == right.s_nationkey)
        .select(right.n_name, left.revenue)
    )
    return joined.groupby(this.n_name).reduce(this.n_name, revenue=pw.reducers.sum(this.revenue))
