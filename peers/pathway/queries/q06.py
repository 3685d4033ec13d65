"""Q06, forecasting revenue change."""

from __future__ import annotations

from decimal import Decimal

from parts import Parameters, Table, Tables, days, summed
from pathway import this

IS_SCALAR = True


def dataflow(t: Tables, p: Parameters) -> Table:
    discount = int(Decimal(p["discount"]) * 100)
    lines = t.lineitem.filter(
        (this.l_shipdate >= days(p["date"])) & (this.l_shipdate < days(p["date"], 12))
        & (this.l_discount >= discount - 1) & (this.l_discount <= discount + 1)
        & (this.l_quantity < 100 * p["quantity"])
    )  # fmt: skip
    return summed(lines, revenue=this.l_extendedprice * this.l_discount)
