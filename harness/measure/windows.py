"""The rounds of a stream that are timed, and the rounds after which answers are compared with the oracle's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import relation
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.engines.registry import capabilities
from deltamark.harness.measure.cell import Cell
from deltamark.queries.catalogue import query

WINDOWS = 5

Span = tuple[int, int]
"""The rounds `first` to `last` - 1."""


def spans(work: Workload, names: Iterable[str], step: int, most: int) -> list[Span]:
    """Return the rounds to time, in batches of `step` rounds: one span of all rounds in which some relations change.

    The batches of a load are left out, but not the one in which it ends. If there is only a load, it is timed.

    If these have more than `most` batches (0: no limit), return windows with that number of batches instead. Each
    window lies in the middle of an equal part of the stream, so that means over windows estimate means over the stream.
    """
    rounds = _last_round(work, names) + 1
    loaded = work.load_rounds // step if rounds > work.load_rounds else 0
    total = -(-rounds // step) - loaded
    if not most or total <= most:
        return [(loaded * step, rounds)]
    size = max(most // WINDOWS, 1)
    starts = (loaded + (2 * window + 1) * total // (2 * WINDOWS) - size // 2 for window in range(WINDOWS))
    return [(start * step, min((start + size) * step, rounds)) for start in starts]


def rounds_of(dataset: Dataset) -> Callable[[Cell], int]:
    """Return a function that counts the rounds of a cell, up to the last one in which its relations change.

    It returns 0 if they do not change after a load, because then there is nothing to measure.
    """

    @cache
    def counted(name: str, relations: frozenset[str]) -> int:
        work = workload(dataset, name)
        rounds = _last_round(work, relations) + 1
        return rounds if rounds > work.load_rounds else 0

    return lambda cell: counted(cell.workload, frozenset(query(cell.query).relations))


def checkpoints(cell: Cell, sample: int, work: Workload) -> list[int]:
    """Return the numbers of rounds after which answers of a cell are compared: if possible the middle, and the end.

    The middle is that of the rounds after a load.
    A stream has the answer at any logical time; an engine with batches has it where a batch ends. An engine that
    recomputes is compared at the end only, since its timed run is also its checked run.
    """
    engine, step = capabilities(cell.engine), cell.logical * cell.physical
    if engine.recomputes:
        middle = 0
    elif engine.has_stream:
        middle = (work.load_rounds + work.rounds) // 2 // cell.logical * cell.logical
    else:
        middle = _middle_batch(work, query(cell.query).relations, step, sample)
    return [middle, work.rounds] if middle else [work.rounds]


def _middle_batch(work: Workload, names: Iterable[str], step: int, most: int) -> int:
    """Return the first round of a batch in the middle, or of the middle window."""
    windows = spans(work, names, step, most)
    first, last = windows[len(windows) // 2]
    return first if len(windows) > 1 else (first + last) // 2 // step * step


def _last_round(work: Workload, names: Iterable[str]) -> int:
    """Find the last round in which one of these relations changes."""
    relations = [relation(name).name for name in names]

    def changes(first: int, last: int) -> bool:
        return any(work.pieces(name, first, last + 1) for name in relations)

    low = high = work.rounds - 1
    while low and not changes(low, high):  # twice as many rounds each time: the last change is usually near the end
        low, high = max(2 * low - work.rounds, 0), low - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if changes(middle, high) else (low, middle - 1)
    return low
