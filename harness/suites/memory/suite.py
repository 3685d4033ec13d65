"""The suite of memory: the least memory in which a cell passes, found by runs under limits.

The run without a limit is compared with DuckDB's answers; those under limits must have the same digest, or are compared
as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from deltamark.datagen.dataset import Dataset
from deltamark.harness.measure.batch_sizes import FINE
from deltamark.harness.measure.windows import rounds_of
from deltamark.harness.results import machine
from deltamark.harness.results.record import Origin
from deltamark.harness.suites.memory.groups import find_place
from deltamark.harness.suites.memory.measuring import measure
from deltamark.harness.suites.plan import Plan
from deltamark.harness.suites.suite import DataSuite
from deltamark.harness.suites.table_cell import ForkingMeasurer, TableCell, data_digest
from deltamark.harness.suites.table_suite import TableSuite
from deltamark.harness.suites.tpch.grid import GridSettings, SampledCell, grid_cells
from deltamark.harness.tables.suites import memory_tables


@dataclass(frozen=True, kw_only=True)
class MemorySuite(GridSettings, DataSuite, TableSuite):
    NAME = "memory"
    TITLE = "Memory"
    CODE = "suites.memory"
    MAKE_TABLES = memory_tables

    @property
    def _with_batching(self) -> Self:
        """Return these settings with a batching: by default 1 x 100000."""
        return self if self.logical or self.physical or self.product else replace(self, physical=(FINE[1],))

    def make_data(self) -> None:
        find_place()  # without limits no data is needed
        super().make_data()

    def cells(self) -> list[TableCell]:
        directory = self._wanted.directory
        rounds = rounds_of(Dataset.open(directory)) if machine.data(directory) else None
        return [self._cell(sampled) for sampled in grid_cells(self._with_batching, rounds=rounds)]

    def _cell(self, sampled: SampledCell) -> TableCell:
        name, directory = sampled.blank(Origin("", "")).label, self._wanted.directory
        return TableCell(
            self.NAME, "least", self.dataset, name, data_digest(directory, sampled.cell),
            partial(measure, sampled, name, directory, self.timeout), verified="oracle", engine=sampled.engine,
        )  # fmt: skip

    @contextmanager
    def measurer(self, plan: Plan) -> Iterator[ForkingMeasurer]:
        place = find_place()
        try:
            yield ForkingMeasurer(plan)
        finally:
            place.sweep()  # a killed child leaves its group
