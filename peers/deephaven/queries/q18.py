"""Q18, large volume customers."""

from __future__ import annotations

from deephaven.table import Table
from parts import Parameters, Tables, first, found, summed


def dataflow(t: Tables, p: Parameters) -> Table:
    sums = summed(t.lineitem, "quantity = l_quantity", "l_orderkey")
    large = sums.where(f"quantity > {100 * p['quantity']}")
    orders = found(t.orders, large, "o_orderkey = l_orderkey", ["quantity"])
    joined = t.matched(orders, t.customer, "o_custkey = c_custkey", ["c_name"], key_of="customer")
    top = first(joined, 100, o_totalprice="down", o_orderdate="up", o_orderkey="up")
    return top.view(["c_name", "o_custkey", "o_orderkey", "o_orderdate", "o_totalprice", "quantity"])
