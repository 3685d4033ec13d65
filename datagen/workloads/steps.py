"""Workloads of steps, each in a round of its own after a load as in `insert`: update, churn, hot."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.derived import DerivedRows, ExtendedDataset
from deltamark.datagen.positions import Rows
from deltamark.datagen.schema import Relation, Relations
from deltamark.datagen.seeded import hashed
from deltamark.datagen.workloads.arrivals import Insert
from deltamark.datagen.workloads.workload import (
    ChangedRows,
    Workload,
    WorkloadKind,
    in_one_round,
    rows_in_step,
    without_events,
)
from deltamark.errors import DeltamarkError

SPARSE = 16
"""Keys are looked up in an array of their range if that has at most this many entries per row."""

GroupRows = Callable[[int], np.ndarray]
"""Returns the positions of the rows of a group."""

Change = tuple[Rows, int]
"""Positions, and 1 if the rows are inserted or -1 if they are retracted."""


class Steps(Workload):
    def __init__(self, name: str, dataset: Dataset, steps: int) -> None:
        self.name = name
        self.dataset = dataset
        self._load = Insert(dataset)
        self.load_rounds = self._load.rounds
        self.rounds = self.load_rounds + steps

    def pieces(self, name: str, start: int, stop: int) -> list[ChangedRows]:
        pieces = self._load.pieces(name, start, stop)
        for round_ in range(max(start, self.load_rounds), min(stop, self.rounds)):
            changes = self.changes(name, round_ - self.load_rounds)
            pieces += [in_one_round(rows, diff, round_) for rows, diff in changes if len(rows)]
        return pieces

    @abstractmethod
    def changes(self, name: str, step: int) -> list[Change]:
        """Return the changes of a relation in a step, in their order."""


class Updates(Steps):
    """update:K: each of K rounds changes S events (S: one in 1,000, at least one), which a hash draws.

    A changed event gets other values in its changing columns, and so do its members: the old versions of the rows leave
    and the new ones arrive in the same round.
    """

    def __init__(self, dataset: Dataset, steps: int) -> None:
        name = f"update:{steps}"
        self._versions = event_versions(dataset, name, steps)
        super().__init__(name, ExtendedDataset(dataset, _derived(dataset, self._versions)), steps)

    def changes(self, name: str, step: int) -> list[Change]:
        return self._versions[name].changes(step) if name in self._versions else []


class Churn(Steps):
    """churn:K: in each of K rounds every relation changes that has something to change.

    Events change with their members as in `update`. One row in 1,000 of each other relation with changing columns gets
    other values there. One row in 1,000 of each leaving relation leaves and comes back in the next round, together with
    the rows whose keys contain its own. From a fixed relation one row leaves, and in every second round only. The
    numbers are rounded down, but are at least 1.
    """

    def __init__(self, dataset: Dataset, steps: int) -> None:
        name, relations = f"churn:{steps}", dataset.relations
        self._versions = dict(event_versions(dataset, name, steps))
        for each in relations.values():
            if each.changing and each.name not in self._versions:
                self._versions[each.name] = _drawn_versions(dataset, each.name, steps)
        self._absent: dict[str, list[np.ndarray]] = {}
        for each in relations.having("leaving"):
            self._absent |= (
                _absent_fixed(dataset, each, steps) if "fixed" in each.roles else _absent(dataset, each, steps)
            )
        super().__init__(name, ExtendedDataset(dataset, _derived(dataset, self._versions)), steps)

    def changes(self, name: str, step: int) -> list[Change]:
        if name in self._versions:
            return self._versions[name].changes(step)
        if name not in self._absent:
            return []
        absent = self._absent[name]
        back = [(absent[step - 1], 1)] if step else []
        return [*back, (absent[step], -1)]


class Hot(Steps):
    """hot:N: in N rounds busy rows of the hot relations, of which there are one or two, leave and come back.

    One row in 1,000 of a hot relation, rounded down but at least one, is a group; the rows to which most others refer
    are the first group. With two hot relations, the first of every four rounds takes the next group of the first one
    away, and the second that of the second one; the third and the fourth bring them back. With one, every second round
    brings a group back. Rows that refer to a row by their first such column leave with it, and so do their members,
    whatever these refer to. A row comes back when all are back with which it left.
    """

    def __init__(self, dataset: Dataset, steps: int) -> None:
        super().__init__(f"hot:{steps}", dataset, steps)
        self._hot = dataset.relations.having("hot")
        self._phases = 2 * len(self._hot)
        groups = min(dataset.rows(each.name) // rows_in_step(dataset, each.name) for each in self._hot)
        if steps > groups * self._phases:
            names = " and ".join(each.name for each in self._hot)
            remedy = f"at this scale at most hot:{groups * self._phases}"
            raise DeltamarkError(f"more rounds than groups of {names}", self.name, remedy)
        self._groups = -(-steps // self._phases)

    def changes(self, name: str, step: int) -> list[Change]:
        group, phase = divmod(step, self._phases)
        of, other = phase % len(self._hot), 1 - phase % len(self._hot)
        if name not in self._moving[of]:
            return []
        rows, leaves = self._moving[of][name](group), phase < len(self._hot)
        if len(self._hot) == 2 and name in self._moving[other] and (phase in (1, 2)):
            rows = np.setdiff1d(rows, self._moving[other][name](group))
        return [(rows, -1 if leaves else 1)]

    @cached_property
    def _moving(self) -> list[Mapping[str, GroupRows]]:
        return [self._followers(each) for each in self._hot]

    def _followers(self, hot: Relation) -> Mapping[str, GroupRows]:
        """Return the rows of each group of a hot relation, by the relations that move with it."""
        dataset, relations = self.dataset, self.dataset.relations
        own = {each.name: each.reference_to(hot.name) for each in relations.values()}
        referring = {name: column for name, column in own.items() if column and not own.get(relations[name].member_of)}
        references = {name: referred(dataset, name, hot, column) for name, column in referring.items()}
        groups = self._busiest(hot, references)
        found: dict[str, GroupRows] = {hot.name: members(groups, self._groups).__getitem__}
        for name, of in references.items():
            followers = members(through(groups, of), self._groups)
            found[name] = followers.__getitem__
            for member in relations.members(name):
                if member not in referring:
                    found[member] = self._members(member, followers)
        return found

    def _members(self, name: str, followers: Sequence[np.ndarray]) -> GroupRows:
        return lambda group: self.dataset.members_of(name, followers[group])

    def _busiest(self, hot: Relation, references: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the group of each row: those with most references first; -1 for the rows of no group.

        The references of the relation with most rows are counted.
        """
        rows, size = self.dataset.rows(hot.name), rows_in_step(self.dataset, hot.name)
        most = max(references.values(), key=len, default=np.empty(0, np.int64))
        counts = np.bincount(most[most >= 0], minlength=rows)
        return group_of(np.argsort(-counts, kind="stable")[: self._groups * size], size, rows)


