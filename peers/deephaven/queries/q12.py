"""Q12, shipping modes and order priority."""

from __future__ import annotations

from deephaven.table import Table
from parts import Parameters, Tables, one_of, summed, within


def dataflow(t: Tables, p: Parameters) -> Table:
    lines = t.lineitem.where([
        one_of("l_shipmode", p["modes"]), *within("l_receiptdate", p["date"], 12), "l_commitdate < l_receiptdate",
        "l_shipdate < l_commitdate",
    ])  # fmt: skip
    joined = t.matched(lines, t.orders, "l_orderkey = o_orderkey", ["o_orderpriority"], key_of="orders")
    high = "o_orderpriority == `1-URGENT` || o_orderpriority == `2-HIGH`"
    rows = joined.view(["l_shipmode", f"high = ({high}) ? 1L : 0L", "low = 1L - high"])
    return summed(rows, ["high", "low"], "l_shipmode")
