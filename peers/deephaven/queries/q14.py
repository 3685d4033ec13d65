"""Q14, promotion effect."""

from __future__ import annotations

from deephaven.table import Table
from parts import REVENUE, Parameters, Tables, summed, within

IS_SCALAR = True


def dataflow(t: Tables, p: Parameters) -> Table:
    lines = t.lineitem.where(within("l_shipdate", p["date"], 1)).view(["l_partkey", REVENUE])
    joined = t.matched(lines, t.part, "l_partkey = p_partkey", ["p_type"], key_of="part")
    rows = joined.view(["revenue", "promo = p_type.startsWith(`PROMO`) ? revenue : 0L"])
    return summed(rows, ["promo", "revenue"]).view("share = 100.0 * promo / revenue")
