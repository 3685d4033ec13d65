"""The suite of Nexmark: its queries without windows of event time, over events that come and go.

Answers are compared with DuckDB's over exactly the live rows, at random logical times.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial

from deltamark.datagen.make import Wanted
from deltamark.datagen.nexmark.make import MAX_EVENTS, MIN_EVENTS, WantedEvents, make_events
from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.console.progress import ProgressLine
from deltamark.harness.results import machine
from deltamark.harness.suites.nexmark.measuring import measure
from deltamark.harness.suites.nexmark.stream import EventQuery, window_of
from deltamark.harness.suites.table_cell import TableCell
from deltamark.harness.suites.table_suite import TableSuite
from deltamark.harness.tables.suites import nexmark_tables
from deltamark.queries.nexmark import TEXTS


@dataclass(frozen=True, kw_only=True)
class NexmarkSuite(TableSuite):
    NAME = "nexmark"
    TITLE = "Nexmark"
    CODE = "suites.nexmark"
    MAKE_TABLES = nexmark_tables

    events: int = 100_000
    queries: tuple[str, ...] = ()
    workload: tuple[str, ...] = ("insert", "window:10000")
    logical: tuple[int, ...] = (1,)
    physical: tuple[int, ...] = (1000, 100_000)
    workers: tuple[int, ...] = (1,)

    @property
    def _wanted(self) -> WantedEvents:
        return WantedEvents(self.data, self.events, self.master or Wanted.master)

    def make_data(self) -> None:
        with ProgressLine() as progress:
            make_events(self._wanted, progress.report)

    def cells(self) -> list[TableCell]:
        if not MIN_EVENTS <= self.events <= MAX_EVENTS:
            remedy = f"give EVENTS from {MIN_EVENTS} to {MAX_EVENTS}"
            raise DeltamarkError("too few or too many events", self.events, remedy)
        for name in self.queries:
            if name not in TEXTS:
                raise unknown("query", name, TEXTS)
        for workload in self.workload:
            window_of(workload, self.events)
        return [
            self._cell(EventQuery(name, self._wanted.directory, workload, logical), physical, workers)
            for workload in self.workload
            for logical in self.logical
            for name in self.queries or TEXTS
            for physical in self.physical
            for workers in self.workers
        ]

    def _cell(self, query: EventQuery, physical: int, workers: int) -> TableCell:
        data = machine.data(query.directory)
        return TableCell(
            self.NAME, "nexmark", f"{self.events:,} events, {query.workload}, L = {query.logical}",
            f"{query.name} {physical} {workers}",
            data and f"{data} {hashlib.blake2b(query.text.encode(), digest_size=4).hexdigest()}",
            partial(measure, query, physical=physical, workers=workers, runs=self.runs), verified="oracle",
        )  # fmt: skip
