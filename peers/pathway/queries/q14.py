"""Q14, promotion effect."""

from __future__ import annotations

import pathway as pw
from parts import REVENUE, Parameters, Table, Tables, days, matches, summed
from pathway import left, right, this

IS_SCALAR = True


def dataflow(t: Tables, p: Parameters) -> Table:
    lines = t.lineitem.filter((this.l_shipdate >= days(p["date"])) & (this.l_shipdate < days(p["date"], 1))).select(
        this.l_partkey, revenue=REVENUE
    )
    joined = lines.join(t.part, left.l_partkey == right.p_partkey).select(left.revenue, right.p_type)
    sums = summed(
        joined, all=this.revenue,
        promo=pw.if_else(matches(this.p_type, lambda type_: type_.startswith("PROMO")), this.revenue, 0),
    )  # fmt: skip
    return sums.select(share=100 * this.promo / this.all)
