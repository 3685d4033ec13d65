"""The suite of graphs: motifs in static and changing graphs, at a hub, vertex by vertex, and on virtual shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from deltamark.dataflow.language.motif import VARIANTS
from deltamark.datagen.graphs.generator import graph
from deltamark.datagen.graphs.make import directory_of, make_graph
from deltamark.datagen.make import Wanted
from deltamark.harness.console.progress import ProgressLine
from deltamark.harness.results import machine
from deltamark.harness.results.record import TableRow
from deltamark.harness.suites.graphs import cells, skew
from deltamark.harness.suites.graphs.counting import BY_BIGJOIN, BY_HAND, LOOPS
from deltamark.harness.suites.graphs.graph_data import Edges, oriented, stored
from deltamark.harness.suites.graphs.load_simulation import simulation
from deltamark.harness.suites.table_cell import TableCell
from deltamark.harness.suites.table_suite import TableSuite
from deltamark.harness.tables.suites import graph_tables
from deltamark.queries.graph.motifs import MOTIFS

NAME = "graph"
CLIQUES = ("triangle", "4-clique", "5-clique", "6-clique")

GraphMeasure = Callable[[Edges], Iterable[TableRow]]


def _unchanged(edges: Edges) -> Edges:
    return edges


class LazyGraph:
    """A cached graph, read by the first cell that needs it. transform: applied to its edges."""

    def __init__(self, name: str, data: Path, transform: Callable[[Edges], Edges] = oriented) -> None:
        self._name, self._transform = name, transform
        self._directory = directory_of(data, graph(name))

    @cached_property
    def _edges(self) -> Edges:
        return self._transform(stored(self._directory))

    def cell(
        self, table: str, part: str, measure: GraphMeasure, *, verified: str = BY_HAND, dataset: str = ""
    ) -> TableCell:
        return TableCell(
            NAME, table, dataset or self._name, part, machine.data(self._directory),
            lambda: measure(self._edges), lambda: self._edges, verified,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GraphSuite(TableSuite):
    NAME = NAME
    TITLE = "Graphs"
    CODE = "suites.graphs"
    MAKE_TABLES = graph_tables

    scale: int = 16
    hub: int = 13_127
    vertices: str = "zipf:16"
    batches: tuple[int, ...] = (1, 10, 100, 1000, 10_000)

    def make_data(self) -> None:
        planted = skew.planted(self.scale, self.hub)
        names = dict.fromkeys([f"rmat:{self.scale}", self.vertices, f"hub:{self.hub}", *planted])
        with ProgressLine() as progress:
            for name in names:
                make_graph(self.data, graph(name), self.master or Wanted.master, progress.report)

    def cells(self) -> list[TableCell]:
        whole, by_vertex = (LazyGraph(name, self.data) for name in (f"rmat:{self.scale}", self.vertices))
        hub, runs = LazyGraph(f"hub:{self.hub}", self.data, _unchanged), self.runs
        at_once = partial(cells.at_once, name=cells.TRIANGLE, runs=runs)
        return [
            *(whole.cell("static", name, partial(cells.static, name=name, runs=runs)) for name in LOOPS),
            whole.cell("rounds", "", cells.rounds),
            whole.cell("at once", cells.TRIANGLE, at_once),
            *(
                whole.cell("changing", str(batch), partial(cells.changing, batch=batch, runs=runs))
                for batch in self.batches
            ),
            *(hub.cell("hub", variant, partial(cells.hub, variant=variant)) for variant in VARIANTS),
            *(
                by_vertex.cell("vertices", name, partial(cells.vertices, name=name), verified=BY_BIGJOIN)
                for name in CLIQUES
            ),
            *self._skew_cells(),
            TableCell(NAME, "shares", "formulas", "", "", skew.shares),
        ]

    def _skew_cells(self) -> Iterator[TableCell]:
        """List the cells that measure the loads of virtual shards."""
        measure = partial(
            skew.loads, name="triangle", pattern=MOTIFS["triangle"], shards=skew.SHARDS, batch=simulation.BATCH
        )  # fmt: skip
        names = skew.planted(self.scale, self.hub)
        graphs = [(name, LazyGraph(name, self.data, _unchanged)) for name in names]
        for name, each in (*graphs, (f"{names[-1]}, oriented", LazyGraph(names[-1], self.data))):
            dataset = f"triangle, {skew.SHARDS} shards"
            yield each.cell("skew", name, measure, verified=BY_BIGJOIN, dataset=dataset)
