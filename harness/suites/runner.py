"""The runner: measures the remaining cells of a plan in order, stores the records of each and reports them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from msgspec.structs import replace

from deltamark.harness.measure.timing import timed
from deltamark.harness.results.record import Record
from deltamark.harness.suites.plan import BenchmarkCell, Estimate, Plan


class CellMeasurer(Protocol):
    def measure(self, cell: BenchmarkCell, following: BenchmarkCell | None) -> Sequence[Record]:
        """Measure a cell; return its records, at least one.

        following: the next cell of the run, whose check may run beside that of this one.
        """
        ...


class RecordSink(Protocol):
    """The destination of records: harness/results/store.py."""

    def take_stop(self) -> bool: ...

    def add(self, records: Sequence[Record]) -> None: ...


class RunObserver(Protocol):
    """Reports the progress of a run: harness/console/reporter.py."""

    def on_begin(self, cell: Record) -> None: ...

    def on_records(self, records: Sequence[Record], remaining: int, estimate: Estimate) -> None: ...


@dataclass
class Runner:
    plan: Plan
    measurer: CellMeasurer
    sink: RecordSink
    observer: RunObserver
    measured: list[Sequence[Record]] = field(default_factory=list)
    """The records of each cell of this run."""

    def run(self) -> None:
        """Measure the remaining cells until all are done or a file STOP appears."""
        cells = self.plan.remaining
        for number, cell in enumerate(cells, 1):
            if self.sink.take_stop():
                return
            self.observer.on_begin(self.plan.blank(cell))
            rest = cells[number:]
            records = self._records(cell, rest[0] if rest else None)
            self.measured.append(records)
            self.sink.add(records)
            self.observer.on_records(
                records, len(rest), self.plan.estimate(rest, [first for first, *_ in self.measured])
            )

    def _records(self, cell: BenchmarkCell, following: BenchmarkCell | None) -> list[Record]:
        elapsed, records = timed(lambda: self.measurer.measure(cell, following))
        finished_at = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
        return [replace(record, elapsed=elapsed, finished_at=finished_at) for record in records]
