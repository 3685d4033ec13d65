"""Q05, local supplier volume."""

from __future__ import annotations

from deephaven.table import Table
from parts import REVENUE, Parameters, Tables, in_region, summed, within


def dataflow(t: Tables, p: Parameters) -> Table:
    suppliers = in_region(t, t.supplier, "s_nationkey", p["region"])
    orders = t.matched(
        t.orders.where(within("o_orderdate", p["date"], 12)), t.customer, "o_custkey = c_custkey", ["c_nationkey"],
        key_of="customer",
    )  # fmt: skip
    lines = t.lineitem.view(["l_orderkey", "l_suppkey", REVENUE])
    of_orders = t.matched(lines, orders, "l_orderkey = o_orderkey", ["c_nationkey"], key_of="orders")
    joined = t.matched(of_orders, suppliers, "l_suppkey = s_suppkey", ["s_nationkey", "n_name"], key_of="supplier")
    return summed(joined.where("c_nationkey = s_nationkey"), "revenue", "n_name")
