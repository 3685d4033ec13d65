"""Q08, national market share."""

from __future__ import annotations

from deephaven.table import Table
from parts import REVENUE, Parameters, Tables, days, in_region, summed, year


def dataflow(t: Tables, p: Parameters) -> Table:
    customers = in_region(t, t.customer, "c_nationkey", p["region"])
    orders = t.orders.where([f"o_orderdate >= {days('1995-01-01')}", f"o_orderdate <= {days('1996-12-31')}"])
    orders = t.matched(orders, customers, "o_custkey = c_custkey", [], key_of="customer").view(
        ["o_orderkey", f"ordered = {year('o_orderdate')}"]
    )
    suppliers = t.matched(t.supplier, t.nation, "s_nationkey = n_nationkey", ["n_name"], key_of="nation")
    lines = t.lineitem.view(["l_orderkey", "l_partkey", "l_suppkey", REVENUE])
    parts = t.part.where(f"p_type = `{p['type']}`")
    of_parts = t.matched(lines, parts, "l_partkey = p_partkey", [], key_of="part")
    of_orders = t.matched(of_parts, orders, "l_orderkey = o_orderkey", ["ordered"], key_of="orders")
    joined = t.matched(of_orders, suppliers, "l_suppkey = s_suppkey", ["n_name"], key_of="supplier")
    sums = summed(
        joined.update_view(f"own = n_name == `{p['nation']}` ? revenue : 0L"), ["own", "whole = revenue"], "ordered"
    )
    return sums.view(["ordered", "share = own / (double) whole"])
