"""Which rounds of a stream are timed: all, or where that is too many batches, a few windows spread evenly over them."""

from __future__ import annotations

from collections.abc import Iterable

from deltamark.datagen.schema import relation
from deltamark.datagen.workload import Workload

WINDOWS = 5

Span = tuple[int, int]
"""Rounds `first` to `last` - 1."""


def spans(work: Workload, names: Iterable[str], step: int, most: int) -> list[Span]:
    """Cut at most `most` batches (0: any number) of `step` rounds out of the rounds in which these relations change.

    Each window lies in the middle of a part, so that the means over windows are those over the stream.
    """
    rounds = _last_round(work, names) + 1
    total = -(-rounds // step)
    if not most or total <= most:
        return [(0, rounds)]
    each = max(most // WINDOWS, 1)
    starts = ((2 * window + 1) * total // (2 * WINDOWS) - each // 2 for window in range(WINDOWS))
    return [(start * step, min((start + each) * step, rounds)) for start in starts]


def half_way(work: Workload, names: Iterable[str], step: int, most: int) -> int:
    """Return a round about the middle where a batch begins: that of the middle window, if there are windows."""
    found = spans(work, names, step, most)
    return found[len(found) // 2][0] or work.rounds // 2 // step * step


def _last_round(work: Workload, names: Iterable[str]) -> int:
    """Find the last round in which one of these relations changes."""
    relations = [relation(name).name for name in names]
    low, high = 0, work.rounds - 1
    while low < high:
        middle = (low + high + 1) // 2
        if any(work.pieces(name, middle, work.rounds) for name in relations):
            low = middle
        else:
            high = middle - 1
    return low
