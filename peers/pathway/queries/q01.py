"""Q01, pricing summary."""

from __future__ import annotations

import pathway as pw
from parts import REVENUE, Parameters, Table, Tables, days
from pathway import this


def dataflow(t: Tables, p: Parameters) -> Table:
    lines = t.lineitem.filter(this.l_shipdate <= days("1998-12-01") - p["days"])
    sums = lines.groupby(this.l_returnflag, this.l_linestatus).reduce(
        this.l_returnflag, this.l_linestatus, quantity=pw.reducers.sum(this.l_quantity),
        price=pw.reducers.sum(this.l_extendedprice), discounted=pw.reducers.sum(REVENUE),
        charge=pw.reducers.sum(REVENUE * (100 + this.l_tax)), discount=pw.reducers.sum(this.l_discount),
        count=pw.reducers.count(),
    )  # fmt: skip
    return sums.select(
        this.l_returnflag, this.l_linestatus, this.quantity, this.price, this.discounted, this.charge,
        avg_quantity=this.quantity / this.count / 100, avg_price=this.price / this.count / 100,
        avg_discount=this.discount / this.count / 100, count=this.count,
    )  # fmt: skip
