"""Q07, volume shipping."""

from __future__ import annotations

import pathway as pw
from parts import REVENUE, Parameters, Table, Tables, days, year
from pathway import left, right, this


def dataflow(t: Tables, p: Parameters) -> Table:
    one, other = p["nation1"], p["nation2"]
    nations = t.nation.filter((this.n_name == one) | (this.n_name == other))
    suppliers = t.supplier.join(nations, left.s_nationkey == right.n_nationkey).select(
        left.s_suppkey, seller=right.n_name
    )
    customers = t.customer.join(nations, left.c_nationkey == right.n_nationkey).select(
        left.c_custkey, buyer=right.n_name
    )
    orders = t.orders.join(customers, left.o_custkey == right.c_custkey).select(left.o_orderkey, right.buyer)
    lines = t.lineitem.filter((this.l_shipdate >= days("1995-01-01")) & (this.l_shipdate <= days("1996-12-31"))).select(
        this.l_orderkey, this.l_suppkey, this.l_shipdate, revenue=REVENUE
    )
    joined = (
        lines.join(suppliers, left.l_suppkey == right.s_suppkey)
        .select(left.l_orderkey, left.l_shipdate, left.revenue, right.seller)
        .join(orders, left.l_orderkey == right.o_orderkey)
        .select(left.seller, right.buyer, left.l_shipdate, left.revenue)
        .filter(this.seller != this.buyer)
        .select(this.seller, this.buyer, this.revenue, year=year(this.l_shipdate))
    )
    return joined.groupby(this.seller, this.buyer, this.year).reduce(
        this.seller, this.buyer, this.year, revenue=pw.reducers.sum(this.revenue)
    )
