"""The rounds of a stream that are timed, and the moments at which answers are compared with the oracle's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from random import Random

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import TIMES_PER_ROUND
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.engines.registry import capabilities

WINDOWS = 5

INNER_TIMES, INNER_BATCHES = 4, 3
"""The logical times inside batches at which a change stream is compared, and the batches before the last one after
which the answers of another engine are. Neither number is tuned.
"""

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

    return lambda cell: counted(cell.workload, frozenset(cell.reads))


def checkpoints(cell: Cell, work: Workload, chance: Random) -> list[int]:
    """Return the numbers of rounds after which answers of a cell are compared: some before the end if possible, and it.

    A stream has the answer at any logical time, and is compared in the middle of the rounds after a load. Any other
    engine has it where a batch ends. These batches are drawn, since it could otherwise be right in known ones alone.
    """
    if capabilities(cell.engine).has_stream:
        between = [(work.load_rounds + work.rounds) // 2 // cell.logical * cell.logical]
    else:
        windows = spans(work, cell.reads, cell.logical * cell.physical, cell.sample)
        between = [_some_batch(windows, cell.logical * cell.physical, chance) for _ in range(INNER_BATCHES)]
    return sorted({*filter(None, between), work.rounds})


def inner_times(cell: Cell, rounds: range, chance: Random) -> list[int]:
    """Draw logical times inside rounds of a stream, and so inside its batches, whatever their size.

    Half of them are after the rows of all relations but one with the last rank, so that few changes are left to the end
    of the round, and half before some of these rows. A query of a relation with the last rank alone has only times at
    the ends of rounds.
    """
    last_rank = TIMES_PER_ROUND - 1
    ranks = sorted({cell.home.relations[name].rank for name in cell.reads} - {last_rank}) or [last_rank]
    first, last = rounds.start // cell.logical, (rounds.stop - 1) // cell.logical
    drawn = [chance.choice(ranks[:-1] or ranks) if number % 2 else ranks[-1] for number in range(INNER_TIMES)]
    return sorted({chance.randint(first, last) * TIMES_PER_ROUND + rank for rank in drawn})


def _some_batch(windows: list[Span], step: int, chance: Random) -> int:
    """Draw the first round of a timed batch that is not the first of all; 0 if there is no other."""
    first, last = chance.choice(windows)
    starts = range(first or step, last, step)
    return chance.choice(starts) if starts else 0


def _last_round(work: Workload, names: Iterable[str]) -> int:
    """Find the last round in which one of these relations changes."""
    relations = tuple(names)

    def changes(first: int, last: int) -> bool:
        return any(work.pieces(name, first, last + 1) for name in relations)

    low = high = work.rounds - 1
    while low and not changes(low, high):  # twice as many rounds each time: the last change is usually near the end
        low, high = max(2 * low - work.rounds, 0), low - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if changes(middle, high) else (low, middle - 1)
    return low
