"""The workload window:N: everything but orders and their lines arrives in round 0; round r >= 1 inserts order r-1 and,
from r = N+1 on, retracts order r-1-N, each with its lines. Never more than N orders are live.
"""

from __future__ import annotations

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import RelationName
from deltamark.datagen.workloads.workload import ChangedRows, Workload, in_one_round
from deltamark.errors import DeltamarkError


class Window(Workload):
    """A sliding window over the orders.

    In several cycles the first order arrives again after the last one, and rounds and times go on. An order has left
    before it arrives again, so its key is never live twice. The live rows are not consecutive where a cycle ends, so
    only engines that maintain can run several.
    """

    def __init__(self, dataset: Dataset, size: int, cycles: int = 1) -> None:
        self.name = f"window:{size}"
        self._size = size
        self.dataset = dataset
        self._orders = dataset.rows("orders")
        self.rounds = cycles * self._orders + 1
        if cycles > 1 and size >= self._orders:
            remedy = f"at this scale at most window:{self._orders - 1}"
            raise DeltamarkError("an order would arrive again before it leaves", self.name, remedy)

    def most_live(self, name: RelationName) -> int:
        size = min(self._size, self._orders)
        if name == "orders":
            return size
        if name == "lineitem":
            first = self.dataset.first_lines(0, self._orders + 1)
            if self.rounds > self._orders + 1:
                first = np.concatenate([first, first[-1] + first[1 : size + 1]])
            return int((first[size:] - first[: len(first) - size]).max())
        return self.dataset.rows(name)

    def pieces(self, name: RelationName, start: int, stop: int) -> list[ChangedRows]:
        if name not in ("orders", "lineitem"):
            rows = self.dataset.rows(name)
            return [in_one_round(range(rows), 1, 0)] if start == 0 and rows else []
        pieces = []
        for diff, age in ((1, 1), (-1, 1 + self._size)):  # order o is inserted in round o+1, retracted in o+1+size
            first, last = max(start, age), max(min(stop, self.rounds), age)
            while first < last:
                low = (first - age) % self._orders
                high = min(low + last - first, self._orders)
                pieces.append(self._piece(name, low, high, diff, first))
                first += high - low
        return pieces

    def _piece(self, name: RelationName, low: int, high: int, diff: int, round_: int) -> ChangedRows:
        if name == "orders":
            return ChangedRows(range(low, high), diff, round_)
        lines = self.dataset.first_lines(low, high + 1)
        rounds = np.repeat(np.arange(round_, round_ + high - low), np.diff(lines))
        return ChangedRows(range(int(lines[0]), int(lines[-1])), diff, round_, rounds)
