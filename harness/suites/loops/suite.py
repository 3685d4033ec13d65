"""The suite of loops: distances over a random graph, from scratch, attached to an index of its edges, and maintained.

It has one cell, because it maintains the answer that it attached before. Its answers are compared with numpy's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from deltamark.harness.results.record import TableRow
from deltamark.harness.suites.loops.reach import measure, random_graph
from deltamark.harness.suites.table_cell import TableCell
from deltamark.harness.suites.table_suite import TableSuite
from deltamark.harness.tables.suites import loop_tables


@dataclass(frozen=True, kw_only=True)
class LoopSuite(TableSuite):
    NAME = "loops"
    TITLE = "Distances"
    CODE = "suites.loops"
    MAKE_TABLES = loop_tables

    nodes: int = 1_000_000
    edges: int = 10_000_000
    roots: int = 1
    changes: int = 100_000
    batches: tuple[int, ...] = (1, 10, 100, 1000, 10_000)

    def make_data(self) -> None:
        """Do nothing: the graph is random, and drawn by the cell."""

    def cells(self) -> list[TableCell]:
        dataset = f"{self.nodes:,} nodes, {self.edges:,} edges, {self.roots:,} roots"
        return [TableCell(self.NAME, "distances", dataset, "", "", self._measure, verified="numpy")]

    def _measure(self) -> Iterator[TableRow]:
        roots = np.random.default_rng(0).choice(self.nodes, min(self.roots, self.nodes), replace=False)
        graph = random_graph(self.nodes, self.edges, 0)
        yield from measure(graph, roots, sizes=self.batches, changes=self.changes, seed=0)
