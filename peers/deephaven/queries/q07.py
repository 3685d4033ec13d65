"""Q07, volume shipping."""

from __future__ import annotations

from deephaven.table import Table
from parts import REVENUE, Parameters, Tables, days, one_of, summed, year


def dataflow(t: Tables, p: Parameters) -> Table:
    nations = t.nation.where(one_of("n_name", [p["nation1"], p["nation2"]]))
    suppliers = t.matched(t.supplier, nations, "s_nationkey = n_nationkey", ["seller = n_name"], key_of="nation")
    customers = t.matched(t.customer, nations, "c_nationkey = n_nationkey", ["buyer = n_name"], key_of="nation")
    orders = t.matched(t.orders, customers, "o_custkey = c_custkey", ["buyer"], key_of="customer")
    lines = t.lineitem.where([
        f"l_shipdate >= {days('1995-01-01')}", f"l_shipdate <= {days('1996-12-31')}",
    ]).view(["l_orderkey", "l_suppkey", f"shipped = {year('l_shipdate')}", REVENUE])  # fmt: skip
    sold = t.matched(lines, suppliers, "l_suppkey = s_suppkey", ["seller"], key_of="supplier")
    joined = t.matched(sold, orders, "l_orderkey = o_orderkey", ["buyer"], key_of="orders").where("seller != buyer")
    sums = summed(joined, "revenue", ["seller", "buyer", "shipped"])
    return sums.view(["seller", "buyer", "shipped", "revenue"])
