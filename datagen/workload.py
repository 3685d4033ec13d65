"""Workloads: the rounds in which rows are inserted and retracted, as positions in the stored files.

insert      row i of every relation arrives in round i and stays
window:N    everything but orders and their lines arrives in round 0; round r >= 1 inserts order r-1 and, from
            r = N+1 on, retracts order r-1-N, each with its lines: never more than N orders are live
refresh:K   TPC-H's refresh functions: a load as in `insert` without the last K*S orders (S = max(1, floor(SF*1500))),
            for R rounds; then round R+2k inserts the next S of them, and round R+2k+1 retracts the S oldest ones
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import RELATION_NAMES, RelationName
from deltamark.errors import DeltamarkError, unknown, whole_number


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Consecutive rows of a relation, `start` to `stop` - 1, that are inserted (diff 1) or retracted (diff -1).

    The round of row start+i is first+i, or rounds[i] if `rounds` is given, which is non-decreasing.
    """

    start: int
    stop: int
    diff: int
    first: int
    rounds: np.ndarray | None = None

    def share(self, worker: int, workers: int) -> ChangedRows:
        """Return the share of one worker, which is consecutive too."""
        size = self.stop - self.start
        low, high = size * worker // workers, size * (worker + 1) // workers
        rounds = None if self.rounds is None else self.rounds[low:high]
        return ChangedRows(self.start + low, self.start + high, self.diff, self.first + low, rounds)


class Workload(ABC):
    """Insertions and retractions by rounds. The number of rounds does not depend on the query."""

    name: str
    rounds: int

    @abstractmethod
    def pieces(self, name: RelationName, start: int, stop: int) -> list[ChangedRows]:
        """Return the changes of a relation in the rounds start to stop - 1, as pieces that are not empty."""

    @abstractmethod
    def most_live(self, name: RelationName) -> int:
        """Return the largest number of live rows of a relation at the end of a round."""

    def check_end(self, rounds: int, logical: int) -> int:
        """Return `rounds` if it is a boundary of logical batches, after which a stream has a state."""
        if 0 <= rounds <= self.rounds and (rounds % logical == 0 or rounds == self.rounds):
            return rounds
        below = min(max(rounds, 0), self.rounds) // logical * logical
        above = min(below + logical, self.rounds)
        remedy = f"give {below} or {above}" if below != above else f"give at most {self.rounds}"
        raise DeltamarkError(f"no boundary of logical batches of {logical}", f"{rounds} rounds", remedy)


class Insert(Workload):
    name = "insert"

    def __init__(self, dataset: Dataset) -> None:
        self._rows = {name: dataset.rows(name) for name in RELATION_NAMES}
        self.rounds = max(self._rows.values())

    def most_live(self, name: RelationName) -> int:
        return self._rows[name]

    def pieces(self, name: RelationName, start: int, stop: int) -> list[ChangedRows]:
        stop = min(stop, self._rows[name])
        return [ChangedRows(start, stop, 1, start)] if start < stop else []


class Window(Workload):
    """A sliding window over the orders.

    In several cycles the first order arrives again after the last one, and rounds and times go on. An order has left
    before it arrives again, so its key is never live twice. The live rows are not consecutive where a cycle ends, so
    only engines that maintain can run several.
    """

    def __init__(self, dataset: Dataset, size: int, cycles: int = 1) -> None:
        self.name = f"window:{size}"
        self._size = size
        self._dataset = dataset
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
            first = self._dataset.first_lines(0, self._orders + 1)
            if self.rounds > self._orders + 1:
                first = np.concatenate([first, first[-1] + first[1 : size + 1]])
            return int((first[size:] - first[: len(first) - size]).max())
        return self._dataset.rows(name)

    def pieces(self, name: RelationName, start: int, stop: int) -> list[ChangedRows]:
        if name not in ("orders", "lineitem"):
            rows = self._dataset.rows(name)
            return [ChangedRows(0, rows, 1, 0, np.zeros(rows, dtype=np.int64))] if start == 0 and rows else []
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
            return ChangedRows(low, high, diff, round_)
        lines = self._dataset.first_lines(low, high + 1)
        rounds = np.repeat(np.arange(round_, round_ + high - low), np.diff(lines))
        return ChangedRows(int(lines[0]), int(lines[-1]), diff, round_, rounds)


class Refresh(Workload):
    def __init__(self, dataset: Dataset, steps: int) -> None:
        self.name = f"refresh:{steps}"
        self._size = max(1, int(dataset.manifest.scale_factor * 1500))
        self._dataset = dataset
        orders = dataset.rows("orders")
        self._loaded = orders - steps * self._size
        if self._loaded < 0:
            steps = orders // self._size
            raise DeltamarkError("not enough orders to hold back", self.name, f"at this scale at most refresh:{steps}")
        self._load = {name: dataset.rows(name) for name in RELATION_NAMES}
        self._load["orders"] = self._loaded
        self._load["lineitem"] = self._line(self._loaded)
        self._load_rounds = max(self._load.values())
        self.rounds = self._load_rounds + 2 * steps

    def most_live(self, name: RelationName) -> int:
        return self._dataset.rows(name)

    def pieces(self, name: RelationName, start: int, stop: int) -> list[ChangedRows]:
        pieces = []
        if start < (loaded := min(stop, self._load[name])):
            pieces.append(ChangedRows(start, loaded, 1, start))
        if name in ("orders", "lineitem"):
            steps = range(max(start, self._load_rounds), min(stop, self.rounds))
            pieces += [self._step(name, round_) for round_ in steps]
        return pieces

    def _step(self, name: RelationName, round_: int) -> ChangedRows:
        step, retracts = divmod(round_ - self._load_rounds, 2)
        low = step * self._size + (0 if retracts else self._loaded)
        high = low + self._size
        if name == "lineitem":
            low, high = self._line(low), self._line(high)
        return ChangedRows(low, high, -1 if retracts else 1, round_, np.full(high - low, round_))

    def _line(self, order: int) -> int:
        return int(self._dataset.first_lines(order, order + 1)[0])


MAX_SIZE = 10**12
"""The largest N and K: more orders than any data has."""

SIZED: dict[str, Callable[[Dataset, int], Workload]] = {"window": Window, "refresh": Refresh}


def workload(dataset: Dataset, text: str) -> Workload:
    """Read `insert`, `window:N` or `refresh:K`."""
    kind, _, size = known_workload(text).partition(":")
    return SIZED[kind](dataset, int(size)) if size else Insert(dataset)


def known_workload(text: str) -> str:
    """Return the name of a workload if it is well formed, which needs no data."""
    kind, colon, size = text.partition(":")
    if kind == "insert" and not colon:
        return text
    if kind not in SIZED:
        raise unknown("workload", text, ["insert", *(f"{name}:N" for name in SIZED)])
    whole_number(size, 1, MAX_SIZE, f"{kind}:N needs a whole number N")
    return text
