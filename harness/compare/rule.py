"""The rule of the gate: a pure function from pairs of samples to verdicts, without a clock or a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

from deltamark.harness.console.formatting import TableEntry, brief, megabytes
from deltamark.harness.measure.stats import interval

SCREEN_PAIRS, CONFIRM_PAIRS = 10, 20
MIN_CONFIRM_PAIRS = 9
"""Pairs that confirm a slow cell: the sign test forgives one bad pair from 9 pairs on."""

MAX_CONFIRM_S = 120.0
"""Time for confirming one cell; a cell that needs more gets fewer pairs."""

UNCHANGED_LOG_RATIO, REGRESSION_LOG_RATIO = math.log(1.02), math.log(1.05)

Sample = Mapping[str, float]
"""The values of a cell's quantities in one process, by name, and the rows of its state."""

ChangeVerdict = Literal["regression", "improvement", "unchanged", "inconclusive", "too small"]


@dataclass(frozen=True)
class Quantity:
    """A measured quantity, and the limits below which it is not judged."""

    name: str
    minimum: float
    """A cell below this value on both sides is too small to be judged."""
    min_difference: float
    """A smaller difference between the sides counts as none."""
    format: Callable[[float], TableEntry]


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
        return math.log(max(self.head[quantity.name], 1e-9) / max(self.base[quantity.name], 1e-9))


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


def bytes_per_row(pairs: Sequence[Pair]) -> tuple[float, float] | None:
    """Return the median bytes of a row of state, for base and head; None if a side does not report its rows."""
    if not all(sample.get("rows") for pair in pairs for sample in (pair.base, pair.head)):
        return None
    base = median(pair.base["state"] / pair.base["rows"] for pair in pairs)
    return base, median(pair.head["state"] / pair.head["rows"] for pair in pairs)


Decision = Callable[[float, float, float], ChangeVerdict]
"""A verdict on a median log ratio and the two bounds of its interval."""


def screen(cells: Sequence[Sequence[Pair]], quantity: Quantity) -> Change:
    """Judge a row by the screening pairs of its cells; `inconclusive` means that it must be confirmed."""
    return _change(cells, quantity, _screening_verdict)


def confirm(cells: Sequence[Sequence[Pair]], quantity: Quantity) -> Change:
    """Judge a row by the confirming pairs of its cells."""
    return _change(cells, quantity, _confirming_verdict)


def confirming_pairs(pair_seconds: float) -> int:
    """Return the number of confirming pairs of a cell, given the duration of one pair."""
    return max(min(CONFIRM_PAIRS, int(MAX_CONFIRM_S / pair_seconds)), MIN_CONFIRM_PAIRS)


def _change(cells: Sequence[Sequence[Pair]], quantity: Quantity, decide: Decision) -> Change:
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
    elif abs(head - base) < quantity.min_difference:
        verdict = "unchanged"
    else:
        verdict = decide(median(ratios), *bounds)
    return Change(quantity, base, head, len(ratios), median(ratios), bounds, verdict)


def _medians(pairs: Sequence[Pair], quantity: Quantity) -> tuple[float, float]:
    """Return the medians of base and head."""
    return median(pair.base[quantity.name] for pair in pairs), median(pair.head[quantity.name] for pair in pairs)


def _screening_verdict(log_ratio: float, _low: float, _high: float) -> ChangeVerdict:
    return "unchanged" if abs(log_ratio) <= UNCHANGED_LOG_RATIO else "inconclusive"


def _confirming_verdict(_log_ratio: float, low: float, high: float) -> ChangeVerdict:
    if low > REGRESSION_LOG_RATIO:
        return "regression"
    if high < -REGRESSION_LOG_RATIO:
        return "improvement"
    return "unchanged" if -REGRESSION_LOG_RATIO <= low <= high <= REGRESSION_LOG_RATIO else "inconclusive"
