"""The control: fixed work of no commit's, timed in every turn. Where it drifts, the machine does."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

ROWS = 1 << 20
DRIFTING = 1.1
"""From so many times the least on, the machine is said to drift."""


def control() -> Callable[[], float]:
    """Return what does the work, and returns its seconds."""
    rows = np.random.default_rng(1).integers(0, 1 << 40, ROWS)

    def work() -> float:
        started = time.perf_counter()
        np.sort(rows).cumsum()
        return time.perf_counter() - started

    return work
