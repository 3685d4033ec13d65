"""Q13, customer distribution."""

from __future__ import annotations

from deephaven.table import Table
from parts import Parameters, Tables, counted, has


def dataflow(t: Tables, p: Parameters) -> Table:
    wanted = t.orders.where(f"!{has('o_comment', p['word1'], p['word2'])}")
    orders = counted(wanted, "o_custkey", "found")
    customers = t.customer.natural_join(orders, "c_custkey = o_custkey", "found")
    return counted(customers.view("orders = isNull(found) ? 0L : found"), "orders")
