"""Q09, product type profit."""

from __future__ import annotations

from deephaven.table import Table
from parts import REVENUE, Parameters, Tables, summed, year


def dataflow(t: Tables, p: Parameters) -> Table:
    parts = t.part.where(f"p_name.contains(`{p['color']}`)")
    suppliers = t.matched(t.supplier, t.nation, "s_nationkey = n_nationkey", ["n_name"], key_of="nation")
    of_parts = t.matched(t.partsupp, parts, "ps_partkey = p_partkey", [], key_of="part")
    offers = t.matched(of_parts, suppliers, "ps_suppkey = s_suppkey", ["n_name"], key_of="supplier")
    lines = t.lineitem.view(["l_orderkey", "l_partkey", "l_suppkey", "l_quantity", REVENUE])
    sold = t.matched(
        lines, offers, ["l_partkey = ps_partkey", "l_suppkey = ps_suppkey"], ["ps_supplycost", "n_name"],
        key_of="partsupp",
    )  # fmt: skip
    orders = t.orders.view(["o_orderkey", f"ordered = {year('o_orderdate')}"])
    joined = t.matched(sold, orders, "l_orderkey = o_orderkey", ["ordered"], key_of="orders")
    profits = joined.view(["n_name", "ordered", "profit = revenue - ps_supplycost * l_quantity"])
    return summed(profits, "profit", ["n_name", "ordered"])
