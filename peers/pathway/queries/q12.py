"""Q12, shipping modes and order priority."""

from __future__ import annotations

import pathway as pw
from parts import Parameters, Table, Tables, days, matches
from pathway import left, right, this


def dataflow(t: Tables, p: Parameters) -> Table:
    modes = frozenset(p["modes"])
    lines = t.lineitem.filter(
        (this.l_commitdate < this.l_receiptdate) & (this.l_shipdate < this.l_commitdate)
        & (this.l_receiptdate >= days(p["date"])) & (this.l_receiptdate < days(p["date"], 12))
    ).filter(matches(this.l_shipmode, modes.__contains__))  # fmt: skip
    joined = lines.join(t.orders, left.l_orderkey == right.o_orderkey).select(
        left.l_shipmode, high=(right.o_orderpriority == "1-URGENT") | (right.o_orderpriority == "2-HIGH")
    )
    return joined.groupby(this.l_shipmode).reduce(
        this.l_shipmode, high=pw.reducers.sum(pw.if_else(this.high, 1, 0)),
        low=pw.reducers.sum(pw.if_else(this.high, 0, 1)),
    )  # fmt: skip
