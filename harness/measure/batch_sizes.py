"""The batchings, L x P, that the benchmark measures and that tables have columns for."""

from __future__ import annotations

from deltamark.errors import DeltamarkError

Batching = tuple[int, int]
"""L rounds per logical batch, and P logical batches per physical batch."""


def product_batchings(product: int) -> tuple[Batching, ...]:
    """Return all L x P with a product, in powers of ten, as in the post's table."""
    powers = [10**power for power in range(len(str(product)))]
    if any(product % power for power in powers):
        raise DeltamarkError("not a power of ten", product, "write PRODUCT=100000")
    return tuple((power, product // power) for power in powers)


PHYSICAL: tuple[Batching, ...] = ((1, 1000), (1, 10_000), (1, 100_000), (1, 1_000_000))
PRODUCT = product_batchings(100_000)
FINE, COARSE = PRODUCT[0], PRODUCT[-1]
SMALL: tuple[Batching, ...] = ((1, 1), (1, 10), (1, 100))
CROSSOVER: tuple[Batching, ...] = ((1000, 1), (100_000, 1), (1_000_000, 1))
"""The batchings that compare maintaining with recomputing: one answer per batch."""
ON_SPARK: tuple[Batching, ...] = ((100_000, 1), (1_000_000, 1))
"""The batchings that compare Spark with one worker, and with recomputing on Spark, which needs about a second for
any batch.
"""
