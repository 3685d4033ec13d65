"""A sweep: what is left of a plan is measured cell by cell, checked, written down and told.

A cell's digest must be that of the first cell of its query, workload and L, whose answers are compared with DuckDB's.
Cells are checked two at a time where that is possible, and timed one at a time.
"""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workload import workload
from deltamark.harness.engines.registry import DEFAULT, capabilities
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.grid import Task
from deltamark.harness.measure.messages import AskReply, CellReply, CellRequest
from deltamark.harness.measure.windows import checkpoints
from deltamark.harness.results.record import Origin, Record, Result, blank
from deltamark.queries.catalogue import query

Group = tuple[str, str, int, str]

ASKING = 600.0
"""Seconds in which DuckDB should give its answers."""


class Measurer(Protocol):
    """What measures cells: harness/measure/client.py, or a fake one."""

    def ask(self, cell: Cell, rounds: list[int], limit: float) -> AskReply: ...

    def cell(self, request: CellRequest[Cell], beside: CellRequest[Cell] | None = None) -> CellReply: ...


class Sink(Protocol):
    """Where records go: harness/results/store.py."""

    def take_stop(self) -> bool: ...

    def add(self, record: Record) -> None: ...


@dataclass(frozen=True)
class Effort:
    """How often a cell is run, and how many seconds that may take: a run, or of another suite the cell."""

    runs: int
    limit: float

    def made(self, result: Result) -> bool:
        """Was as much done for a result, so that it need not be made again?"""
        if result.status == "timeout":
            return result.limit >= self.limit
        return result.status == "ok" and result.asked >= self.runs


@dataclass(frozen=True)
class Plan:
    """What a sweep is to do, and what of it is done."""

    tasks: Sequence[Task]
    done: dict[str, Record]
    """Records that stand, by key: the last of each, where the same data, code and versions made it."""
    origin: Origin
    effort: Effort

    @classmethod
    def of(cls, tasks: Sequence[Task], known: Iterable[Record], origin: Origin, effort: Effort) -> Plan:
        same = {record.key: record for record in known if origin.made(record)}
        return cls(tasks, {key: record for key, record in same.items() if effort.made(record)}, origin, effort)

    @property
    def left(self) -> list[Task]:
        return [task for task in self.tasks if self.blank(task).key not in self.done]

    def blank(self, task: Task) -> Record:
        made = blank(task.cell, task.sample, self.origin)
        return replace(made, asked=self.effort.runs, limit=self.effort.limit)


@dataclass(frozen=True)
class Ready:
    """A cell that can be measured."""

    record: Record
    request: CellRequest[Cell]


@dataclass
class Sweep:
    plan: Plan
    dataset: Dataset
    measurer: Measurer
    sink: Sink
    tell: Callable[[Record, int, float], None]
    """Of a record, how many are left, and how many seconds that may take."""
    begin: Callable[[Task], None] = lambda _: None
    abreast: bool = False
    """Are there cores, and is there memory, to check two cells at once?"""
    digests: dict[Group, Record] = field(default_factory=dict)
    _asked: dict[tuple[str, str], AskReply] = field(default_factory=dict)
    _ready: dict[Task, Ready | Record] = field(default_factory=dict)
    made: list[Record] = field(default_factory=list)

    def run(self) -> None:
        """Measure what is left, until it is done or a file STOP appears."""
        for record in self.plan.done.values():
            self._remember(record)
        left = self.plan.left
        for name in {task.cell.workload for task in left}:
            workload(self.dataset, name)  # what is none is said before anything is measured
        for number, task in enumerate(left):
            if self.sink.take_stop():
                return
            self.begin(task)
            started = time.monotonic()
            rest = left[number + 1 :]
            record = self._measured(task, rest[0] if rest and self._checks_with(task, rest[0]) else None)
            self.made.append(replace(record, took=time.monotonic() - started, at=_now()))
            self.sink.add(self.made[-1])
            self._remember(self.made[-1])
            self.tell(self.made[-1], len(rest), estimate(rest, [*self.plan.done.values(), *self.made]))

    def _checks_with(self, task: Task, other: Task) -> bool:
        """May another cell be checked beside one, which was not itself?"""
        alone = all(capabilities(each.cell.engine).checks_in_pairs and each.cell.workers == 1 for each in (task, other))
        return self.abreast and alone and task not in self._ready

    def _measured(self, task: Task, beside: Task | None) -> Record:
        ready = self._ready.pop(task, None) or self._prepared(task)
        if isinstance(ready, Record):
            return ready
        if beside is not None:
            self._ready[beside] = self._prepared(beside)
        other = self._ready.get(beside) if beside else None
        reply = self.measurer.cell(ready.request, other.request if isinstance(other, Ready) else None)
        record = reply.fill(ready.record)
        return _judged(record, self.digests.get(_group(record)), task.cell)

    def _prepared(self, task: Task) -> Ready | Record:
        """Ask DuckDB where a cell is to be compared; return its record where there is no answer."""
        record, effort = self.plan.blank(task), self.plan.effort
        compare: list[int] = []
        if _group(record) not in self.digests or not capabilities(task.cell.engine).has_stream:
            asked = self._ask(task.cell)
            if asked.status != "ok":
                return replace(record, status="failed", problem=f"DuckDB's answer: {asked.problem}")
            record, compare = replace(record, once=asked.once), self._checkpoints(task)
        request = CellRequest(task.cell, task.sample, effort.runs, effort.limit, tuple(compare))
        return Ready(record, request)

    def _ask(self, cell: Cell) -> AskReply:
        """Have DuckDB answer a query wherever cells of the plan compare."""
        asked = (cell.query, cell.workload)
        if asked not in self._asked or self._asked[asked].status != "ok":
            tasks = [task for task in self.plan.tasks if (task.cell.query, task.cell.workload) == asked]
            rounds = sorted({each for task in tasks for each in self._checkpoints(task)})
            alone = cell.but(engine=DEFAULT, workers=1)
            self._asked[asked] = self.measurer.ask(alone, rounds, ASKING)
        return self._asked[asked]

    def _checkpoints(self, task: Task) -> list[int]:
        return checkpoints(task.cell, task.sample, workload(self.dataset, task.cell.workload))

    def _remember(self, record: Record) -> None:
        if record.status == "ok" and record.verified == "oracle" and record.digest:
            self.digests.setdefault(_group(record), record)


def _group(record: Record) -> Group:
    """Name the cells that must have the same change stream."""
    own = record.variant if record.variant in query(record.query).accumulated else ""
    return record.query, record.workload, record.logical, own


def _judged(record: Record, known: Record | None, cell: Cell) -> Record:
    """Compare digests."""
    if record.status != "ok" or known is None or not record.digest:
        return record
    if record.digest != known.digest:
        problem = f"another stream than {known.cell}: {record.digest}, not {known.digest}\n  "
        problem += cell.command("changes", "--digest")
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
