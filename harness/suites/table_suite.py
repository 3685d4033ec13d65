"""The base of suites whose cells yield rows: children measure them, and each dataset has its own tables."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from deltamark.harness.console.table import Table
from deltamark.harness.results.record import Record
from deltamark.harness.suites.graphs.counting import warm
from deltamark.harness.suites.plan import Plan
from deltamark.harness.suites.suite import Suite
from deltamark.harness.suites.table_cell import ForkingMeasurer, forking
from deltamark.harness.tables.suites import MakeTables, suite_tables


@dataclass(frozen=True, kw_only=True)
class TableSuite(Suite):
    MAKE_TABLES: ClassVar[MakeTables]

    def measurer(self, plan: Plan) -> AbstractContextManager[ForkingMeasurer]:
        return forking(plan, warm)

    @classmethod
    def tables(cls, records: Iterable[Record]) -> list[Table]:
        return suite_tables(records, cls.NAME, cls.MAKE_TABLES)
