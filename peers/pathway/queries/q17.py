"""Q17, small-quantity-order revenue."""

from __future__ import annotations

import pathway as pw
from parts import Parameters, Table, Tables, summed
from pathway import left, right, this

IS_SCALAR = True


def dataflow(t: Tables, p: Parameters) -> Table:
    parts = t.part.filter((this.p_brand == p["brand"]) & (this.p_container == p["container"]))
    lines = t.lineitem.join(parts, left.l_partkey == right.p_partkey).select(*left)
    means = lines.groupby(this.l_partkey).reduce(
        this.l_partkey, quantity=pw.reducers.sum(this.l_quantity), count=pw.reducers.count()
    )
    small = (
        lines.join(means, left.l_partkey == right.l_partkey)
        .select(left.l_extendedprice, is_small=5 * left.l_quantity * right.count < right.quantity)
        .filter(this.is_small)
    )
    return summed(small, price=this.l_extendedprice).select(yearly=this.price / 700)
