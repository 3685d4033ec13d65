"""The workload expire:D: events arrive on their dates, and leave D days later."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import NULL, Relation, Relations
from deltamark.datagen.workloads.workload import (
    ChangedRows,
    Workload,
    WorkloadKind,
    events_of,
    without_events,
)


class Expire(Workload):
    """expire:D, a window over the first column of dates of the events: the other relations arrive in round 0; round
    r >= 1 is a day, of which the first has the earliest date and the last one the latest. It inserts the events of its
    date, and retracts those of D days before, each with its members. Events without a date arrive on the first day and
    stay.
    """

    def __init__(self, dataset: Dataset, days: int) -> None:
        self.name = f"expire:{days}"
        self.dataset = dataset
        self._age = days
        self._events = events_of(dataset)
        self._members = dataset.relations.members(self._events.name)
        self.rounds = 2 + int(self._days.max(initial=0))

    def most_live(self, name: str) -> int:
        if name != self._events.name and name not in self._members:
            return self.dataset.rows(name)
        sizes = self._sizes[name]
        live = np.cumsum(np.bincount(self._days, sizes, self.rounds - 1))
        leaving = np.cumsum(np.bincount(self._days, np.where(self._stays, 0, sizes), self.rounds - 1))
        live[self._age :] -= leaving[: -self._age]
        return int(live.max())

    def pieces(self, name: str, start: int, stop: int) -> list[ChangedRows]:
        if name != self._events.name and name not in self._members:
            return self.all_at_once(name, start)
        leaving = self._between(start - 1 - self._age, min(stop, self.rounds) - 1 - self._age)
        found = [
            self._piece(name, self._between(start - 1, stop - 1), 1, start),
            self._piece(name, leaving[~self._stays[leaving]], -1, start),
        ]
        return [piece for piece in found if len(piece.rows)]

    def _between(self, first: int, last: int) -> np.ndarray:
        """Return the events of the days first to last - 1 in the order of their days, those of one day as stored."""
        order, days = self._in_order
        low, high = np.searchsorted(days, (first, last))
        return order[low:high]

    def _piece(self, name: str, events: np.ndarray, diff: int, start: int) -> ChangedRows:
        rounds = self._days[events] + (1 if diff > 0 else 1 + self._age)
        if name == self._events.name:
            return ChangedRows(events, diff, start, rounds)
        rows = self.dataset.members_of(name, events)
        return ChangedRows(rows, diff, start, np.repeat(rounds, self._sizes[name][events]))

    @cached_property
    def _sizes(self) -> dict[str, np.ndarray]:
        """The number of rows of each relation that come with each event."""
        events = len(self._days)
        firsts = {name: self.dataset.first_members(name, 0, events + 1) for name in self._members}
        return {self._events.name: np.ones(events, np.int64)} | {name: np.diff(each) for name, each in firsts.items()}

    @cached_property
    def _dates(self) -> np.ndarray:
        name = self._events.name
        if not (rows := self.dataset.rows(name)):
            return np.empty(0, np.int64)
        return np.asarray(self.dataset.values(name, date_of(self._events), range(rows)), np.int64)

    @cached_property
    def _stays(self) -> np.ndarray:
        """Whether each event has no date."""
        return self._dates == NULL

    @cached_property
    def _days(self) -> np.ndarray:
        """The day of each event: 0 for the earliest date."""
        first = self._dates[~self._stays].min(initial=np.iinfo(np.int64).max)
        return np.where(self._stays, 0, self._dates - first)

    @cached_property
    def _in_order(self) -> tuple[np.ndarray, np.ndarray]:
        """The events in the order of their days, and these days."""
        order = np.argsort(self._days, kind="stable")
        return order, self._days[order]


def date_of(events: Relation) -> str:
    """Return the first column of dates, or an empty string."""
    return next((column.name for column in events.columns if column.kind == "date"), "")


def _dateless(relations: Relations) -> str:
    reason = without_events(relations)
    return reason or ("" if date_of(relations.having("events")[0]) else "the events have no column of dates")


KINDS = (
    WorkloadKind(
        name="expire", letter="D", open=Expire, small="100", lacks=_dateless,
        meaning="inserts events on their dates, and keeps those of the last D days",
    ),
)  # fmt: skip
