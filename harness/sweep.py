"""A sweep: what is left of a plan is measured cell by cell, checked, written down and told.

A cell's digest must be that of the first cell of its query, workload and L, whose answers are compared with DuckDB's.
"""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from datagen.dataset import Dataset
from datagen.workload import workload
from harness.cell import Cell
from harness.checks import checkpoints
from harness.grid import Task
from harness.record import Origin, Record, blank
from harness.subjects import has_stream
from queries.catalogue import query

Group = tuple[str, str, int, str]


class Measurer(Protocol):
    """What measures cells: harness/client.py, or a fake one."""

    def ask(self, cell: Cell, rounds: list[int], limit: float) -> dict[str, Any]: ...

    def cell(  # noqa: PLR0913 (each is a choice of its own)
        self, cell: Cell, *, sample: int, runs: int, limit: float, compare: list[int], checked: bool = True
    ) -> dict[str, Any]: ...


class Sink(Protocol):
    """Where records go: harness/store.py."""

    @property
    def asked_to_stop(self) -> bool: ...

    def add(self, record: Record) -> None: ...


@dataclass(frozen=True)
class Plan:
    """What a sweep is to do, and what of it is done."""

    tasks: Sequence[Task]
    done: dict[str, Record]
    """Records that stand, by key."""
    origin: Origin
    runs: int
    limit: float

    @property
    def left(self) -> list[Task]:
        return [task for task in self.tasks if self.blank(task).key not in self.done]

    def blank(self, task: Task) -> Record:
        return blank(task.cell, task.sample, self.origin)


def standing(records: Iterable[Record], runs: int, limit: float) -> dict[str, Record]:
    """Return the records that need not be made again: the last of their key, where as much was asked of them."""
    found = {record.key: record for record in records}
    return {key: record for key, record in found.items() if _stands(record, runs, limit)}


def _stands(record: Record, runs: int, limit: float) -> bool:
    if record.status == "timeout":
        return record.limit >= limit
    return record.status == "ok" and record.asked >= runs


@dataclass
class Sweep:
    plan: Plan
    dataset: Dataset
    measurer: Measurer
    sink: Sink
    tell: Callable[[Record, int, float], None]
    """Of a record, how many are left, and how many seconds that may take."""
    begin: Callable[[Task], None] = lambda _: None
    digests: dict[Group, Record] = field(default_factory=dict)
    _asked: set[tuple[str, str]] = field(default_factory=set)
    made: list[Record] = field(default_factory=list)

    def run(self) -> None:
        """Measure what is left, until it is done or a file STOP appears."""
        for record in self.plan.done.values():
            self._remember(record)
        left = self.plan.left
        for number, task in enumerate(left):
            if self.sink.asked_to_stop:
                return
            self.begin(task)
            started = time.monotonic()
            record = self._measured(task)
            self.made.append(replace(record, took=time.monotonic() - started, at=_now()))
            self.sink.add(self.made[-1])
            self._remember(self.made[-1])
            rest = left[number + 1 :]
            self.tell(self.made[-1], len(rest), estimate(rest, self.made))

    def _measured(self, task: Task) -> Record:
        record = replace(self.plan.blank(task), asked=self.plan.runs, limit=self.plan.limit)
        known = self.digests.get(_group(record))
        compare: list[int] = []
        if known is None or not has_stream(task.cell.engine):
            compare = checkpoints(workload(self.dataset, task.cell.workload).rounds, task.cell.logical)
            problem = self._ask(task.cell)
            if problem:
                return replace(record, status="failed", problem=f"DuckDB's answer: {problem}")
        found = self.measurer.cell(
            task.cell, sample=task.sample, runs=self.plan.runs, limit=self.plan.limit, compare=compare
        )
        return _judged(replace(record, **found), known)

    def _ask(self, cell: Cell) -> str:
        """Have DuckDB answer a query after all rounds at which cells of the plan compare; return what went wrong."""
        asked = (cell.query, cell.workload)
        if asked in self._asked:
            return ""
        rounds = workload(self.dataset, cell.workload).rounds
        sizes = {task.cell.logical for task in self.plan.tasks if (task.cell.query, task.cell.workload) == asked}
        wanted = sorted({each for size in sizes for each in checkpoints(rounds, size)})
        reply = self.measurer.ask(cell.but(engine="embedded", workers=1), wanted, self.plan.limit)
        if reply["status"] != "ok":
            return str(reply["problem"])
        self._asked.add(asked)
        return ""

    def _remember(self, record: Record) -> None:
        if record.status == "ok" and record.verified == "oracle" and record.digest:
            self.digests.setdefault(_group(record), record)


def _group(record: Record) -> Group:
    """Name the cells that must have the same change stream."""
    own = record.variant if record.variant in query(record.query).accumulated else ""
    return record.query, record.workload, record.logical, own


def _judged(record: Record, known: Record | None) -> Record:
    """Compare digests."""
    if record.status != "ok" or known is None or not record.digest:
        return record
    if record.digest != known.digest:
        problem = f"another stream than {known.cell}: {record.digest}, not {known.digest}"
        return replace(record, status="wrong", problem=problem)
    return replace(record, verified=record.verified or "digest")


def estimate(left: Iterable[Task], known: Iterable[Record]) -> float:
    """Estimate the seconds that cells will take: as before, else as others of their query, else of their engine."""
    same: dict[str, float] = {}
    sums: dict[tuple[str, ...], list[float]] = {}
    for record in known:
        same[record.cell] = record.took
        for like in ((record.engine, record.sf, record.query), (record.engine, record.sf)):
            sums.setdefault(like, []).append(record.took)
    total = 0.0
    for task in left:
        cell = task.cell
        likes = sums.get((cell.engine, cell.sf, cell.query)) or sums.get((cell.engine, cell.sf))
        guess = math.fsum(likes) / len(likes) if likes else 0.3 + 1.5 * float(cell.sf)
        total += same.get(blank(cell, task.sample, Origin("", "", "")).cell, guess)
    return total


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
