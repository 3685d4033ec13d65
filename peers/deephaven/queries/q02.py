"""Q02, minimum cost supplier."""

from __future__ import annotations

from deephaven import agg
from deephaven.table import Table
from parts import Parameters, Tables, first, found, in_region


def dataflow(t: Tables, p: Parameters) -> Table:
    suppliers = in_region(t, t.supplier, "s_nationkey", p["region"])
    parts = t.part.where([f"p_size = {p['size']}", f"p_type.endsWith(`{p['metal']}`)"])
    of_parts = t.matched(t.partsupp, parts, "ps_partkey = p_partkey", ["p_mfgr"], key_of="part")
    columns = ["s_acctbal", "s_name", "n_name", "s_address", "s_phone", "s_comment"]
    offers = t.matched(of_parts, suppliers, "ps_suppkey = s_suppkey", columns, key_of="supplier")
    least = offers.agg_by([agg.min_("least = ps_supplycost")], "ps_partkey")
    best = found(offers, least, "ps_partkey", ["least"]).where("ps_supplycost = least")
    top = first(best, 100, s_acctbal="down", n_name="up", s_name="up", ps_partkey="up")
    return top.view(["s_acctbal", "s_name", "n_name", "ps_partkey", "p_mfgr", "s_address", "s_phone", "s_comment"])
