"""Q19, discounted revenue."""

from __future__ import annotations

import pathway as pw
from parts import REVENUE, Parameters, Table, Tables, summed
from pathway import left, right, this

IS_SCALAR = True


KINDS = {
    1: ({"SM CASE", "SM BOX", "SM PACK", "SM PKG"}, 5), 2: ({"MED BAG", "MED BOX", "MED PKG", "MED PACK"}, 10),
    3: ({"LG CASE", "LG BOX", "LG PACK", "LG PKG"}, 15),
}  # fmt: skip
"""The containers and the largest size of each kind of parts in Q19."""


def dataflow(t: Tables, p: Parameters) -> Table:
    kinds = [(p[f"brand{n}"], containers, size, 100 * p[f"quantity{n}"]) for n, (containers, size) in KINDS.items()]

    def is_wanted(brand: str, container: str, size: int, quantity: int) -> bool:
        return any(
            brand == own and container in containers and 1 <= size <= largest and least <= quantity <= least + 1000
            for own, containers, largest, least in kinds
        )

    lines = t.lineitem.filter(
        ((this.l_shipmode == "AIR") | (this.l_shipmode == "AIR REG")) & (this.l_shipinstruct == "DELIVER IN PERSON")
    ).select(this.l_partkey, this.l_quantity, revenue=REVENUE)
    brands = [brand for brand, *_ in kinds]
    parts = t.part.filter((this.p_brand == brands[0]) | (this.p_brand == brands[1]) | (this.p_brand == brands[2]))
    joined = lines.join(parts, left.l_partkey == right.p_partkey).select(*left, *right)
    wanted = joined.filter(
        pw.apply_with_type(is_wanted, bool, this.p_brand, this.p_container, this.p_size, this.l_quantity)
    )
    return summed(wanted, revenue=this.revenue)
