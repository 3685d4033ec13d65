"""Mixing: the multiplication that all hashes are made of."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.dispatcher import inline

GOLDEN = -7046029254386353131
"""2**64 divided by the golden ratio, as an odd int64: a multiplication by it spreads numbers over the upper bits."""


@inline
def mix(mixed: int, value: int) -> int:
    """Add a value to a hash of 64 bits."""
    mixed = (mixed ^ value) * GOLDEN
    return mixed ^ (mixed >> 32)
