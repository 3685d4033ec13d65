"""Bisection of sizes: the least size that passes a test, up to a ratio."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

RESOLUTION = 1.05
"""The ratio of the least size that passes to the largest one that fails. Runs of one cell differ by about 2%."""

PAGE_BYTES = 4096
"""The unit of sizes: the kernel rounds limits to pages."""


@dataclass(frozen=True)
class LeastSize:
    """The least size that passed, and the largest that failed below it; 0 if none failed."""

    passed: int
    failed: int


def least_size(passes: Callable[[int], bool], guess: int, most: int) -> LeastSize | None:
    """Return the least size in bytes that passes; None if `most` fails.

    From the guess on, sizes are doubled until one passes, or halved until one fails. Then the geometric mean of the
    last size that passed and the last that failed is tried, until their ratio is at most RESOLUTION or they are
    at most a page apart.
    """
    failed, passed = 0, _pages(min(guess, most))
    while not passes(passed):
        if passed >= most:
            return None
        failed, passed = passed, min(2 * passed, most)
    while passed > max(RESOLUTION * failed, failed + PAGE_BYTES):
        size = max(_pages(math.isqrt(passed * failed) if failed else passed // 2), failed + PAGE_BYTES)
        if passes(size):
            passed = size
        else:
            failed = size
    return LeastSize(passed, failed)


def _pages(size: int) -> int:
    """Round a size down to pages, but not to 0."""
    return max(size // PAGE_BYTES, 1) * PAGE_BYTES
