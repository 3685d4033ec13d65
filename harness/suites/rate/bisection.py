"""Bisection of rates: the highest rate that passes a test, up to a ratio."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

RESOLUTION = 1.05
"""The ratio of the lowest rate that fails to the highest that passes."""

STEP = 4.0
"""The ratio of two rates before the first bisection: each trial is also a point of the latency by rate. Not tuned."""


@dataclass(frozen=True)
class HighestRate:
    """The highest rate that passed, and the lowest that failed above it."""

    passed: float
    failed: float


def highest_rate(passes: Callable[[float], bool], guess: float, least: float) -> HighestRate | None:
    """Return the highest rate that passes; None if no rate from `least` on does.

    From the guess on, rates are multiplied by STEP until one fails, or divided until one passes. Then the geometric
    mean of the last rate that passed and the last that failed is tried, until their ratio is at most RESOLUTION.
    """
    rate = guess
    if passes(rate):
        while passes(STEP * rate):
            rate *= STEP
    else:
        rate /= STEP
        while rate >= least and not passes(rate):
            rate /= STEP
    if rate < least:
        return None
    passed, failed = rate, STEP * rate
    while failed > RESOLUTION * passed:
        middle = math.sqrt(passed * failed)
        if passes(middle):
            passed = middle
        else:
            failed = middle
    return HighestRate(passed, failed)
