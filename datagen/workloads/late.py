"""The workload late:H: row i of every relation arrives in one of the rounds i to i+H, which a hash draws, and stays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import RELATION_NAMES, RelationName
from deltamark.datagen.seeded import hashed
from deltamark.datagen.workloads.workload import ChangedRows, Workload
from deltamark.errors import DeltamarkError

MIN_ROUNDS_AHEAD = 1 << 12
"""The fewest rounds whose rows are computed at a time. Not tuned."""


@dataclass(frozen=True)
class Arrivals:
    """The rows of a relation that arrive in the rounds start to stop - 1, in the order of their rounds."""

    start: int
    stop: int
    rows: np.ndarray
    rounds: np.ndarray


class Late(Workload):
    def __init__(self, dataset: Dataset, delay: int) -> None:
        self.name = f"late:{delay}"
        self.dataset = dataset
        self._delay = delay
        self._ahead: dict[RelationName, Arrivals] = {}
        """The arrivals of each relation that were computed last."""
        most = max(dataset.rows(name) for name in RELATION_NAMES)
        if delay > most:
            raise DeltamarkError("the delay exceeds the longest relation", self.name, f"give at most late:{most}")
        self.rounds = 1 + max(self._last_round(name) for name in RELATION_NAMES)

    def most_live(self, name: RelationName) -> int:
        return self.dataset.rows(name)

    def pieces(self, name: RelationName, start: int, stop: int) -> list[ChangedRows]:
        ahead = self._ahead.get(name)
        if ahead is None or not ahead.start <= start <= stop <= ahead.stop:
            ahead = self._arrivals(name, start, max(stop, start + max(self._delay, MIN_ROUNDS_AHEAD)))
            self._ahead[name] = ahead
        low, high = np.searchsorted(ahead.rounds, (start, stop))
        return [ChangedRows(ahead.rows[low:high], 1, start, ahead.rounds[low:high])] if low < high else []

    def _arrivals(self, name: RelationName, start: int, stop: int) -> Arrivals:
        rows = np.arange(max(start - self._delay, 0), min(stop, self.dataset.rows(name)))
        rounds = self._rounds(name, rows)
        rows = rows[(rounds >= start) & (rounds < stop)]
        rounds = self._rounds(name, rows)
        order = np.argsort(rounds, kind="stable")
        return Arrivals(start, stop, rows[order], rounds[order])

    def _rounds(self, name: RelationName, rows: np.ndarray) -> np.ndarray:
        return rows + hashed(f"late {name}", rows) % (self._delay + 1)

    def _last_round(self, name: RelationName) -> int:
        rows = self.dataset.rows(name)
        return int(self._rounds(name, np.arange(max(rows - self._delay - 1, 0), rows)).max())
