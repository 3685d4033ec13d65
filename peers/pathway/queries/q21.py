"""Q21, suppliers who kept orders waiting."""

from __future__ import annotations

from typing import Any

import pathway as pw
from parts import Parameters, Table, Tables, first, unpacked
from pathway import left, right, this


def dataflow(t: Tables, p: Parameters) -> Table:
    late = t.lineitem.filter(this.l_receiptdate > this.l_commitdate)
    nations = t.nation.filter(this.n_name == p["nation"])
    suppliers = t.supplier.join(nations, left.s_nationkey == right.n_nationkey).select(*left)
    finished = t.orders.filter(this.o_orderstatus == "F")
    orders = (
        finished.join(suppliers_of(t.lineitem), left.o_orderkey == right.l_orderkey)
        .select(left.o_orderkey, right.suppliers)
        .filter(this.suppliers > 1)
        .join(suppliers_of(late), left.o_orderkey == right.l_orderkey)
        .select(left.o_orderkey, right.suppliers)
        .filter(this.suppliers == 1)
    )
    waiting = (
        late.join(suppliers, left.l_suppkey == right.s_suppkey)
        .select(left.l_orderkey, right.s_name)
        .join(orders, left.l_orderkey == right.o_orderkey)
        .select(left.s_name)
    )
    counts = waiting.groupby(this.s_name).reduce(
        this.s_name, count=pw.reducers.count(), key=pw.reducers.min(number(this.s_name))
    )
    top = first(counts, 100, this.key, -this.count, this.s_name)
    found = unpacked(top, name=(1, str), negative=(0, int))
    return found.select(this.name, count=-this.negative)


def suppliers_of(lines: Table) -> Table:
    """Count the suppliers of each order."""
    pairs = lines.groupby(this.l_orderkey, this.l_suppkey).reduce(this.l_orderkey)
    return pairs.groupby(this.l_orderkey).reduce(this.l_orderkey, suppliers=pw.reducers.count())


def number(name: Any) -> Any:
    """Return a number that spreads names over buckets."""
    return pw.apply_with_type(lambda text: sum(map(ord, text)), int, name)
