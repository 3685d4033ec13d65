"""Q20, potential part promotion."""

from __future__ import annotations

from deephaven.table import Table
from parts import Parameters, Tables, counted, found, of_nation, summed, within


def dataflow(t: Tables, p: Parameters) -> Table:
    parts = t.part.where(f"p_name.startsWith(`{p['color']}`)")
    stock = t.matched(t.partsupp, parts, "ps_partkey = p_partkey", [], key_of="part")
    lines = t.lineitem.where(within("l_shipdate", p["date"], 12))
    sales = summed(lines, "quantity = l_quantity", ["l_partkey", "l_suppkey"])
    both = found(stock, sales, ["ps_partkey = l_partkey", "ps_suppkey = l_suppkey"], ["quantity"])
    enough = counted(both.where("200 * ps_availqty > quantity"), "ps_suppkey")
    suppliers = of_nation(t, t.supplier, "s_nationkey", p["nation"])
    return found(suppliers, enough, "s_suppkey = ps_suppkey", []).view(["s_name", "s_address"])
