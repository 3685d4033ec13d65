"""Q21, suppliers who kept orders waiting."""

from __future__ import annotations

from deephaven import agg
from deephaven.table import Table
from parts import Parameters, Tables, counted, first, found, of_nation


def dataflow(t: Tables, p: Parameters) -> Table:
    late = t.lineitem.where("l_receiptdate > l_commitdate")
    suppliers = of_nation(t, t.supplier, "s_nationkey", p["nation"])
    finished = t.orders.where("o_orderstatus = `F`")
    several = suppliers_of(t.lineitem).where("suppliers > 1")
    orders = found(finished, several, "o_orderkey = l_orderkey", [])
    alone = suppliers_of(late).where("suppliers = 1")
    orders = found(orders, alone, "o_orderkey = l_orderkey", [])
    sold = t.matched(late, suppliers, "l_suppkey = s_suppkey", ["s_name"], key_of="supplier")
    waiting = t.matched(sold, orders, "l_orderkey = o_orderkey", [], key_of="orders")
    return first(counted(waiting, "s_name"), 100, number="down", s_name="up")


def suppliers_of(lines: Table) -> Table:
    """Count the suppliers of each order."""
    return lines.agg_by([agg.count_distinct("suppliers = l_suppkey")], "l_orderkey")
