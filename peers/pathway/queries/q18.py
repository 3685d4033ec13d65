"""Q18, large volume customers."""

from __future__ import annotations

import pathway as pw
from parts import Parameters, Table, Tables, first, unpacked
from pathway import left, right, this


def dataflow(t: Tables, p: Parameters) -> Table:
    sums = t.lineitem.groupby(this.l_orderkey).reduce(this.l_orderkey, quantity=pw.reducers.sum(this.l_quantity))
    large = sums.filter(this.quantity > 100 * p["quantity"])
    joined = (
        t.orders.join(large, left.o_orderkey == right.l_orderkey)
        .select(*left, right.quantity)
        .join(t.customer, left.o_custkey == right.c_custkey)
        .select(*left, right.c_name)
    )
    top = first(
        joined, 100, this.o_orderkey, -this.o_totalprice, this.o_orderdate, this.c_name, this.o_custkey,
        this.o_orderkey, this.quantity,
    )  # fmt: skip
    found = unpacked(
        top, name=(2, str), custkey=(3, int), orderkey=(4, int), date=(1, int), negative=(0, int), quantity=(5, int)
    )
    return found.select(this.name, this.custkey, this.orderkey, this.date, price=-this.negative, quantity=this.quantity)
