"""The suite of coverage: every engine runs every query in workloads with and without retractions, and gets a grade.

The answers are compared with DuckDB's over exactly the live rows: after each batch, and at logical times within batches
if the engine has a stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from deltamark.datagen.dataset import Dataset
from deltamark.harness.engines.base import short_name
from deltamark.harness.engines.registry import DEFAULT_SWEEP, capabilities
from deltamark.harness.measure.cell import Cell
from deltamark.harness.results.record import REFUSED, Figures, TableRow
from deltamark.harness.suites.coverage.grading import GRADES, graded
from deltamark.harness.suites.suite import DataSuite
from deltamark.harness.suites.table_cell import TableCell, data_digest
from deltamark.harness.suites.table_suite import TableSuite
from deltamark.harness.tables.suites import coverage_tables


@dataclass(frozen=True, kw_only=True)
class CoverageSuite(DataSuite, TableSuite):
    NAME = "coverage"
    TITLE = "Coverage and consistency"
    CODE = "suites.coverage"
    MAKE_TABLES = coverage_tables

    engines: tuple[str, ...] = DEFAULT_SWEEP

    def cells(self) -> list[TableCell]:
        directory = self._wanted.directory
        return [
            TableCell(
                self.NAME, "coverage", self.dataset, f"{cell.query} {short_name(cell.engine)}",
                data_digest(directory, cell), partial(_graded, directory, cell), verified="oracle", engine=cell.engine,
            )
            for cell in (self._cell(name, engine) for engine in self.engines for name in self.names)
        ]  # fmt: skip

    def _cell(self, name: str, engine: str) -> Cell:
        return self.cell(name).but(engine=engine, master=self.master if capabilities(engine).has_master else "")


def _graded(directory: Path, cell: Cell) -> Iterator[TableRow]:
    found = graded(cell, Dataset.open(directory), Random(str(cell)))  # noqa: S311 (no secret)
    name = f"{cell.query} {short_name(cell.engine)}"
    if found.grade is None:
        yield TableRow(name, {}, REFUSED + found.refused)
        return
    figures: Figures = {
        "grade": [GRADES.index(found.grade)],
        "recomputed": [int(found.recomputed)],
        "compared": [found.compared],
    }
    yield TableRow(name, figures, found.problem)
