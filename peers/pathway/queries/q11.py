"""Q11, important stock."""

from __future__ import annotations

from decimal import Decimal

import pathway as pw
from parts import Parameters, Table, Tables, summed, with_one
from pathway import left, right, this


def dataflow(t: Tables, p: Parameters) -> Table:
    nations = t.nation.filter(this.n_name == p["nation"])
    suppliers = t.supplier.join(nations, left.s_nationkey == right.n_nationkey).select(left.s_suppkey)
    stock = (
        t.partsupp.join(suppliers, left.ps_suppkey == right.s_suppkey)
        .select(left.ps_partkey, value=left.ps_supplycost * left.ps_availqty)
    )  # fmt: skip
    values = stock.groupby(this.ps_partkey).reduce(this.ps_partkey, value=pw.reducers.sum(this.value))
    inverse = Decimal(p["inverse_fraction"]).as_integer_ratio()
    return (
        with_one(values, summed(stock, all=this.value))
        .filter(this.value * inverse[0] > this.all * inverse[1])
        .select(this.ps_partkey, this.value)
    )
