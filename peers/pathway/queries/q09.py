"""Q09, product type profit."""

from __future__ import annotations

import pathway as pw
from parts import REVENUE, Parameters, Table, Tables, matches, year
from pathway import left, right, this


def dataflow(t: Tables, p: Parameters) -> Table:
    color = p["color"]
    parts = t.part.filter(matches(this.p_name, lambda name: color in name))
    suppliers = t.supplier.join(t.nation, left.s_nationkey == right.n_nationkey).select(left.s_suppkey, right.n_name)
    offers = (
        t.partsupp.join(parts, left.ps_partkey == right.p_partkey)
        .select(*left)
        .join(suppliers, left.ps_suppkey == right.s_suppkey)
        .select(*left, right.n_name)
    )
    lines = t.lineitem.select(this.l_orderkey, this.l_partkey, this.l_suppkey, this.l_quantity, revenue=REVENUE)
    joined = (
        lines.join(offers, left.l_partkey == right.ps_partkey, left.l_suppkey == right.ps_suppkey)
        .select(left.l_orderkey, right.n_name, amount=left.revenue - right.ps_supplycost * left.l_quantity)
        .join(t.orders, left.l_orderkey == right.o_orderkey)
        .select(left.n_name, left.amount, year=year(right.o_orderdate))
    )
    return joined.groupby(this.n_name, this.year).reduce(this.n_name, this.year, profit=pw.reducers.sum(this.amount))
