"""The runner: measures the remaining cells of a plan in order, stores each record and reports it."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass, field
from typing import Protocol

from msgspec.structs import replace

from deltamark.harness.results.record import Record
from deltamark.harness.suites.plan import BenchmarkCell, Estimate, Plan


class CellMeasurer(Protocol):
    def measure(self, cell: BenchmarkCell, following: BenchmarkCell | None) -> Record:
        """Measure a cell. following: the next cell of the run, whose check may run beside that of this one."""
        ...


class RecordSink(Protocol):
    """The destination of records: harness/results/store.py."""

    def take_stop(self) -> bool: ...

    def add(self, record: Record) -> None: ...


class RunObserver(Protocol):
    """Reports the progress of a run: harness/console/reporter.py."""

    def on_begin(self, cell: Record) -> None: ...

    def on_record(self, record: Record, remaining: int, estimate: Estimate) -> None: ...


@dataclass
class Runner:
    plan: Plan
    measurer: CellMeasurer
    sink: RecordSink
    observer: RunObserver
    records: list[Record] = field(default_factory=list)
    """The records of this run."""

    def run(self) -> None:
        """Measure the remaining cells until all are done or a file STOP appears."""
        cells = self.plan.remaining
        for number, cell in enumerate(cells, 1):
            if self.sink.take_stop():
                return
            self.observer.on_begin(self.plan.blank(cell))
            rest = cells[number:]
            record = self._measured(cell, rest[0] if rest else None)
            self.records.append(record)
            self.sink.add(record)
            self.observer.on_record(record, len(rest), self.plan.estimate(rest, self.records))

    def _measured(self, cell: BenchmarkCell, following: BenchmarkCell | None) -> Record:
        started = time.monotonic()
        record = self.measurer.measure(cell, following)
        finished_at = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
        return replace(record, elapsed=time.monotonic() - started, finished_at=finished_at)
