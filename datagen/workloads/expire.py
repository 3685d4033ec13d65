"""The workload expire:D: events arrive on their dates, and leave D days later."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import NULL, Relation, Relations
from deltamark.datagen.workloads.workload import ChangedRows, Workload, WorkloadKind, without_events


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
        self._owner = dataset.relations.moving
        self.rounds = 2 + max(int(days.max(initial=0)) for days in self._days.values())

    def most_live(self, name: str) -> int:
        if name not in self._owner:
            return self.dataset.rows(name)
        sizes, days, stays = self._sizes(name), self._days[self._owner[name]], self._stays(self._owner[name])
        live = np.cumsum(np.bincount(days, sizes, self.rounds - 1))
        leaving = np.cumsum(np.bincount(days, np.where(stays, 0, sizes), self.rounds - 1))
        live[self._age :] -= leaving[: -self._age]
        return int(live.max())

    def pieces(self, name: str, start: int, stop: int) -> list[ChangedRows]:
        if name not in self._owner:
            return self.all_at_once(name, start)
        owner = self._owner[name]
        leaving = self._between(owner, start - 1 - self._age, min(stop, self.rounds) - 1 - self._age)
        found = [
            self._piece(name, self._between(owner, start - 1, stop - 1), 1, start),
            self._piece(name, leaving[~self._stays(owner)[leaving]], -1, start),
        ]
        return [piece for piece in found if len(piece.rows)]

    def _between(self, owner: str, first: int, last: int) -> np.ndarray:
        """Return the events of the days first to last - 1 in the order of their days, those of one day as stored."""
        order, days = self._in_order[owner]
        low, high = np.searchsorted(days, (first, last))
        return order[low:high]

    def _piece(self, name: str, events: np.ndarray, diff: int, start: int) -> ChangedRows:
        rounds = self._days[self._owner[name]][events] + (1 if diff > 0 else 1 + self._age)
        if name == self._owner[name]:
            return ChangedRows(events, diff, start, rounds)
        rows = self.dataset.members_of(name, events)
        return ChangedRows(rows, diff, start, np.repeat(rounds, self._sizes(name)[events]))

    def _sizes(self, name: str) -> np.ndarray:
        """Return the number of rows of a relation that come with each event."""
        owner = self._owner[name]
        events = self.dataset.rows(owner)
        return np.ones(events, np.int64) if name == owner else np.diff(self.dataset.first_members(name, 0, events + 1))

    @cached_property
    def _dates(self) -> dict[str, np.ndarray]:
        return {each.name: self._dates_of(each) for each in self.dataset.relations.events}

    def _dates_of(self, events: Relation) -> np.ndarray:
        if not (rows := self.dataset.rows(events.name)):
            return np.empty(0, np.int64)
        return np.asarray(self.dataset.values(events.name, date_of(events), range(rows)), np.int64)

    def _stays(self, owner: str) -> np.ndarray:
        """Return whether each event has no date."""
        return self._dates[owner] == NULL

    @cached_property
    def _days(self) -> dict[str, np.ndarray]:
        """The day of each event: 0 for the earliest date of all."""
        first = min(dates[dates != NULL].min(initial=np.iinfo(np.int64).max) for dates in self._dates.values())
        return {name: np.where(dates == NULL, 0, dates - first) for name, dates in self._dates.items()}

    @cached_property
    def _in_order(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The events in the order of their days, and these days."""
        orders = {name: np.argsort(days, kind="stable") for name, days in self._days.items()}
        return {name: (order, self._days[name][order]) for name, order in orders.items()}


def date_of(events: Relation) -> str:
    """Return the first column of dates, or an empty string."""
    return next((column.name for column in events.columns if column.kind == "date"), "")


def _dateless(relations: Relations) -> str:
    reason = without_events(relations)
    return reason or ("" if all(map(date_of, relations.events)) else "the events have no column of dates")


KINDS = (
    WorkloadKind(
        name="expire", letter="D", open=Expire, small="100", lacks=_dateless,
        meaning="inserts events on their dates, and keeps those of the last D days",
    ),
)  # fmt: skip
