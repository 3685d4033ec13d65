"""Q04, order priority checking."""

from __future__ import annotations

import pathway as pw
from parts import Parameters, Table, Tables, days
from pathway import left, right, this


def dataflow(t: Tables, p: Parameters) -> Table:
    orders = t.orders.filter((this.o_orderdate >= days(p["date"])) & (this.o_orderdate < days(p["date"], 3)))
    late = t.lineitem.filter(this.l_commitdate < this.l_receiptdate).groupby(this.l_orderkey).reduce(this.l_orderkey)
    found = orders.join(late, left.o_orderkey == right.l_orderkey).select(left.o_orderpriority)
    return found.groupby(this.o_orderpriority).reduce(this.o_orderpriority, count=pw.reducers.count())
