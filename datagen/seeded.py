"""Pseudo-random numbers that depend on a purpose and on values alone, in every version and on every machine."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np


def hashed(purpose: str, values: np.ndarray) -> np.ndarray:
    """Return a number of 63 bits for each value, by the mixing function of SplitMix64."""
    seed = np.frombuffer(blake2b(purpose.encode(), digest_size=8).digest(), np.uint64)
    mixed = (values.astype(np.uint64) + seed) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)
