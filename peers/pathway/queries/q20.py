"""Q20, potential part promotion."""

from __future__ import annotations

import pathway as pw
from parts import Parameters, Table, Tables, days, matches
from pathway import left, right, this


def dataflow(t: Tables, p: Parameters) -> Table:
    color = p["color"]
    parts = t.part.filter(matches(this.p_name, lambda name: name.startswith(color)))
    stock = t.partsupp.join(parts, left.ps_partkey == right.p_partkey).select(*left)
    lines = t.lineitem.filter((this.l_shipdate >= days(p["date"])) & (this.l_shipdate < days(p["date"], 12)))
    sales = lines.groupby(this.l_partkey, this.l_suppkey).reduce(
        this.l_partkey, this.l_suppkey, quantity=pw.reducers.sum(this.l_quantity)
    )
    enough = (
        stock.join(sales, left.ps_partkey == right.l_partkey, left.ps_suppkey == right.l_suppkey)
        .select(left.ps_suppkey, is_enough=200 * left.ps_availqty > right.quantity)
        .filter(this.is_enough)
    )
    distinct = enough.groupby(this.ps_suppkey).reduce(this.ps_suppkey)
    nations = t.nation.filter(this.n_name == p["nation"])
    suppliers = t.supplier.join(nations, left.s_nationkey == right.n_nationkey).select(*left)
    return suppliers.join(distinct, left.s_suppkey == right.ps_suppkey).select(left.s_name, left.s_address)
