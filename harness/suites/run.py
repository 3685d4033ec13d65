"""A run of a suite: what is left of its cells is measured one by one, written down and told.

A cell is measured in a child of this process: that it takes too long, has no memory or dies is what is found of it.
"""

from __future__ import annotations

import datetime as dt
import gc
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from deltamark.errors import DeltamarkError
from deltamark.harness.measure import child, control_work
from deltamark.harness.measure.sweep import Effort
from deltamark.harness.results.finding import Finding, Task
from deltamark.harness.results.record import Origin


class WrongError(DeltamarkError):
    """Two ways to an answer do not agree."""


class Sink(Protocol):
    """Where findings go: harness/results/store.py."""

    def take_stop(self) -> bool: ...

    def add_findings(self, found: Sequence[Finding]) -> None: ...


@dataclass(frozen=True)
class Plan:
    """The cells of a suite, and the seconds that those took which need not be measured again, by key."""

    suite: str
    tasks: Sequence[Task]
    origin: Origin
    effort: Effort
    took: Mapping[str, float]
    """What each cell of the suite took when it was last measured, by whatever code."""
    done: frozenset[str]

    @classmethod
    def of(cls, suite: str, tasks: Sequence[Task], known: Sequence[Finding], origin: Origin, effort: Effort) -> Plan:
        took = {each.cell: each.took for each in known if each.suite == suite}
        last = {each.key: each for each in known}
        done = frozenset(key for key, each in last.items() if effort.made(each))
        return cls(suite, tasks, origin, effort, took, done)

    @property
    def left(self) -> list[Task]:
        return [task for task in self.tasks if self.blank(task).key not in self.done]

    def blank(self, task: Task) -> Finding:
        return replace(task.blank(self.suite, self.origin), asked=self.effort.runs, limit=self.effort.limit)

    def before(self, task: Task) -> float | None:
        """Return the seconds that a cell took the last time, if there was one."""
        return self.took.get(self.blank(task).cell)

    def known(self, left: Iterable[Task]) -> float:
        """Return the seconds that cells took the last time, those that were never measured left out."""
        return sum(self.before(task) or 0.0 for task in left)

    def estimate(self, left: Iterable[Task], made: Iterable[Finding]) -> float:
        """Estimate the seconds that cells will take: as before, else as others on the average."""
        took = {**self.took, **{each.cell: each.took for each in made}}
        guess = sum(took.values()) / len(took)
        return sum(took.get(self.blank(task).cell, guess) for task in left)


@dataclass
class Run:
    plan: Plan
    sink: Sink
    tell: Callable[[Sequence[Finding], int, float], None]
    """Of the rows of a cell, how many cells are left, and how many seconds those may take."""
    made: list[Finding] = field(default_factory=list)

    def run(self) -> None:
        """Measure what is left, until it is done or a file STOP appears."""
        left = self.plan.left
        for number, task in enumerate(left, 1):
            if self.sink.take_stop():
                return
            found = self._measured(task)
            self.sink.add_findings(found)
            self.made += found
            rest = left[number:]
            self.tell(found, len(rest), self.plan.estimate(rest, self.made))

    def _measured(self, task: Task) -> list[Finding]:
        blank = replace(self.plan.blank(task), control=control_work.seconds())
        started = time.monotonic()
        rows = rows_of(task, self.plan.effort.limit)
        took, at = time.monotonic() - started, dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
        return [
            replace(blank, row=each.row or blank.row, figures=each.figures, said=each.said, verified=each.verified,
                    status=each.status, problem=each.problem, took=took, at=at)
            for each in rows
        ]  # fmt: skip


def rows_of(task: Task, limit: float) -> list[Finding]:
    """Measure a cell in a child; return its rows, or a single one without a name that says why there are none."""
    try:
        task.prepare()
        gc.freeze()  # a child that collected what is here would copy it
        rows: list[Finding] = child.run_in_child(lambda _: _measured(task), limit)
    except child.LimitError as error:
        return [Finding("", status="timeout", problem=str(error))]
    except (ChildProcessError, DeltamarkError) as error:
        return [Finding("", status="failed", problem=str(error))]
    finally:
        gc.unfreeze()
    return rows


def _measured(task: Task) -> list[Finding]:
    try:
        return list(task.measure())
    except WrongError as error:
        return [Finding("", status="wrong", problem=str(error))]
    except DeltamarkError as error:
        return [Finding("", status="failed", problem=str(error))]
