"""Workloads in which rows come, and in some go, in the order of the files: insert, window, refresh, slide, late."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.seeded import hashed
from deltamark.datagen.workloads.workload import (
    ChangedRows,
    Workload,
    WorkloadKind,
    events_of,
    in_one_round,
    rows_in_step,
    without_events,
)
from deltamark.errors import DeltamarkError

MIN_ROUNDS_AHEAD = 1 << 12
"""The fewest rounds whose rows are computed at a time. Not tuned."""


class Insert(Workload):
    """Row i of every relation arrives in round i and stays."""

    name = "insert"

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._rows = {name: dataset.rows(name) for name in dataset.relations}
        self.rounds = max(*self._rows.values(), 1)

    def pieces(self, name: str, start: int, stop: int) -> list[ChangedRows]:
        stop = min(stop, self._rows[name])
        return [ChangedRows(range(start, stop), 1, start)] if start < stop else []


class Window(Workload):
    """window:N, a sliding window over the events: the other relations arrive in round 0; round r >= 1 inserts event
    r-1 and, from r = N+1 on, retracts event r-1-N, each with its members. Never more than N events are live.

    In several cycles the first event arrives again after the last one, and rounds and times go on. An event has left
    before it arrives again, so its key is never live twice. The live rows are not consecutive where a cycle ends, so
    only engines that maintain can run several.
    """

    def __init__(self, dataset: Dataset, size: int, cycles: int = 1) -> None:
        self.name = f"window:{size}"
        self._size = size
        self.dataset = dataset
        self._events = events_of(dataset).name
        self._members = dataset.relations.members(self._events)
        self._rows = dataset.rows(self._events)
        self.rounds = cycles * self._rows + 1
        if cycles > 1 and size >= self._rows:
            remedy = f"at this scale at most window:{self._rows - 1}"
            raise DeltamarkError("an event would arrive again before it leaves", self.name, remedy)

    def most_live(self, name: str) -> int:
        size = min(self._size, self._rows)
        if name == self._events:
            return size
        if name in self._members:
            first = self.dataset.first_members(name, 0, self._rows + 1)
            if self.rounds > self._rows + 1:
                first = np.concatenate([first, first[-1] + first[1 : size + 1]])
            return int((first[size:] - first[: len(first) - size]).max())
        return self.dataset.rows(name)

    def pieces(self, name: str, start: int, stop: int) -> list[ChangedRows]:
        if name != self._events and name not in self._members:
            return self.all_at_once(name, start)
        pieces = []
        for diff, age in ((1, 1), (-1, 1 + self._size)):  # event e is inserted in round e+1, retracted in e+1+size
            first, last = max(start, age), max(min(stop, self.rounds), age)
            while first < last:
                low = (first - age) % self._rows
                high = min(low + last - first, self._rows)
                pieces.append(self._piece(name, low, high, diff, first))
                first += high - low
        return [piece for piece in pieces if len(piece.rows)]

    def _piece(self, name: str, low: int, high: int, diff: int, round_: int) -> ChangedRows:
        if name == self._events:
            return ChangedRows(range(low, high), diff, round_)
        first = self.dataset.first_members(name, low, high + 1)
        rounds = np.repeat(np.arange(round_, round_ + high - low), np.diff(first))
        return ChangedRows(range(int(first[0]), int(first[-1])), diff, round_, rounds)


class Refresh(Workload):
    """refresh:K, TPC-H's refresh functions: a load as in `insert` without the last K*S events (S: one in 1,000, at
    least one), for R rounds; then round R+2k inserts the next S of them, and round R+2k+1 retracts the S oldest ones.
    Events come and go with their members.
    """

    def __init__(self, dataset: Dataset, steps: int) -> None:
        self.name = f"refresh:{steps}"
        self.dataset = dataset
        self._events = events_of(dataset).name
        self._members = dataset.relations.members(self._events)
        self._size = rows_in_step(dataset, self._events)
        rows = dataset.rows(self._events)
        self._loaded = rows - steps * self._size
        if self._loaded < 0:
            most = rows // self._size
            cause = f"not enough {self._events} to hold back"
            raise DeltamarkError(cause, self.name, f"at this scale at most refresh:{most}")
        self._load = {name: dataset.rows(name) for name in dataset.relations}
        self._load[self._events] = self._loaded
        self._load |= {name: self._first(name, self._loaded) for name in self._members}
        self._load_rounds = max(self._load.values())
        self.rounds = self._load_rounds + 2 * steps

    def pieces(self, name: str, start: int, stop: int) -> list[ChangedRows]:
        pieces = []
        if start < (loaded := min(stop, self._load[name])):
            pieces.append(ChangedRows(range(start, loaded), 1, start))
        if name == self._events or name in self._members:
            steps = range(max(start, self._load_rounds), min(stop, self.rounds))
            pieces += [piece for round_ in steps if len((piece := self._step(name, round_)).rows)]
        return pieces

    def _step(self, name: str, round_: int) -> ChangedRows:
        step, retracts = divmod(round_ - self._load_rounds, 2)
        low = step * self._size + (0 if retracts else self._loaded)
        high = low + self._size
        if name != self._events:
            low, high = self._first(name, low), self._first(name, high)
        return in_one_round(range(low, high), -1 if retracts else 1, round_)

    def _first(self, name: str, event: int) -> int:
        return int(self.dataset.first_members(name, event, event + 1)[0])


class Slide(Workload):
    """slide:N: row i of a relation arrives in round i and leaves in round i+N, until all rows have left.

    The rows of fixed relations arrive in round 0 and stay.
    """

    def __init__(self, dataset: Dataset, size: int) -> None:
        self.name = f"slide:{size}"
        self.dataset = dataset
        self._size = size
        self._fixed = {each.name for each in dataset.relations.having("fixed")}
        most = max(dataset.rows(name) for name in dataset.relations)
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
