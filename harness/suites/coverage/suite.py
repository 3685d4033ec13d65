"""The suite of coverage: every engine runs every query in workloads with and without retractions, and gets a grade.

The answers are compared with DuckDB's over exactly the live rows: after each batch, and at logical times within batches
if the engine has a stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from random import Random

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.make import Wanted
from deltamark.harness.console.datasets import open_dataset
from deltamark.harness.engines.base import short_name
from deltamark.harness.engines.registry import DEFAULT_SWEEP, capabilities
from deltamark.harness.measure.cell import Cell
from deltamark.harness.results.record import REFUSED, Figures, TableRow
from deltamark.harness.suites.coverage.grading import GRADES, graded
from deltamark.harness.suites.table_cell import TableCell, data_digest
from deltamark.harness.suites.table_suite import TableSuite
from deltamark.harness.tables.suites import coverage_tables
from deltamark.queries.catalogue import QUERIES, query


@dataclass(frozen=True, kw_only=True)
class CoverageSuite(TableSuite):
    NAME = "coverage"
    TITLE = "Coverage and consistency"
    CODE = "suites.coverage"
    MAKE_TABLES = coverage_tables

    sf: Decimal = Decimal("0.01")
    queries: tuple[str, ...] = ()
    engines: tuple[str, ...] = DEFAULT_SWEEP

    @property
    def _wanted(self) -> Wanted:
        return Wanted(self.data, self.sf, self.master or Wanted.master)

    def make_data(self) -> None:
        open_dataset(self._wanted)

    def cells(self) -> list[TableCell]:
        for name in self.queries:
            query(name)  # raises an error for an unknown name
        directory = self._wanted.directory
        return [
            TableCell(
                self.NAME, "coverage", f"SF {self.sf}", f"{name} {short_name(engine)}", data_digest(directory, engine),
                partial(_graded, directory, self._cell(name, engine)), verified="oracle", engine=engine,
            )
            for engine in self.engines
            for name in self.queries or QUERIES
        ]  # fmt: skip

    def _cell(self, name: str, engine: str) -> Cell:
        return Cell(name, str(self.sf), engine=engine, master=self.master if capabilities(engine).has_master else "")


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
