"""The rule of the gate, as arithmetic: what pairs say of a change. Nothing here has a clock or a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from deltamark.harness.console.formatting import TableEntry, brief, megabytes
from deltamark.harness.measure.stats import interval, median

SCREEN, CONFIRM, FEWEST = 10, 20, 9
"""Pairs: to screen, to confirm, and to confirm what is slow. 9 are the first to forgive one bad pair."""

SLOW = 120.0
"""Seconds that the pairs of one cell may take before they become fewer."""

UNCHANGED, WORSE = math.log(1.02), math.log(1.05)

Sample = Mapping[str, float]
"""What was seen of a cell in one process, by the names of quantities."""

Verdict = Literal["regression", "improvement", "unchanged", "inconclusive", "too small"]


@dataclass(frozen=True)
class Quantity:
    name: str
    least: float
    """Cells below are not judged: their work must grow first."""
    difference: float
    """A smaller difference is none."""
    write: Callable[[float], TableEntry]


TIME = Quantity("time", 0.05, 0.005, brief)
STATE = Quantity("state", 4e6, 1e6, lambda value: TableEntry(megabytes(value).text + " MB", value))
PEAK = Quantity("peak", 4e6, 1e6, STATE.write)
QUANTITIES = (TIME, STATE, PEAK)


@dataclass(frozen=True)
class Pair:
    base: Sample
    head: Sample

    def ratio(self, quantity: Quantity) -> float:
        """Return ln(head / base)."""
        return math.log(max(self.head[quantity.name], 1e-9) / max(self.base[quantity.name], 1e-9))


@dataclass(frozen=True)
class Finding:
    """What is said of a cell or row in one quantity. base and head are medians, of a row their sums."""

    quantity: Quantity
    base: float
    head: float
    pairs: int
    change: float
    """The median of ln(head / base)."""
    bounds: tuple[float, float] | None
    verdict: Verdict


Decision = Callable[[float, float, float], Verdict]
"""Of a median, and the bounds of its interval."""


def screen(cells: Sequence[Sequence[Pair]], quantity: Quantity) -> Finding:
    """Say what the first pairs of a row's cells show: `inconclusive` is to be confirmed."""
    return _find(cells, quantity, _screened)


def confirm(cells: Sequence[Sequence[Pair]], quantity: Quantity) -> Finding:
    """Say what fresh pairs of a row's cells show."""
    return _find(cells, quantity, _confirmed)


def confirming_pairs(seconds: float) -> int:
    """Return how many pairs confirm, where one takes so long."""
    return max(min(CONFIRM, int(SLOW / seconds)), FEWEST)


def _find(cells: Sequence[Sequence[Pair]], quantity: Quantity, decide: Decision) -> Finding:
    medians = [_medians(pairs, quantity) for pairs in cells]
    judged = [at for at, each in enumerate(medians) if max(each) >= quantity.least]
    chosen = judged or range(len(cells))
    base, head = (sum(medians[at][side] for at in chosen) for side in (0, 1))
    turns = zip(*(cells[at] for at in chosen), strict=False)
    ratios = [fmean(pair.ratio(quantity) for pair in turn) for turn in turns]
    bounds = interval(ratios)
    verdict: Verdict
    if not judged:
        verdict = "too small"
    elif bounds is None:
        verdict = "inconclusive"
    elif abs(head - base) < quantity.difference:
        verdict = "unchanged"
    else:
        verdict = decide(median(ratios), *bounds)
    return Finding(quantity, base, head, len(ratios), median(ratios), bounds, verdict)


def _medians(pairs: Sequence[Pair], quantity: Quantity) -> tuple[float, float]:
    return median([pair.base[quantity.name] for pair in pairs]), median([pair.head[quantity.name] for pair in pairs])


def _screened(change: float, _low: float, _high: float) -> Verdict:
    return "unchanged" if abs(change) <= UNCHANGED else "inconclusive"


def _confirmed(_change: float, low: float, high: float) -> Verdict:
    if low > WORSE:
        return "regression"
    if high < -WORSE:
        return "improvement"
    return "unchanged" if -WORSE <= low <= high <= WORSE else "inconclusive"