@dataclass(frozen=True)
class Versions:
    """The versions of rows of a relation in the order of the steps that insert them.

    stored: the position of the stored row; number: from 1 up; replaced: the position of the version before; first: the
    position of the first of them; ends: their number at the end of each step.
    """

    stored: np.ndarray
    number: np.ndarray
    replaced: np.ndarray
    first: int
    ends: np.ndarray

    def changes(self, step: int) -> list[Change]:
        """Return the retraction of the old versions and the insertion of the new ones."""
        low, high = (int(self.ends[step - 1]) if step else 0), int(self.ends[step])
        return [(self.replaced[low:high], -1), (range(self.first + low, self.first + high), 1)]


def versions(steps: Sequence[np.ndarray], first: int) -> Versions:
    """Number the versions of rows. steps: the positions of the stored rows, each at most once in a step."""
    stored = np.concatenate(steps)
    order = np.argsort(stored, kind="stable")
    ordered, places = stored[order], np.arange(len(stored))
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    number, replaced = np.empty_like(stored), np.empty_like(stored)
    number[order] = places - np.maximum.accumulate(np.where(begins, places, 0)) + 1
    replaced[order] = np.where(begins, ordered, first + np.concatenate([order[:1], order[:-1]]))
    return Versions(stored, number, replaced, first, np.cumsum([len(step) for step in steps]))


def drawn(purpose: str, rows: int, count: int) -> np.ndarray:
    """Draw the positions of `count` different rows."""
    size = count
    while True:
        found, first = np.unique(hashed(purpose, np.arange(size)) % rows, return_index=True)
        if len(found) >= count:
            return found[np.argsort(first)[:count]]
        size *= 2


def event_versions(dataset: Dataset, name: str, steps: int) -> Mapping[str, Versions]:
    """Draw the events of all steps; return their versions and those of their members."""
    changed = {}
    for events in dataset.relations.events:
        if not events.changing:
            continue
        rows, size = dataset.rows(events.name), rows_in_step(dataset, events.name)
        if steps * size > rows:
            remedy = f"at this scale at most {name.partition(':')[0]}:{rows // size}"
            raise DeltamarkError(f"more changes of {events.name} than there are {events.name}", name, remedy)
        found = [drawn(f"{events.name} in step {step}", rows, size) for step in range(steps)]
        changed[events.name] = versions(found, dataset.first_derived(events.name))
        for member in dataset.relations.members(events.name):
            if dataset.relations[member].changing:
                of_members = [dataset.members_of(member, each) for each in found]
                changed[member] = versions(of_members, dataset.first_derived(member))
    return changed


def _drawn_versions(dataset: Dataset, name: str, steps: int) -> Versions:
    rows, size = dataset.rows(name), rows_in_step(dataset, name)
    found = [drawn(f"{name} in step {step}", rows, min(size, rows)) for step in range(steps)]
    return versions(found, dataset.first_derived(name))


