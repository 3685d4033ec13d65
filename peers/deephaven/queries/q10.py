"""Q10, returned items."""

from __future__ import annotations

from deephaven.table import Table
from parts import REVENUE, Parameters, Tables, first, summed, within


def dataflow(t: Tables, p: Parameters) -> Table:
    orders = t.orders.where(within("o_orderdate", p["date"], 3))
    lines = t.lineitem.where("l_returnflag = `R`").view(["l_orderkey", REVENUE])
    joined = t.matched(lines, orders, "l_orderkey = o_orderkey", ["o_custkey"], key_of="orders")
    customers = t.matched(t.customer, t.nation, "c_nationkey = n_nationkey", ["n_name"], key_of="nation")
    columns = ["c_name", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment"]
    wide = t.matched(
        summed(joined, "revenue", "o_custkey"), customers, "o_custkey = c_custkey", columns, key_of="customer"
    )
    top = first(wide, 20, revenue="down", o_custkey="up")
    return top.view(["o_custkey", "c_name", "revenue", *columns[1:]])
