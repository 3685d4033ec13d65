"""Q19, discounted revenue."""

from __future__ import annotations

from deephaven.table import Table
from parts import REVENUE, Parameters, Tables, one_of, summed

IS_SCALAR = True

KINDS = {
    1: (["SM CASE", "SM BOX", "SM PACK", "SM PKG"], 5), 2: (["MED BAG", "MED BOX", "MED PKG", "MED PACK"], 10),
    3: (["LG CASE", "LG BOX", "LG PACK", "LG PKG"], 15),
}  # fmt: skip
"""The containers and the largest size of each kind of parts."""


def dataflow(t: Tables, p: Parameters) -> Table:
    lines = t.lineitem.where([
        one_of("l_shipmode", ["AIR", "AIR REG"]), "l_shipinstruct = `DELIVER IN PERSON`",
    ]).view(["l_partkey", "l_quantity", REVENUE])  # fmt: skip
    brands = [p[f"brand{number}"] for number in KINDS]
    columns = ["p_brand", "p_container", "p_size"]
    parts = t.part.where(one_of("p_brand", brands))
    joined = t.matched(lines, parts, "l_partkey = p_partkey", columns, key_of="part")
    return summed(joined.where(" || ".join(_wanted(number, p) for number in KINDS)), "revenue")


def _wanted(number: int, p: Parameters) -> str:
    """Return the condition of a kind of parts."""
    (containers, largest), least = KINDS[number], 100 * p[f"quantity{number}"]
    has_container = " || ".join(f"p_container == `{each}`" for each in containers)
    return (
        f"(p_brand == `{p[f'brand{number}']}` && ({has_container}) && p_size >= 1 && p_size <= {largest}"
        f" && l_quantity >= {least} && l_quantity <= {least + 1000})"
    )