def _derived(dataset: Dataset, found: Mapping[str, Versions]) -> Mapping[str, DerivedRows]:
    """Return the derived rows of versions: version v of row p changes all columns, or column (v + p) % n of n."""
    derived = {}
    for name, each in found.items():
        columns, number, stored = dataset.relations[name].changing, each.number, each.stored
        for column in columns:
            if dataset.relations[name].column(column).kind == "text":
                remedy = "leave it out of changing"
                raise DeltamarkError("a changing column of many texts, or of NULL", f"{name}.{column}", remedy)
        changes = dict.fromkeys(columns, number)
        if dataset.relations[name].in_turn:
            turns = len(columns)
            changes = {
                column: (number + stored - at) // turns - (stored - at) // turns for at, column in enumerate(columns)
            }
        derived[name] = DerivedRows(stored, changes)
    return derived


def _absent(dataset: Dataset, leaving: Relation, steps: int) -> Mapping[str, list[np.ndarray]]:
    """Return the rows of a relation that are absent after each step, and the rows of others whose keys contain them."""
    rows, size = dataset.rows(leaving.name), rows_in_step(dataset, leaving.name)
    if not rows:
        return {}
    count = rows // size
    order = np.argsort(hashed(f"{leaving.name}s", np.arange(rows)), kind="stable")
    groups = group_of(order[: count * size], size, rows)
    found = {leaving.name: members(groups, count)}
    for each in dataset.relations.values():
        if (column := each.reference_to(leaving.name)) in each.key and not each.changing:
            found[each.name] = members(through(groups, referred(dataset, each.name, leaving, column)), count)
    return {name: [of[step % count] for step in range(steps)] for name, of in found.items()}


def _absent_fixed(dataset: Dataset, leaving: Relation, steps: int) -> Mapping[str, list[np.ndarray]]:
    """Return the row of a fixed relation that is absent after each step: none after every second one."""
    rows, name = dataset.rows(leaving.name), leaving.name
    found = [drawn(f"{name} in step {step}", rows, min(rows, 1)) for step in range(steps)]
    return {name: [each[step % 2 :] for step, each in enumerate(found)]}


def referred(dataset: Dataset, name: str, to: Relation, column: str) -> np.ndarray:
    """Return the position of the row to which each row of a relation refers by a column, or -1."""
    low, high = map(int, dataset.manifest.relations[to.name].bounds[to.key[0]])
    own, keys = _column(dataset, to.name, to.key[0]), _column(dataset, name, column)
    if high - low > SPARSE * (len(own) + len(keys)):
        order = np.argsort(own, kind="stable")
        places = np.minimum(np.searchsorted(own[order], keys), len(own) - 1)
        return np.where(own[order][places] == keys, order[places], -1) if len(own) else np.full(len(keys), -1)
    at = np.full(high - low + 2, -1)  # the last entry is that of keys out of the bounds
    at[own - low] = np.arange(len(own))
    return at[np.where((keys < low) | (keys > high), high - low + 1, keys - low)]


def members(groups: np.ndarray, count: int) -> list[np.ndarray]:
    """Return the positions of the members of each group. groups: the group of each position, or -1."""
    grouped = np.flatnonzero(groups >= 0)
    of = groups[grouped]
    return np.split(grouped[np.argsort(of, kind="stable")], np.cumsum(np.bincount(of, minlength=count))[:-1])


def group_of(rows: np.ndarray, size: int, positions: int) -> np.ndarray:
    """Put each `size` of some rows into a group; return the group of each position, or -1."""
    groups = np.full(positions, -1)
    groups[rows] = np.arange(len(rows)) // size
    return groups


def through(groups: np.ndarray, references: np.ndarray) -> np.ndarray:
    """Return the groups of the rows that are referred to, or -1."""
    return np.where(references >= 0, groups[references], -1)


def _column(dataset: Dataset, name: str, column: str) -> np.ndarray:
    if not dataset.rows(name):
        return np.empty(0, np.int64)
    values = dataset.values(name, column, range(dataset.rows(name)))
    assert isinstance(values, np.ndarray)
    return values


def _unchanging(relations: Relations) -> str:
    changes = any(each.changing for each in relations.events)
    return without_events(relations) or ("" if changes else "the events have no changing columns")


def _constant(relations: Relations) -> str:
    changes = relations.having("leaving") or any(each.changing for each in relations.values())
    return "" if changes else "no relation has changing columns or the role leaving"


def _even(relations: Relations) -> str:
    return "" if 1 <= len(relations.having("hot")) <= 2 else "one or two relations need the role hot"


KINDS = (
    WorkloadKind(
        name="update", letter="K", open=Updates, small="5", lacks=_unchanging,
        meaning="loads all rows, then changes events and their members in K rounds",
    ),
    WorkloadKind(
        name="churn", letter="K", open=Churn, small="5", lacks=_constant,
        meaning="loads all rows, then changes every relation in K rounds",
    ),
    WorkloadKind(
        name="hot", letter="N", open=Hot, small="8", lacks=_even,
        meaning="loads all rows, then busy rows (in TPC-H: customers and parts) leave and come back in N rounds",
    ),
)  # fmt: skip
