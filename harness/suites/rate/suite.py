"""The suite of rates: an open loop, in which rounds become due at a fixed rate, and the highest rate is bisected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import product

from deltamark.datagen.workloads.registry import known_workload
from deltamark.errors import DeltamarkError
from deltamark.harness.console.table import Table
from deltamark.harness.engines.registry import DEFAULT_SWEEP, capabilities
from deltamark.harness.measure.batch_sizes import FINE
from deltamark.harness.results.record import Record
from deltamark.harness.suites.rate.arrivals import STEADY, known_arrivals
from deltamark.harness.suites.rate.measuring import RateCell, measure
from deltamark.harness.suites.suite import DataSuite
from deltamark.harness.suites.table_cell import TableCell, data_digest
from deltamark.harness.suites.table_suite import TableSuite
from deltamark.harness.tables.suites import highest_rates, rate_tables, suite_tables


@dataclass(frozen=True, kw_only=True)
class RateSuite(DataSuite, TableSuite):
    NAME = "rate"
    TITLE = "Latency by rate"
    CODE = "suites.rate"
    MAKE_TABLES = rate_tables

    engines: tuple[str, ...] = DEFAULT_SWEEP
    workload: tuple[str, ...] = ()
    arrivals: tuple[str, ...] = (STEADY,)
    seconds: float = 5.0
    limit: float = 1.0

    def cells(self) -> list[TableCell]:
        works, arrivals = (
            map(known_workload, self.workload or (self.home.workload,)),
            map(known_arrivals, self.arrivals),
        )
        choices = product(map(_known_feeding, self.engines), self.names, works, arrivals)
        return [self._cell(*choice) for choice in choices]

    def _cell(self, engine: str, name: str, work: str, arrivals: str) -> TableCell:
        master = self.master if capabilities(engine).has_master else ""
        logical, physical = FINE
        cell = self.cell(name, work).but(logical=logical, physical=physical, engine=engine, master=master)
        of, directory = RateCell(cell, arrivals, self.seconds, self.limit, self.runs), self._wanted.directory
        part = f"{of.name}, trials of {self.seconds:g} s, limit {self.limit:g} s"
        return TableCell(
            self.NAME, "trials", self.dataset, part, data_digest(directory, cell), partial(measure, of, directory),
            verified="oracle", engine=engine,
        )  # fmt: skip

    @classmethod
    def summary(cls, records: Iterable[Record]) -> list[Table]:
        return suite_tables(records, cls.NAME, highest_rates)


def _known_feeding(engine: str) -> str:
    """Return the name of an engine that the harness feeds, or raise a DeltamarkError."""
    if capabilities(engine).reads_input:
        raise DeltamarkError("no open loop for an engine that reads the input itself", engine, "leave it out")
    return engine
