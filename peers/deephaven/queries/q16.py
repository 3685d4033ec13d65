"""Q16, parts and suppliers."""

from __future__ import annotations

from deephaven import agg
from deephaven.table import Table
from parts import Parameters, Tables, absent, counted, has, one_of


def dataflow(t: Tables, p: Parameters) -> Table:
    parts = t.part.where([
        f"p_brand != `{p['brand']}`", one_of("p_size", p["sizes"]), f"!p_type.startsWith(`{p['type']}`)",
    ])  # fmt: skip
    bad = counted(t.supplier.where(has("s_comment", "Customer", "Complaints")), "s_suppkey")
    good = absent(t.partsupp, bad, "ps_suppkey = s_suppkey")
    columns = ["p_brand", "p_type", "p_size"]
    offers = t.matched(good, parts, "ps_partkey = p_partkey", columns, key_of="part")
    return offers.agg_by([agg.count_distinct("suppliers = ps_suppkey")], columns)
