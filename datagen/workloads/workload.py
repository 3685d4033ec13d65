"""Workloads: the rounds in which rows are inserted and retracted, as positions in the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.positions import Rows
from deltamark.datagen.schema import Relation
from deltamark.errors import DeltamarkError


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows of a relation that are inserted (diff 1) or retracted (diff -1).

    The round of rows[i] is first+i, or rounds[i] if `rounds` is given, which is non-decreasing.
    """

    rows: Rows
    diff: int
    first: int
    rounds: np.ndarray | None = None

    def share(self, worker: int, workers: int) -> ChangedRows:
        """Return the share of one worker, which is consecutive if the rows are."""
        size = len(self.rows)
        low, high = size * worker // workers, size * (worker + 1) // workers
        rounds = None if self.rounds is None else self.rounds[low:high]
        return ChangedRows(self.rows[low:high], self.diff, self.first + low, rounds)


SHARE = 1000
"""A step changes one row in this many of a relation, but at least one."""


def rows_in_step(dataset: Dataset, name: str) -> int:
    return max(dataset.rows(name) // SHARE, 1)


class InapplicableError(DeltamarkError):
    """A workload that does not apply to a benchmark."""


def refusal(workload: str, reason: str) -> InapplicableError:
    """Return the error for a workload that does not apply to a benchmark."""
    return InapplicableError(f"the workload {workload.partition(':')[0]} does not apply", reason, "give another one")


def events_of(dataset: Dataset) -> Relation:
    """Return the relation whose rows come and go."""
    if (events := dataset.relations.events) is None:
        raise refusal("of events", "no relation has the role events")
    return events


def in_one_round(rows: Rows, diff: int, round_: int) -> ChangedRows:
    return ChangedRows(rows, diff, round_, np.full(len(rows), round_))


class Workload(ABC):
    """Insertions and retractions by rounds. The number of rounds does not depend on the query."""

    name: str
    rounds: int
    dataset: Dataset
    """The data in which the positions lie."""
    load_rounds: int = 0
    """The first rounds, which load rows that later rounds change, and are not timed."""

    @abstractmethod
    def pieces(self, name: str, start: int, stop: int) -> list[ChangedRows]:
        """Return the changes of a relation in the rounds start to stop - 1, as pieces that are not empty.

        In their order, a row is inserted only while it is not live, and retracted only while it is: keys are unique.
        """

    @abstractmethod
    def most_live(self, name: str) -> int:
        """Return the largest number of live rows of a relation at the end of a round."""

    def check_end(self, rounds: int, logical: int) -> int:
        """Return `rounds` if it is a boundary of logical batches, after which a stream has a state."""
        if 0 <= rounds <= self.rounds and (rounds % logical == 0 or rounds == self.rounds):
            return rounds
        below = min(max(rounds, 0), self.rounds) // logical * logical
        above = min(below + logical, self.rounds)
        remedy = f"give {below} or {above}" if below != above else f"give at most {self.rounds}"
        raise DeltamarkError(f"no boundary of logical batches of {logical}", f"{rounds} rounds", remedy)
