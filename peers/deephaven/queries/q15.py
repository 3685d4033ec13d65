"""Q15, top supplier."""

from __future__ import annotations

from deephaven import agg
from deephaven.table import Table
from parts import REVENUE, Parameters, Tables, summed, with_one, within


def dataflow(t: Tables, p: Parameters) -> Table:
    lines = t.lineitem.where(within("l_shipdate", p["date"], 3)).view(["l_suppkey", REVENUE])
    sums = summed(lines, "revenue", "l_suppkey")
    best = sums.agg_by([agg.max_("best = revenue")])
    top = with_one(sums, best, ["best"]).where("revenue = best")
    columns = ["s_name", "s_address", "s_phone"]
    joined = t.matched(top, t.supplier, "l_suppkey = s_suppkey", columns, key_of="supplier")
    return joined.view(["l_suppkey", *columns, "revenue"])
