"""Statistics of small samples of times. They assume no distribution."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import numpy as np

CONFIDENCE = 0.95


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def geomean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive numbers; NaN if there are none."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


def percentile(ordered: Sequence[float] | np.ndarray, percent: float) -> float:
    """Return the smallest of the ordered values that at least `percent` % do not exceed; NaN if there are none."""
    if not len(ordered):
        return math.nan
    return float(ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1])


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return two order statistics between which the median lies with at least the CONFIDENCE; None for too few values.

    This inverts the sign test: the probability that fewer than k of n values lie below the median is the probability
    that fewer than k of n coins show heads. At 95%, 6 values are the fewest with an interval, and 9 the fewest whose
    interval excludes one outlier.
    """
    ordered, size = sorted(values), len(values)
    rank, tail = 0, 0.0
    while (tail := tail + math.comb(size, rank) / 2**size) <= (1 - CONFIDENCE) / 2:
        rank += 1
    return (ordered[rank - 1], ordered[size - rank]) if rank else None
