"""Workloads in which rows come, and in some go, in the order of the files: insert, window, refresh, slide, late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.seeded import hashed
from deltamark.datagen.workloads.workload import (
    ChangedRows,
    Workload,
    WorkloadKind,
    in_one_round,
    rows_in_step,
    without_events,
)
from deltamark.errors import DeltamarkError

Rounds = TypeVar("Rounds", int, np.ndarray)

MIN_ROUNDS_AHEAD = 1 << 12
"""The fewest rounds whose rows are computed at a time. Not tuned."""


class Insert(Workload):
    """Row i of every relation arrives in round i and stays."""

    name = "insert"
    retracts = False

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._rows = {name: dataset.rows(name) for name in dataset.relations}
        self.rounds = max(*self._rows.values(), 1)

    def pieces(self, name: str, start: int, stop: int) -> list[ChangedRows]:
        stop = min(stop, self._rows[name])
        return [ChangedRows(range(start, stop), 1, start)] if start < stop else []


class Window(Workload):
    """window:N, a sliding window over the events: the other relations arrive in round 0; round r >= 1 inserts event
    r-1 and, from r = N+1 on, retracts event r-1-N, each with its members. Never more than N events are live. If several
    relations have events, this is the one with most rows, and those of another are spread evenly: of n events beside m,
    event i arrives in round i*m//n + 1.

    In several cycles the first event arrives again after the last one, and rounds and times go on. An event has left
    before it arrives again, so its key is never live twice. The live rows are not consecutive where a cycle ends, so
    only engines that maintain can run several.
    """

    def __init__(self, dataset: Dataset, size: int, cycles: int = 1) -> None:
        self.name = f"window:{size}"
        self._size = size
        self.dataset = dataset
        self._owner = dataset.relations.moving
        self._events = {name: dataset.rows(name) for name in self._owner.values()}
        self._cycle = max(self._events.values())
        self.rounds = cycles * self._cycle + 1
        if cycles > 1 and size >= self._cycle:
            remedy = f"at this scale at most window:{self._cycle - 1}"
            raise DeltamarkError("an event would arrive again before it leaves", self.name, remedy)

    def most_live(self, name: str) -> int:
        if name not in self._owner:
            return self.dataset.rows(name)
        size, owner = min(self._size, self._cycle), self._owner[name]
        if name == owner:
            return int(self._arrived(owner, size))
        first = self.dataset.first_members(name, 0, self._events[owner] + 1)
        last = self._cycle
        if self.rounds > self._cycle + 1:
            first, last = np.concatenate([first, first[-1] + first[1:]]), 2 * self._cycle
        ends = np.arange(size, last + 1)
        return int((first[self._arrived(owner, ends)] - first[self._arrived(owner, ends - size)]).max())

    def pieces(self, name: str, start: int, stop: int) -> list[ChangedRows]:
        if name not in self._owner:
            return self.all_at_once(name, start)
        pieces, owner = [], self._owner[name]
        for diff, delay in ((1, 1), (-1, 1 + self._size)):
            last = max(min(stop, self.rounds) - delay, 0)
            low, high = self._arrived(owner, max(start - delay, 0)), self._arrived(owner, last)
            while low < high:
                cycle, first = divmod(low, self._events[owner])
                until = min(first + high - low, self._events[owner])
                pieces.append(self._piece(name, range(first, until), diff, cycle * self._cycle + delay))
                low += until - first
        return [piece for piece in pieces if len(piece.rows)]

    def _arrived(self, owner: str, rounds: Rounds) -> Rounds:
        """Return how many events of a relation arrive in some rounds, the first of which is round 1."""
        return -(-rounds * self._events[owner] // max(self._cycle, 1))

    def _piece(self, name: str, events: range, diff: int, begin: int) -> ChangedRows:
        """Return a change of events in one cycle, or of their members. begin: the round of the first of the cycle."""
        owner = self._owner[name]
        if (rows := self._events[owner]) == self._cycle and name == owner:
            return ChangedRows(events, diff, begin + events.start)
        rounds = begin + np.arange(events.start, events.stop) * self._cycle // rows
        if name == owner:
            return ChangedRows(events, diff, int(rounds[0]), rounds)
        first = self.dataset.first_members(name, events.start, events.stop + 1)
        return ChangedRows(range(int(first[0]), int(first[-1])), diff, begin, np.repeat(rounds, np.diff(first)))


class Refresh(Workload):
    """refresh:K, TPC-H's refresh functions: a load as in `insert` without the last K*S events (S: one in 1,000, at
    least one), for R rounds; then round R+2k inserts the next S of them, and round R+2k+1 retracts the S oldest ones.
    Events come and go with their members. Each relation of events has an S of its own.
    """

    def __init__(self, dataset: Dataset, steps: int) -> None:
        self.name = f"refresh:{steps}"
        self.dataset = dataset
        self._owner = dataset.relations.moving
        self._size = {name: rows_in_step(dataset, name) for name in self._owner.values()}
        self._loaded = {name: dataset.rows(name) - steps * size for name, size in self._size.items()}
        for name, loaded in self._loaded.items():
            if loaded < 0:
                most = dataset.rows(name) // self._size[name]
                cause = f"not enough {name} to hold back"
                raise DeltamarkError(cause, self.name, f"at this scale at most refresh:{most}")
        self._load = {name: dataset.rows(name) for name in dataset.relations}
        self._load |= {name: self._first(name, self._loaded[owner]) for name, owner in self._owner.items()}
        self._load_rounds = max(self._load.values())
        self.rounds = self._load_rounds + 2 * steps

    def pieces(self, name: str, start: int, stop: int) -> list[ChangedRows]:
        pieces = []
        if start < (loaded := min(stop, self._load[name])):
            pieces.append(ChangedRows(range(start, loaded), 1, start))
        if name in self._owner:
            steps = range(max(start, self._load_rounds), min(stop, self.rounds))
            pieces += [piece for round_ in steps if len((piece := self._step(name, round_)).rows)]
        return pieces

    def _step(self, name: str, round_: int) -> ChangedRows:
        owner = self._owner[name]
        step, retracts = divmod(round_ - self._load_rounds, 2)
        low = step * self._size[owner] + (0 if retracts else self._loaded[owner])
        rows = range(self._first(name, low), self._first(name, low + self._size[owner]))
        return in_one_round(rows, -1 if retracts else 1, round_)

    def _first(self, name: str, event: int) -> int:
        """Return the position of the first row of a relation that comes with an event, or with a later one."""
        return event if name == self._owner[name] else int(self.dataset.first_members(name, event, event + 1)[0])


class Slide(Workload):
    """slide:N: row i of a relation arrives in round i and leaves in round i+N, until all rows have left.

    The rows of fixed relations arrive in round 0 and stay.
    """

    def __init__(self, dataset: Dataset, size: int) -> None:
        self.name = f"slide:{size}"
        self.dataset = dataset
        self._size = size
        self._fixed = {each.name for each in dataset.relations.having("fixed")}
        most = max((dataset.rows(name) for name in {*dataset.relations} - self._fixed), default=0)
        if size > most:
            remedy = f"at this scale at most slide:{most}"
            raise DeltamarkError("the window is longer than the longest relation", self.name, remedy)
        self.rounds = most + size

    def most_live(self, name: str) -> int:
        rows = self.dataset.rows(name)
        return rows if name in self._fixed else min(self._size, rows)

    def pieces(self, name: str, start: int, stop: int) -> list[ChangedRows]:
        if name in self._fixed:
            return self.all_at_once(name, start)
        pieces, rows = [], self.dataset.rows(name)
        for diff, age in ((1, 0), (-1, self._size)):
            low, high = max(start - age, 0), min(stop - age, rows)
            if low < high:
                pieces.append(ChangedRows(range(low, high), diff, low + age))
        return pieces


@dataclass(frozen=True)
class Arrivals:
    """The rows of a relation that arrive in the rounds start to stop - 1, in the order of their rounds."""

    start: int
    stop: int
    rows: np.ndarray
    rounds: np.ndarray


class Late(Workload):
    """late:H: row i of every relation arrives in one of the rounds i to i+H, which a hash draws, and stays."""

    retracts = False

    def __init__(self, dataset: Dataset, delay: int) -> None:
        self.name = f"late:{delay}"
        self.dataset = dataset
        self._delay = delay
        self._ahead: dict[str, Arrivals] = {}
        """The arrivals of each relation that were computed last."""
        most = max(dataset.rows(name) for name in dataset.relations)
        if delay > most:
            raise DeltamarkError("the delay exceeds the longest relation", self.name, f"give at most late:{most}")
        self.rounds = 1 + max(self._last_round(name) for name in dataset.relations)

    def pieces(self, name: str, start: int, stop: int) -> list[ChangedRows]:
        ahead = self._ahead.get(name)
        if ahead is None or not ahead.start <= start <= stop <= ahead.stop:
            ahead = self._arrivals(name, start, max(stop, start + max(self._delay, MIN_ROUNDS_AHEAD)))
            self._ahead[name] = ahead
        low, high = np.searchsorted(ahead.rounds, (start, stop))
        return [ChangedRows(ahead.rows[low:high], 1, start, ahead.rounds[low:high])] if low < high else []

    def _arrivals(self, name: str, start: int, stop: int) -> Arrivals:
        rows = np.arange(max(start - self._delay, 0), min(stop, self.dataset.rows(name)))
        rounds = self._rounds(name, rows)
        rows = rows[(rounds >= start) & (rounds < stop)]
        rounds = self._rounds(name, rows)
        order = np.argsort(rounds, kind="stable")
        return Arrivals(start, stop, rows[order], rounds[order])

    def _rounds(self, name: str, rows: np.ndarray) -> np.ndarray:
        return rows + hashed(f"late {name}", rows) % (self._delay + 1)

    def _last_round(self, name: str) -> int:
        rows = self.dataset.rows(name)
        return int(self._rounds(name, np.arange(max(rows - self._delay - 1, 0), rows)).max(initial=0))


KINDS = (
    WorkloadKind(
        name="window", letter="N", open=Window, small="500", lacks=without_events,
        meaning="keeps the last N events (in TPC-H: orders)",
    ),
    WorkloadKind(
        name="refresh", letter="K", open=Refresh, small="5", lacks=without_events,
        meaning="loads all rows, then runs TPC-H's refresh functions",
    ),
    WorkloadKind(
        name="slide", letter="N", open=Slide, small="500", meaning="keeps the last N rows of every relation"
    ),
    WorkloadKind(name="late", letter="H", open=Late, small="500", meaning="inserts rows up to H rounds late"),
)  # fmt: skip
