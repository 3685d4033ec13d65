"""The suite of sharing: all queries in one dataflow beside the same queries alone, and queries that attach to others.

Answers are compared with DuckDB's, in the measured batches, after a random number of rounds and at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from deltamark.datagen.make import Wanted
from deltamark.harness.console.datasets import open_dataset
from deltamark.harness.results import machine
from deltamark.harness.suites.sharing.attaching import attachments, incremental_attachments
from deltamark.harness.suites.sharing.loading import arrangements, filters, loads
from deltamark.harness.suites.sharing.queries import SharedQueries
from deltamark.harness.suites.table_cell import TableCell
from deltamark.harness.suites.table_suite import TableSuite
from deltamark.harness.tables.suites import shared_tables
from deltamark.queries.catalogue import QUERIES, query

ORACLE = "oracle"


@dataclass(frozen=True, kw_only=True)
class SharingSuite(TableSuite):
    NAME = "shared"
    TITLE = "Sharing"
    CODE = "suites.sharing"
    MAKE_TABLES = shared_tables

    sf: Decimal = Decimal("0.01")
    queries: tuple[str, ...] = ()
    logical: tuple[int, ...] = (1,)
    physical: tuple[int, ...] = (1000, 10_000, 100_000, 1_000_000)
    fuel: int = 2

    @property
    def _wanted(self) -> Wanted:
        return Wanted(self.data, self.sf, self.master or Wanted.master)

    def make_data(self) -> None:
        open_dataset(self._wanted)

    def cells(self) -> list[TableCell]:
        for name in self.queries:
            query(name)  # raises an error for an unknown name
        directory, dataset = self._wanted.directory, " ".join([f"SF {self.sf}", *self.queries])
        shared = SharedQueries(directory, self.queries or tuple(QUERIES), str(self.sf))
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
