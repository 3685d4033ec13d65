"""The suite of loops: distances over a random graph, from scratch, attached to an index of its edges, and maintained.

It has one cell, because what it maintains is what it attached before. Its answers are compared with numpy's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from deltamark.harness.console.table import Table
from deltamark.harness.results.record import Record
from deltamark.harness.results.table_record import TableRow
from deltamark.harness.suites.graphs.counting import warm
from deltamark.harness.suites.loops.reach import measure, random_graph
from deltamark.harness.suites.plan import Plan
from deltamark.harness.suites.suite import Suite
from deltamark.harness.suites.table_cell import ForkingMeasurer, TableCell, WrongAnswerError, forking
from deltamark.harness.tables.suites.loops import loop_tables
from deltamark.harness.tables.suites.rows import suite_tables

NAME, DISTANCES, NUMPY = "loops", "distances", "numpy"


@dataclass(frozen=True, kw_only=True)
class LoopSuite(Suite):
    NAME = NAME
    TITLE = "Distances"
    CODE = "suites.loops"

    nodes: int = 1_000_000
    edges: int = 10_000_000
    roots: int = 1
    changes: int = 100_000
    batches: tuple[int, ...] = (1, 10, 100, 1000, 10_000)

    def make_data(self) -> None:
        """Do nothing: the graph is random, and drawn by the cell."""

    def cells(self) -> list[TableCell]:
        dataset = f"{self.nodes:,} nodes, {self.edges:,} edges, {self.roots:,} roots"
        return [TableCell(NAME, DISTANCES, dataset, "", "", self._distances, verified=NUMPY)]

    def _distances(self) -> Iterator[TableRow]:
        """Yield a row for the work before any change, and a row per batch size of the changes."""
        roots = np.random.default_rng(0).choice(self.nodes, min(self.roots, self.nodes), replace=False)
        edges = random_graph(self.nodes, self.edges, 0)
        result = measure(edges, roots, sizes=self.batches, changes=self.changes, seed=0)
        if result.wrong:
            remedy = "pytest tests/harness/suites/test_reach.py tells whether small graphs are right"
            raise WrongAnswerError("a wrong answer", result.wrong, remedy)
        figures = {
            "index": result.index_seconds, "scratch": result.scratch_seconds, "attached": result.attach_seconds,
            "index_bytes": result.index_bytes, "more_bytes": result.more_bytes, "reached": result.reached,
            "farthest": result.farthest,
        }  # fmt: skip
        yield TableRow(DISTANCES, {name: [value] for name, value in figures.items()})
        for each in result.updates:
            yield TableRow(str(each.size), {"batches": [each.batches], "seconds": [each.seconds]})

    def measurer(self, plan: Plan) -> AbstractContextManager[ForkingMeasurer]:
        return forking(plan, warm)

    @staticmethod
    def tables(records: Iterable[Record]) -> list[Table]:
        return suite_tables(records, NAME, loop_tables)
