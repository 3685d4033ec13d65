"""Q03, shipping priority."""

from __future__ import annotations

from deephaven.table import Table
from parts import REVENUE, Parameters, Tables, days, first, summed


def dataflow(t: Tables, p: Parameters) -> Table:
    date = days(p["date"])
    customers = t.customer.where(f"c_mktsegment = `{p['segment']}`")
    orders = t.matched(
        t.orders.where(f"o_orderdate < {date}"), customers, "o_custkey = c_custkey", [], key_of="customer"
    )
    lines = t.lineitem.where(f"l_shipdate > {date}").view(["l_orderkey", REVENUE])
    joined = t.matched(lines, orders, "l_orderkey = o_orderkey", ["o_orderdate", "o_shippriority"], key_of="orders")
    sums = summed(joined, "revenue", ["l_orderkey", "o_orderdate", "o_shippriority"])
    top = first(sums, 10, revenue="down", o_orderdate="up", l_orderkey="up")
    return top.view(["l_orderkey", "revenue", "o_orderdate", "o_shippriority"])
