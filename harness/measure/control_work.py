"""A fixed piece of work, timed beside every cell: where it takes longer, it is the machine that has changed.

Half of it sorts what lies in a core's cache, half reads all over memory.
"""

from __future__ import annotations

import time
from functools import cache

import numpy as np

SORTED, READ, MEMORY = 1 << 16, 1 << 17, 1 << 21


def seconds() -> float:
    """Do the work once."""
    numbers, places, memory = _material()
    started = time.perf_counter()
    np.sort(numbers, kind="stable")
    memory[places].sum()
    return time.perf_counter() - started


@cache
def _material() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make what is worked on: the same everywhere, and read once."""
    chance = np.random.default_rng(1)
    numbers = chance.integers(0, 1 << 40, SORTED)
    memory = np.arange(MEMORY)
    places = chance.integers(0, MEMORY, READ)
    memory[places].sum()
    return numbers, places, memory
