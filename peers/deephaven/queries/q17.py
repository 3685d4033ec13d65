"""Q17, small-quantity-order revenue."""

from __future__ import annotations

from deephaven import agg
from deephaven.table import Table
from parts import Parameters, Tables, found, summed

IS_SCALAR = True


def dataflow(t: Tables, p: Parameters) -> Table:
    parts = t.part.where([f"p_brand = `{p['brand']}`", f"p_container = `{p['container']}`"])
    lines = t.matched(t.lineitem, parts, "l_partkey = p_partkey", [], key_of="part")
    means = lines.agg_by([agg.sum_("quantity = l_quantity"), agg.count_("number")], "l_partkey")
    joined = found(lines, means, "l_partkey", ["quantity", "number"])
    return summed(joined.where("5 * l_quantity * number < quantity"), "price = l_extendedprice").view(
        "yearly = price / 700.0"
    )
