"""Q02, minimum cost supplier."""

from __future__ import annotations

import pathway as pw
from parts import Parameters, Table, Tables, first, in_region, matches, unpacked
from pathway import left, right, this


def dataflow(t: Tables, p: Parameters) -> Table:
    suppliers = in_region(t, t.supplier, this.s_nationkey, p["region"])
    metal, size = p["metal"], p["size"]
    parts = t.part.filter((this.p_size == size) & matches(this.p_type, lambda type_: type_.endswith(metal)))
    offers = (
        t.partsupp.join(parts, left.ps_partkey == right.p_partkey)
        .select(left.ps_partkey, left.ps_suppkey, left.ps_supplycost, right.p_mfgr)
        .join(suppliers, left.ps_suppkey == right.s_suppkey)
        .select(*left, *right[["s_acctbal", "s_name", "n_name", "s_address", "s_phone", "s_comment"]])
    )
    least = offers.groupby(this.ps_partkey).reduce(this.ps_partkey, least=pw.reducers.min(this.ps_supplycost))
    best = offers.join(least, left.ps_partkey == right.ps_partkey, left.ps_supplycost == right.least).select(*left)
    top = first(
        best, 100, this.ps_partkey, -this.s_acctbal, this.n_name, this.s_name, this.ps_partkey, this.p_mfgr,
        this.s_address, this.s_phone, this.s_comment,
    )  # fmt: skip
    found = unpacked(
        top, negative=(0, int), s_name=(2, str), n_name=(1, str), ps_partkey=(3, int), p_mfgr=(4, str),
        s_address=(5, str), s_phone=(6, str), s_comment=(7, str),
    )  # fmt: skip
    return found.select(s_acctbal=-this.negative, **{name: this[name] for name in list(found.column_names())[1:]})
