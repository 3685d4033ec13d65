"""Q06, forecasting revenue change."""

from __future__ import annotations

from decimal import Decimal

from deephaven.table import Table
from parts import Parameters, Tables, summed, within

IS_SCALAR = True


def dataflow(t: Tables, p: Parameters) -> Table:
    discount = int(Decimal(p["discount"]) * 100)
    lines = t.lineitem.where([
        *within("l_shipdate", p["date"], 12), f"l_discount >= {discount - 1}", f"l_discount <= {discount + 1}",
        f"l_quantity < {100 * p['quantity']}",
    ])  # fmt: skip
    return summed(lines.view("revenue = l_extendedprice * l_discount"), "revenue")
