"""The logical times at which the relations of a query change, which are the only ones at which its answer can."""

from __future__ import annotations

import numpy as np

from deltamark.datagen.feed import Feed, last_time
from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.measure.cell import Cell

READ_ROUNDS = 100_000
"""The rounds whose times are read at once. Not tuned."""


class InputTimes:
    """Reads the times of the rows of a query beside its changes."""

    def __init__(self, cell: Cell, work: Workload) -> None:
        self._feed = Feed(work, dict.fromkeys(cell.reads, ()), logical=cell.logical)
        self._physical = max(READ_ROUNDS // cell.logical, 1)
        self._read: list[np.ndarray] = []
        """The times of rows that may be later than those of the previous changes."""

    def others(self, times: np.ndarray) -> np.ndarray:
        """Return those of some times at which no row arrives or leaves, except 0: the answer to no rows may have a row.

        times: increasing, and not earlier than those of the previous call.
        """
        last = int(times[-1])
        while not self._feed.done and (not self._feed.round or last_time(self._feed.round, self._feed.logical) < last):
            self._read += [delta.time for delta in self._feed.take(self._physical)]
        found = times == 0
        for read in self._read:
            found |= read[np.minimum(np.searchsorted(read, times), len(read) - 1)] == times
        self._read = [read for read in self._read if read[-1] > last]
        return times[~found]
