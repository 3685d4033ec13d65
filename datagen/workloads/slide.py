"""The workload slide:N: row i of a relation arrives in round i and leaves in round i+N, until all rows have left.

The rows of nation and region arrive in round 0 and stay.
"""

from __future__ import annotations

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import RELATION_NAMES, RelationName
from deltamark.datagen.specification import FIXED_ROWS
from deltamark.datagen.workloads.workload import ChangedRows, Workload, in_one_round
from deltamark.errors import DeltamarkError


class Slide(Workload):
    def __init__(self, dataset: Dataset, size: int) -> None:
        self.name = f"slide:{size}"
        self.dataset = dataset
        self._size = size
        most = max(dataset.rows(name) for name in RELATION_NAMES)
        if size > most:
            remedy = f"at this scale at most slide:{most}"
            raise DeltamarkError("the window is longer than the longest relation", self.name, remedy)
        self.rounds = most + size

    def most_live(self, name: RelationName) -> int:
        rows = self.dataset.rows(name)
        return rows if name in FIXED_ROWS else min(self._size, rows)

    def pieces(self, name: RelationName, start: int, stop: int) -> list[ChangedRows]:
        rows = self.dataset.rows(name)
        if name in FIXED_ROWS:
            return [in_one_round(range(rows), 1, 0)] if start == 0 else []
        pieces = []
        for diff, age in ((1, 0), (-1, self._size)):
            low, high = max(start - age, 0), min(stop - age, rows)
            if low < high:
                pieces.append(ChangedRows(range(low, high), diff, low + age))
        return pieces
