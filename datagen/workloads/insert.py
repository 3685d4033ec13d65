"""The workload insert: row i of every relation arrives in round i and stays."""

from __future__ import annotations

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import RELATION_NAMES, RelationName
from deltamark.datagen.workloads.workload import ChangedRows, Workload


class Insert(Workload):
    name = "insert"

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._rows = {name: dataset.rows(name) for name in RELATION_NAMES}
        self.rounds = max(self._rows.values())

    def most_live(self, name: RelationName) -> int:
        return self._rows[name]

    def pieces(self, name: RelationName, start: int, stop: int) -> list[ChangedRows]:
        stop = min(stop, self._rows[name])
        return [ChangedRows(range(start, stop), 1, start)] if start < stop else []
