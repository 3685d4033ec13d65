"""Q16, parts and suppliers."""

from __future__ import annotations

import pathway as pw
from parts import Parameters, Table, Tables, has, matches
from pathway import left, right, this


def dataflow(t: Tables, p: Parameters) -> Table:
    sizes, type_ = frozenset(p["sizes"]), p["type"]
    parts = t.part.filter(
        (this.p_brand != p["brand"]) & matches(this.p_type, lambda each: not each.startswith(type_))
    ).filter(pw.apply_with_type(sizes.__contains__, bool, this.p_size))
    bad = t.supplier.filter(matches(this.s_comment, lambda text: has(text, "Customer", "Complaints")))
    offers = (
        t.partsupp.join_left(bad, left.ps_suppkey == right.s_suppkey)
        .select(*left, bad=right.s_suppkey)
        .filter(this.bad.is_none())
        .join(parts, left.ps_partkey == right.p_partkey)
        .select(left.ps_suppkey, right.p_brand, right.p_type, right.p_size)
    )
    distinct = offers.groupby(this.p_brand, this.p_type, this.p_size, this.ps_suppkey).reduce(
        this.p_brand, this.p_type, this.p_size
    )
    return distinct.groupby(this.p_brand, this.p_type, this.p_size).reduce(
        this.p_brand, this.p_type, this.p_size, count=pw.reducers.count()
    )
