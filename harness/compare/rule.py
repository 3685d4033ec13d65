"""The rule of the gate: a pure function from pairs of samples to verdicts, without a clock or a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

from deltamark.harness.console.table import TableEntry, brief, megabytes
from deltamark.harness.measure.stats import interval
from deltamark.harness.tables.relation import MIN_STATE_ROWS

SCREEN_PAIRS, CONFIRM_PAIRS = 10, 20
MIN_CONFIRM_PAIRS = 9
"""Pairs that confirm a slow cell: the sign test forgives one bad pair from 9 pairs on."""

MAX_CONFIRM_S = 120.0
"""Time for confirming one cell; a cell that needs more gets fewer pairs."""

UNCHANGED_LOG_RATIO, REGRESSION_LOG_RATIO = math.log(1.02), math.log(1.05)

SCREENING_TOLERANCES = 2
"""The tolerances within which the interval of an unchanged cell lies after the screening, whose pairs are few."""

TINY = 1e-9
"""The value that stands for 0 in ratios."""

Sample = Mapping[str, float]
"""The values of a cell's quantities in one process, by name, and the rows of its state."""

ChangeVerdict = Literal["regression", "improvement", "unchanged", "inconclusive", "too small"]
Phase = Literal["screening", "confirming"]


@dataclass(frozen=True)
class Quantity:
    """A measured quantity, and the limits below which it is not judged."""

    name: str
    minimum: float
    """A cell below this value on both sides is too small to be judged."""
    min_difference: float
    """A smaller difference between the sides counts as none, even if it is more than 5%."""
    format: Callable[[float], TableEntry]

    def tolerance(self, base: float, head: float) -> float:
        """Return the largest change that counts as none, as a log ratio."""
        return max(REGRESSION_LOG_RATIO, math.log1p(self.min_difference / max(min(base, head), TINY)))


def _bytes(value: float) -> TableEntry:
    return TableEntry(f"{megabytes(value).text} MB", value)


TIME = Quantity("time", 0.05, 0.005, brief)
STATE = Quantity("state", 4e6, 1e6, _bytes)
PEAK = Quantity("peak", 4e6, 1e6, _bytes)
QUANTITIES = (TIME, STATE, PEAK)


@dataclass(frozen=True)
class Pair:
    """One sample of each side, taken one after the other."""

    base: Sample
    head: Sample

    def log_ratio(self, quantity: Quantity) -> float:
        """Return ln(head / base)."""
        return math.log(max(self.head[quantity.name], TINY) / max(self.base[quantity.name], TINY))


@dataclass(frozen=True)
class Change:
    """The change of one quantity of a cell or row. base and head: medians, summed over the cells of a row."""

    quantity: Quantity
    base: float
    head: float
    pairs: int
    log_ratio: float
    """The median of ln(head / base)."""
    bounds: tuple[float, float] | None
    """The interval of the median log ratio."""
    verdict: ChangeVerdict
    phase: Phase
    """The phase whose pairs the change is of."""


def bytes_per_row(pairs: Sequence[Pair]) -> tuple[float, float] | None:
    """Return the median bytes of a row of state, for base and head; None if a side has few rows or reports none."""
    if any(sample.get("rows", 0) < MIN_STATE_ROWS for pair in pairs for sample in (pair.base, pair.head)):
        return None
    base = median(pair.base["state"] / pair.base["rows"] for pair in pairs)
    return base, median(pair.head["state"] / pair.head["rows"] for pair in pairs)


def screen(cells: Sequence[Sequence[Pair]], quantity: Quantity) -> Change:
    """Judge a row by the screening pairs of its cells; `inconclusive` means that it must be confirmed."""
    return _change(cells, quantity, "screening")


def confirm(cells: Sequence[Sequence[Pair]], quantity: Quantity) -> Change:
    """Judge a row by the confirming pairs of its cells."""
    return _change(cells, quantity, "confirming")


def confirming_pairs(pair_seconds: float) -> int:
    """Return the number of confirming pairs of a cell, given the duration of one pair."""
    return max(min(CONFIRM_PAIRS, int(MAX_CONFIRM_S / pair_seconds)), MIN_CONFIRM_PAIRS)


def _change(cells: Sequence[Sequence[Pair]], quantity: Quantity, phase: Phase) -> Change:
    large = [pairs for pairs in cells if max(_medians(pairs, quantity)) >= quantity.minimum]
    judged = large or cells
    base, head = map(sum, zip(*(_medians(pairs, quantity) for pairs in judged), strict=True))
    ratios = [fmean(pair.log_ratio(quantity) for pair in pairs) for pairs in zip(*judged, strict=False)]
    bounds = interval(ratios)
    verdict: ChangeVerdict
    if not large:
        verdict = "too small"
    elif bounds is None:
        verdict = "inconclusive"
    else:
        decide = _screening_verdict if phase == "screening" else _confirming_verdict
        verdict = decide(median(ratios), bounds, quantity.tolerance(base, head))
    return Change(quantity, base, head, len(ratios), median(ratios), bounds, verdict, phase)


def _medians(pairs: Sequence[Pair], quantity: Quantity) -> tuple[float, float]:
    """Return the medians of base and head."""
    return median(pair.base[quantity.name] for pair in pairs), median(pair.head[quantity.name] for pair in pairs)


def _screening_verdict(log_ratio: float, bounds: tuple[float, float], tolerance: float) -> ChangeVerdict:
    is_small = abs(log_ratio) <= tolerance * UNCHANGED_LOG_RATIO / REGRESSION_LOG_RATIO
    return "unchanged" if is_small and _within(bounds, SCREENING_TOLERANCES * tolerance) else "inconclusive"


def _confirming_verdict(log_ratio: float, bounds: tuple[float, float], tolerance: float) -> ChangeVerdict:
    low, high = bounds
    if low > REGRESSION_LOG_RATIO and log_ratio >= tolerance:
        return "regression"
    if high < -REGRESSION_LOG_RATIO and log_ratio <= -tolerance:
        return "improvement"
    return "unchanged" if _within(bounds, tolerance) else "inconclusive"


def _within(bounds: tuple[float, float], limit: float) -> bool:
    low, high = bounds
    return -limit <= low <= high <= limit
