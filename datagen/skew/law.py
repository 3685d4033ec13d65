"""Zipf's law: the key of rank r has a share that is proportional to r^-Z.

The numbers are the same on every machine: they come from additions, products, quotients and square roots, which IEEE
754 rounds exactly, and not from a power, whose last bit depends on the machine.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from deltamark.datagen.seeded import hashed

FRACTION_BITS = 20
"""The binary places of an exponent."""

UNIFORM_BITS = 53
"""The bits of a uniform number, which a float represents exactly."""


def weights(ranks: int, exponent: Decimal) -> np.ndarray:
    """Return r^-exponent for the ranks r from 1 to `ranks`. The exponent is rounded to a multiple of 2^-20."""
    whole, fraction = divmod(round(exponent * (1 << FRACTION_BITS)), 1 << FRACTION_BITS)
    root = np.arange(1.0, ranks + 1)
    power = np.ones(ranks)
    for _ in range(whole):
        power *= root
    for bit in reversed(range(FRACTION_BITS)):
        root = np.sqrt(root)
        if fraction >> bit & 1:
            power *= root
    return 1 / power


def cumulated(ranks: int, exponent: Decimal) -> np.ndarray:
    """Return the sums of the weights up to each rank."""
    return np.cumsum(weights(ranks, exponent))


def uniform(purpose: str, rows: np.ndarray) -> np.ndarray:
    """Draw a number from 0 to 1 for each row."""
    return (hashed(purpose, rows) >> (63 - UNIFORM_BITS)) / (1 << UNIFORM_BITS)


def drawn(purpose: str, rows: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Draw a rank, counted from 0, for each row. sums: the cumulated weights of the ranks."""
    return np.searchsorted(sums, uniform(purpose, rows) * sums[-1])


def ranking(purpose: str, keys: int) -> np.ndarray:
    """Return a permutation of 0 to keys - 1: the key of each rank."""
    return np.argsort(hashed(purpose, np.arange(keys)), kind="stable")
