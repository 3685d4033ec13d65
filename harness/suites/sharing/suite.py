"""The suite of sharing: all queries in one dataflow beside the same queries alone, and queries that attach to others.

Answers are compared with DuckDB's, in the measured batches, after a random number of rounds and at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT
from deltamark.harness.results import machine
from deltamark.harness.suites.sharing.attaching import attachments, incremental_attachments
from deltamark.harness.suites.sharing.loading import arrangements, filters, loads
from deltamark.harness.suites.sharing.queries import SharedQueries
from deltamark.harness.suites.suite import DataSuite
from deltamark.harness.suites.table_cell import TableCell
from deltamark.harness.suites.table_suite import TableSuite
from deltamark.harness.tables.suites import shared_tables

ORACLE = "oracle"


@dataclass(frozen=True, kw_only=True)
class SharingSuite(DataSuite, TableSuite):
    NAME = "shared"
    TITLE = "Sharing"
    CODE = "suites.sharing"
    MAKE_TABLES = shared_tables

    logical: tuple[int, ...] = (1,)
    physical: tuple[int, ...] = (1000, 10_000, 100_000, 1_000_000)
    fuel: int = 2

    def cells(self) -> list[TableCell]:
        if self.benchmark != DEFAULT:
            raise DeltamarkError("sharing is measured over TPC-H", self.benchmark, "leave BENCHMARK out")
        directory, dataset = self._wanted.directory, " ".join([self.dataset, *self.queries])
        shared = SharedQueries(directory, {name: self.cell(name) for name in self.names})
        cell = partial(TableCell, self.NAME, dataset=dataset, data=machine.data(directory))
        batchings = [(logical, physical) for logical in self.logical for physical in self.physical]
        return [
            *(
                cell(
                    table="loads", part=f"{logical} x {physical}", verified=ORACLE,
                    measure=partial(loads, shared, logical, physical, self.runs),
                )
                for logical, physical in batchings
            ),
            cell(table="arrangements", part="", measure=partial(arrangements, shared)),
            cell(table="filters", part="", measure=partial(filters, shared)),
            cell(table="coming", part="", measure=partial(attachments, shared), verified=ORACLE),
            cell(
                table="crowding", part=f"fuel {self.fuel}", measure=partial(incremental_attachments, shared, self.fuel)
            ),
        ]  # fmt: skip
