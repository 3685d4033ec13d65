"""Statistics: small samples of times, and what may be concluded from them. No distribution is assumed anywhere."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

CONFIDENCE = 0.95


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def geomean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive numbers; NaN of none."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest of ordered values that at least so many percent do not exceed; NaN of none."""
    if not len(ordered):
        return math.nan
    return float(ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1])


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Return order statistics between which the median lies with at least this confidence; None of too few values.

    The sign test, turned around: of n values, fewer than k lie below the median with the probability that fewer than
    k of n coins show heads. 6 values are the first to have a 95% interval, 9 the first that forgives one outlier.
    """
    ordered, size = sorted(values), len(values)
    rank, tail = 0, 0.0
    while (tail := tail + math.comb(size, rank) / 2**size) <= (1 - confidence) / 2:
        rank += 1
    return (ordered[rank - 1], ordered[size - rank]) if rank else None


def log_ratios(head: Iterable[float], base: Iterable[float]) -> list[float]:
    """Return ln(head / base) of pairs."""
    return [math.log(new / old) for new, old in zip(head, base, strict=True)]
