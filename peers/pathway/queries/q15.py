"""Q15, top supplier."""

from __future__ import annotations

import pathway as pw
from parts import REVENUE, Parameters, Table, Tables, days
from pathway import left, right, this


def dataflow(t: Tables, p: Parameters) -> Table:
    lines = t.lineitem.filter((this.l_shipdate >= days(p["date"])) & (this.l_shipdate < days(p["date"], 3)))
    sums = lines.groupby(this.l_suppkey).reduce(this.l_suppkey, revenue=pw.reducers.sum(REVENUE))
    best = sums.reduce(best=pw.reducers.max(this.revenue))
    top = sums.join(best, left.revenue == right.best).select(*left)
    return t.supplier.join(top, left.s_suppkey == right.l_suppkey).select(*left, right.revenue)
