"""The open loop: rounds become due at given times, and the engine takes all rounds that are due as one batch.

The latency of a round counts from the time at which it is due, also if the engine is busy then. It ends when the engine
has counted the last change of the batch. Cutting and converting the batch are part of it, because the rounds wait
meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from deltamark.harness.engines.base import Engine


class Clock(Protocol):
    """A clock in seconds, and the way to wait for a time on it."""

    def now(self) -> float: ...

    def wait(self, until: float) -> None: ...


@dataclass(frozen=True)
class OpenRun:
    """The outcome of an open loop. The times of rounds are in seconds since its beginning."""

    due: np.ndarray
    completed: np.ndarray
    """The time at which each round was completed, or at which the loop was given up."""
    finished: bool
    """Whether all rounds were completed."""
    batches: int
    rows: int
    changes: int

    @property
    def latencies(self) -> np.ndarray:
        """The latency of each round, in increasing order; at least that long for rounds that were not completed."""
        return np.sort(self.completed - self.due)

    @property
    def growth(self) -> float:
        """The median latency of the last quarter of the rounds, less that of the second quarter."""
        latencies, quarter = self.completed - self.due, len(self.due) // 4
        if not quarter:
            return 0.0
        return float(np.median(latencies[-quarter:]) - np.median(latencies[quarter : 2 * quarter]))

    @property
    def recovery(self) -> float:
        """The time from the largest burst until no round that is due waits."""
        times, first, sizes = np.unique(self.due, return_index=True, return_counts=True)
        largest = int(sizes.argmax())
        begin = int(first[largest])
        waiting = np.append(self.due[begin + 1 :] <= self.completed[begin:-1], False)
        return float(self.completed[begin:][~waiting][0] - times[largest])


def open_loop(engine: Engine, due: np.ndarray, clock: Clock, give_up: float) -> OpenRun:
    """Feed the next rounds of an engine when they are due. give_up: the time from which on no batch begins."""
    ends, times, rows, changes = [0], list[float](), 0, 0
    start = clock.now()
    while ends[-1] < len(due) and (now := clock.now() - start) < give_up:
        end = int(np.searchsorted(due, now, side="right"))
        if end == ends[-1]:
            clock.wait(start + due[end])
            continue
        if taken := engine.take(end - ends[-1]):
            rows += taken
            changes += engine.apply()
        ends.append(end)
        times.append(clock.now() - start)
    left = len(due) - ends[-1]
    completed = np.repeat([*times, clock.now() - start], [*np.diff(ends), left])
    return OpenRun(due, completed, not left, len(times), rows, changes)
