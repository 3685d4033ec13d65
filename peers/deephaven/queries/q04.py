"""Q04, order priority checking."""

from __future__ import annotations

from deephaven.table import Table
from parts import Parameters, Tables, counted, found, within


def dataflow(t: Tables, p: Parameters) -> Table:
    late = counted(t.lineitem.where("l_commitdate < l_receiptdate"), "l_orderkey")
    orders = t.orders.where(within("o_orderdate", p["date"], 3))
    return counted(found(orders, late, "o_orderkey = l_orderkey", []), "o_orderpriority")
