"""Q11, important stock."""

from __future__ import annotations

from decimal import Decimal

from deephaven.table import Table
from parts import Parameters, Tables, of_nation, summed, with_one


def dataflow(t: Tables, p: Parameters) -> Table:
    suppliers = of_nation(t, t.supplier, "s_nationkey", p["nation"])
    stock = t.matched(t.partsupp, suppliers, "ps_suppkey = s_suppkey", [], key_of="supplier").view(
        ["ps_partkey", "worth = ps_supplycost * ps_availqty"]
    )
    numerator, denominator = Decimal(p["inverse_fraction"]).as_integer_ratio()
    values = with_one(summed(stock, "worth", "ps_partkey"), summed(stock, "whole = worth"), ["whole"])
    return values.where(f"worth * {numerator}L > whole * {denominator}L").view(["ps_partkey", "worth"])
