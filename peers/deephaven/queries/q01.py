"""Q01, pricing summary."""

from __future__ import annotations

from deephaven import agg
from deephaven.table import Table
from parts import REVENUE, Parameters, Tables, days


def dataflow(t: Tables, p: Parameters) -> Table:
    lines = t.lineitem.where(f"l_shipdate <= {days('1998-12-01') - p['days']}").update_view(
        [REVENUE, "charge = revenue * (100 + l_tax)"]
    )
    sums = lines.agg_by(
        [
            agg.sum_(
                ["quantity = l_quantity", "price = l_extendedprice", "revenue", "charge", "discount = l_discount"]
            ),
            agg.count_("number"),
        ],
        ["l_returnflag", "l_linestatus"],
    )
    means = [f"mean_{name} = {name} / (double) number / 100.0" for name in ("quantity", "price", "discount")]
    return sums.view(["l_returnflag", "l_linestatus", "quantity", "price", "revenue", "charge", *means, "number"])
