"""The control work: a fixed computation, timed beside every cell. If its time changes, the machine has changed.

One half sorts numbers that fit in a core's cache; the other half reads random places of memory.
"""

from __future__ import annotations

import time
from functools import cache

import numpy as np

SORTED_NUMBERS, RANDOM_READS, MEMORY_NUMBERS = 1 << 16, 1 << 17, 1 << 21
"""Numbers of 8 bytes: 512 KiB are sorted, and 16 MiB are read from."""


def seconds() -> float:
    """Time the control work once."""
    numbers, places, memory = _input()
    started = time.perf_counter()
    np.sort(numbers, kind="stable")
    memory[places].sum()
    return time.perf_counter() - started


@cache
def _input() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make the input, the same on every machine, and read it once."""
    chance = np.random.default_rng(1)
    numbers = chance.integers(0, 1 << 40, SORTED_NUMBERS)
    memory = np.arange(MEMORY_NUMBERS)
    places = chance.integers(0, MEMORY_NUMBERS, RANDOM_READS)
    memory[places].sum()
    return numbers, places, memory
