"""The growth of the time of a batch with the size of the base, and the grade that follows from it.

The exponent is the slope of the logarithm of the time by the logarithm of the size: 0 if the time does not depend on
the base, 1 if it is proportional to it. Its interval is that of least squares, from the residuals of all sizes. So
noise widens it, and so does a curve.

A fixed cost of each batch hides growth in two ways. A time `a + b * size` has an exponent between 0 and 1. Therefore
the exponent without the fixed cost is that of the function `a + b * size^exponent` that fits best, with `a` and `b` not
negative; its interval has all exponents that fit about as well.

If the fixed cost is large, the exponent is near 0 even for a query that runs again. So a small exponent is not enough
for the grade `maintained`: the interval must also exclude a growth that is large enough for a scan of the base.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

MIN_SIZES = 3
"""The fewest sizes with an interval: a straight line has two parameters."""

MAINTAINED = 0.15
"""The exponent below which an answer is maintained. That of a logarithm is 0.07 over the sizes of the suite, from
90,000 to 9,000,000 rows; the misses of caches come on top."""

RECOMPUTED, LEAST_RECOMPUTED = 0.85, 0.5
"""An answer is recomputed if the interval of the exponent reaches the first number, and lies above the second one."""

MIN_GROWTH = 3.0
"""The ratio of the last time to the first, below which a fixed cost and the steps of an engine may look like the growth
by a part: DuckDB, which runs q03 again, had an exponent of 0.65 [0.50, 0.79] without fixed cost, at a ratio of 2.8."""

SCAN_S = 1e-10
"""The least seconds for a row of the base in a batch that scans it: a byte of each row, at 10 GB/s. Not measured."""

EXPONENTS = np.arange(0.02, 2.0, 0.01)
"""The exponents that are tried."""

MIN_ERROR = 0.01
"""The relative error of a time, at least: that of the clock and the machine. Not measured."""

QUANTILES = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Half of the width of an interval of 95 % in standard errors, by Student's distribution with 1, 2, ... degrees of
freedom."""

GrowthGrade = Literal["maintained", "partly", "recomputed", "undecided"]


@dataclass(frozen=True)
class Exponent:
    """An exponent with the bounds of its interval of 95 %."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{two_digits(self.value)} [{two_digits(self.low)}, {two_digits(self.high)}]"


def two_digits(value: float) -> str:
    """Write a number with two digits after the point, and without the sign of a zero."""
    return f"{round(value, 2) + 0.0:.2f}"


@dataclass(frozen=True)
class Certificate:
    """The growth of the time of a batch. without_fixed: None if there are too few sizes."""

    exponent: Exponent
    without_fixed: Exponent | None
    grade: GrowthGrade


def certificate(sizes: Sequence[float], seconds: Sequence[float]) -> Certificate | None:
    """Return the certificate of the times of a batch at increasing sizes of the base; None if there are too few.

    A time of 0, which a coarse clock may report, has no certificate either.
    """
    if len({*sizes}) < MIN_SIZES or min(*sizes, *seconds) <= 0:
        return None
    found, without = exponent(sizes, seconds), exponent_without_fixed(sizes, seconds)
    if found.high < MAINTAINED:
        grade: GrowthGrade = "maintained" if _most_growth(found, sizes, seconds) < SCAN_S else "undecided"
    else:
        grade = _grade(found, without, seconds[-1] / seconds[0])
    return Certificate(found, without, grade)


def _grade(found: Exponent, without: Exponent | None, growth: float) -> GrowthGrade:
    """Grade the exponents of an answer that is not maintained. growth: the ratio of the last time to the first."""
    if found.low < MAINTAINED or without is None:
        return "undecided"
    if without.high >= RECOMPUTED:
        return "recomputed" if without.low > LEAST_RECOMPUTED else "undecided"
    return "partly" if without.low > MAINTAINED and growth >= MIN_GROWTH else "undecided"


def _most_growth(found: Exponent, sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the seconds for each further row of the base, if the exponent is the upper bound of its interval."""
    first, last = sizes[0], sizes[-1]
    return seconds[-1] * (1 - (first / last) ** max(found.high, 0)) / (last - first)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> Exponent:
    """Return the slope of least squares between the logarithms of sizes and of positive values."""
    x, y = np.log(sizes), np.log(values)
    dx = x - x.mean()
    slope = float(dx @ y / (dx @ dx))
    residuals = y - y.mean() - slope * dx
    freedom = len(x) - 2
    error = math.sqrt(float(residuals @ residuals) / freedom / float(dx @ dx))
    return Exponent(slope, slope - _quantile(freedom) * error, slope + _quantile(freedom) * error)


def exponent_without_fixed(sizes: Sequence[float], seconds: Sequence[float]) -> Exponent | None:
    """Return the exponent of `a + b * size^exponent` that fits best; None if there are too few sizes.

    The interval has the exponents whose squared residuals are not significantly larger than the least.
    """
    freedom = len(sizes) - 3
    if freedom < 1:
        return None
    scaled, times = np.asarray(sizes) / sizes[-1], np.asarray(seconds)
    squares = np.array([_residuals(scaled**each, times) for each in EXPONENTS])
    least = float(squares.min())
    variance = max(least / freedom, MIN_ERROR**2)
    likely = EXPONENTS[squares <= least + _quantile(freedom) ** 2 * variance]
    return Exponent(float(EXPONENTS[squares.argmin()]), float(likely[0]), float(likely[-1]))


def _residuals(growing: np.ndarray, seconds: np.ndarray) -> float:
    """Return the least sum of squares of relative errors of `a + b * growing`, with `a` and `b` not negative."""
    one, other = 1 / seconds, growing / seconds
    least = math.inf
    for columns in ([one, other], [other], [one]):
        matrix = np.stack(columns, axis=1)
        factors, *_ = np.linalg.lstsq(matrix, np.ones(len(seconds)), rcond=None)
        if (factors >= 0).all():
            errors = 1 - matrix @ factors
            least = min(least, float(errors @ errors))
    return least


def _quantile(freedom: int) -> float:
    return QUANTILES[min(freedom, len(QUANTILES)) - 1]
