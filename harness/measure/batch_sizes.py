"""The batches, L x P, that sweeps measure and tables have columns for."""

from __future__ import annotations

from deltamark.errors import DeltamarkError

Column = tuple[int, int]
"""L and P."""


def product_columns(product: int) -> tuple[Column, ...]:
    """Return L x P in powers of ten, as the post's table has them."""
    powers = [10**power for power in range(len(str(product)))]
    if any(product % power for power in powers):
        raise DeltamarkError("not a power of ten", product, "write PRODUCT=100000")
    return tuple((power, product // power) for power in powers)


PHYSICAL: tuple[Column, ...] = ((1, 1000), (1, 10_000), (1, 100_000), (1, 1_000_000))
PRODUCT = product_columns(100_000)
FINE, COARSE = PRODUCT[0], PRODUCT[-1]
SMALL: tuple[Column, ...] = ((1, 1), (1, 10), (1, 100))
CROSSOVER: tuple[Column, ...] = ((1000, 1), (100_000, 1), (1_000_000, 1))
"""Where maintaining is compared with recomputing: one answer a batch."""
ON_SPARK: tuple[Column, ...] = ((100_000, 1), (1_000_000, 1))
"""Where Spark stands beside one worker, and beside recomputing."""
