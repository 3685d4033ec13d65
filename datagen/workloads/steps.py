"""Workloads of steps: a load as in `insert`, followed by steps, each in a round of its own."""

from __future__ import annotations

from abc import abstractmethod

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import RelationName
from deltamark.datagen.workloads.insert import Insert
from deltamark.datagen.workloads.versions import Change
from deltamark.datagen.workloads.workload import ChangedRows, Workload, in_one_round

SHARE = 1000
"""A step changes one row in this many of a relation, but at least one."""


def rows_in_step(dataset: Dataset, name: RelationName) -> int:
    return max(dataset.rows(name) // SHARE, 1)


class Steps(Workload):
    def __init__(self, name: str, dataset: Dataset, steps: int) -> None:
        self.name = name
        self.dataset = dataset
        self._load = Insert(dataset)
        self.load_rounds = self._load.rounds
        self.rounds = self.load_rounds + steps

    def most_live(self, name: RelationName) -> int:
        return self.dataset.rows(name)

    def pieces(self, name: RelationName, start: int, stop: int) -> list[ChangedRows]:
        pieces = self._load.pieces(name, start, stop)
        for round_ in range(max(start, self.load_rounds), min(stop, self.rounds)):
            changes = self.changes(name, round_ - self.load_rounds)
            pieces += [in_one_round(rows, diff, round_) for rows, diff in changes if len(rows)]
        return pieces

    @abstractmethod
    def changes(self, name: RelationName, step: int) -> list[Change]:
        """Return the changes of a relation in a step, in their order."""
