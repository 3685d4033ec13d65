"""The suite of the Star Schema Benchmark: its 13 queries, planned from their texts, over rows that come and go.

Answers are compared with DuckDB's over exactly the live rows, at several logical times.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from deltamark.datagen.make import Wanted
from deltamark.errors import unknown
from deltamark.harness.console.datasets import open_dataset
from deltamark.harness.results import machine
from deltamark.harness.suites.ssb.measuring import measure
from deltamark.harness.suites.ssb.star import directory_of, make_tables
from deltamark.harness.suites.ssb.stream import StarQuery
from deltamark.harness.suites.table_cell import TableCell
from deltamark.harness.suites.table_suite import TableSuite
from deltamark.harness.tables.suites import ssb_tables
from deltamark.queries.ssb import TEXTS


@dataclass(frozen=True, kw_only=True)
class StarSuite(TableSuite):
    NAME = "ssb"
    TITLE = "Star Schema Benchmark"
    CODE = "suites.ssb"
    MAKE_TABLES = ssb_tables

    sf: Decimal = Decimal("0.01")
    queries: tuple[str, ...] = ()
    physical: tuple[int, ...] = (1000, 10_000, 100_000)

    @property
    def _wanted(self) -> Wanted:
        return Wanted(self.data, self.sf, self.master or Wanted.master)

    def make_data(self) -> None:
        make_tables(open_dataset(self._wanted))

    def cells(self) -> list[TableCell]:
        for name in self.queries:
            if name not in TEXTS:
                raise unknown("query", name, TEXTS)
        tpch = self._wanted.directory
        directory, data = directory_of(tpch), machine.data(tpch)
        return [
            TableCell(
                self.NAME, "ssb", f"SF {self.sf}", f"{name} {rows}", data and f"{data} {_digest(name)}",
                partial(measure, StarQuery(name, directory), rows, self.runs), verified="oracle",
            )
            for name in self.queries or TEXTS
            for rows in self.physical
        ]  # fmt: skip


def _digest(name: str) -> str:
    return hashlib.blake2b(TEXTS[name].encode(), digest_size=4).hexdigest()
