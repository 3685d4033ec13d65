"""Workloads: the rounds in which rows are inserted and retracted, as positions in the data.

A module of this package declares its kinds of workloads in `KINDS`, where the registry finds them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.positions import Rows
from deltamark.datagen.schema import Relations
from deltamark.errors import DeltamarkError, whole_number


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


def without_events(relations: Relations) -> str:
    """Return the reason why a workload of events does not apply; empty if it does."""
    return "" if relations.events else "no relation has the role events"


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
    retracts: bool = True
    """Whether rows may leave."""

    @abstractmethod
    def pieces(self, name: str, start: int, stop: int) -> list[ChangedRows]:
        """Return the changes of a relation in the rounds start to stop - 1, as pieces that are not empty.

        In their order, a row is inserted only while it is not live, and retracted only while it is: keys are unique.
        """

    def most_live(self, name: str) -> int:
        """Return the largest number of live rows of a relation at the end of a round."""
        return self.dataset.rows(name)

    def all_at_once(self, name: str, start: int) -> list[ChangedRows]:
        """Return the changes of a relation whose rows arrive in round 0 and stay, in the rounds from `start` on."""
        rows = self.dataset.rows(name)
        return [in_one_round(range(rows), 1, 0)] if start == 0 and rows else []

    def key(self, name: str) -> tuple[str, ...]:
        """Return the key of a relation, or nothing if two of its live rows may have equal values there.

        Rows without changes have different keys, and a new version of a row has the old key and arrives after the old
        version has left. So no two live rows have equal keys after any change, in the order of the changes.
        """
        of = self.dataset.relations[name]
        if of.repeats_keys or set(of.key) & set(of.changing):
            return ()
        has_versions = name in self.dataset.manifest.changes and not self.dataset.is_unique(name, of.key)
        return () if has_versions else of.key

    def check_end(self, rounds: int, logical: int) -> int:
        """Return `rounds` if it is a boundary of logical batches, after which a stream has a state."""
        if 0 <= rounds <= self.rounds and (rounds % logical == 0 or rounds == self.rounds):
            return rounds
        below = min(max(rounds, 0), self.rounds) // logical * logical
        above = min(below + logical, self.rounds)
        remedy = f"give {below} or {above}" if below != above else f"give at most {self.rounds}"
        raise DeltamarkError(f"no boundary of logical batches of {logical}", f"{rounds} rounds", remedy)


MAX_SIZE = 10**12
"""The largest number in the name of a workload: more than any data has rows."""


def _size(text: str, cause: str) -> int:
    return whole_number(text, 1, MAX_SIZE, cause)


@dataclass(frozen=True, kw_only=True)
class WorkloadKind:
    """A kind of workloads, whose names are its own name and a number: `window:1000`."""

    name: str
    letter: str
    """The letter that stands for the number in help and tables."""
    open: Callable[[Dataset, int], Workload]
    meaning: str
    """One clause for the notes of tables."""
    small: str
    """The number with which `verify` checks the kind unless workloads are given."""
    lacks: Callable[[Relations], str] = lambda _: ""
    """Returns the reason why the kind does not apply to the relations of a benchmark; empty if it does."""
    noun: str = "whole number"
    read: Callable[[str, str], int] = _size
    """Reads the number; the second argument is the cause of the error for another text."""

    def number(self, text: str) -> int:
        return self.read(text, f"{self.name}:{self.letter} needs a {self.noun} {self.letter}")
