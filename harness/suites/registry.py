"""The registry of suites, with the settings, the cells and the tables of each suite whose cells yield rows.

Coverage: every engine runs every query in workloads with and without retractions, and gets a grade. The answers are
compared with DuckDB's over exactly the live rows: after each batch, and at logical times within batches if the engine
has a stream. Graphs: motifs in static and changing graphs, at a hub, vertex by vertex, and on virtual shards. Loops:
distances over a random graph. Memory: the least memory in which a cell passes, found by runs under limits. Rates: the
highest rate that an engine sustains in an open loop. Sharing: all queries in one dataflow beside the same queries
alone, and queries that attach to others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from deltamark.dataflow.language.motif import VARIANTS
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.graphs.generator import graph
from deltamark.datagen.graphs.make import directory_of, make_graph
from deltamark.datagen.make import Wanted
from deltamark.datagen.workloads.registry import known_workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT as DEFAULT_BENCHMARK
from deltamark.harness.benchmarks.cell import FINE, Cell
from deltamark.harness.console.progress import ProgressLine
from deltamark.harness.console.table import Table
from deltamark.harness.engines.base import short_name
from deltamark.harness.engines.registry import DEFAULT_SWEEP, capabilities
from deltamark.harness.measure.windows import rounds_of
from deltamark.harness.results.record import Origin, Record, TableRow
from deltamark.harness.suites import coverage, loops, rate, sharing
from deltamark.harness.suites.graphs import counting, virtual_shards
from deltamark.harness.suites.graphs.counting import BY_BIGJOIN, BY_HAND, LOOPS, warm
from deltamark.harness.suites.graphs.graph_data import Edges, oriented, stored
from deltamark.harness.suites.memory import trial
from deltamark.harness.suites.memory.groups import find_place
from deltamark.harness.suites.plan import Plan
from deltamark.harness.suites.suite import DataSuite, Suite
from deltamark.harness.suites.table_cell import ForkingMeasurer, TableCell, data_digest, forking
from deltamark.harness.suites.tpch.grid import GridSettings, SampledCell, grid_cells
from deltamark.harness.suites.tpch.suite import TpchSuite
from deltamark.harness.system import machine
from deltamark.harness.tables.suites import (
    MakeTables,
    coverage_tables,
    graph_tables,
    highest_rates,
    loop_tables,
    memory_tables,
    rate_tables,
    shared_tables,
    suite_tables,
)
from deltamark.queries.graph.motifs import MOTIFS


@dataclass(frozen=True, kw_only=True)
class TableSuite(Suite):
    MAKE_TABLES: ClassVar[MakeTables]

    def measurer(self, plan: Plan) -> AbstractContextManager[ForkingMeasurer]:
        return forking(plan, warm)

    @classmethod
    def tables(cls, records: Iterable[Record]) -> list[Table]:
        return suite_tables(records, cls.NAME, cls.MAKE_TABLES)


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
                data_digest(directory, cell), partial(coverage.measure, directory, cell), verified="oracle",
                engine=cell.engine,
            )
            for cell in (self._cell(name, engine) for engine in self.engines for name in self.names)
        ]  # fmt: skip

    def _cell(self, name: str, engine: str) -> Cell:
        return self.cell(name).but(engine=engine, master=self.master if capabilities(engine).has_master else "")


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
        planted = virtual_shards.planted(self.scale, self.hub)
        names = dict.fromkeys([f"rmat:{self.scale}", self.vertices, f"hub:{self.hub}", *planted])
        with ProgressLine() as progress:
            for name in names:
                make_graph(self.data, graph(name), self.master or Wanted.master, progress.report)

    def cells(self) -> list[TableCell]:
        whole, by_vertex = (LazyGraph(name, self.data) for name in (f"rmat:{self.scale}", self.vertices))
        hub, runs = LazyGraph(f"hub:{self.hub}", self.data, _unchanged), self.runs
        at_once = partial(counting.at_once, name=counting.TRIANGLE, runs=runs)
        return [
            *(whole.cell("static", name, partial(counting.static, name=name, runs=runs)) for name in LOOPS),
            whole.cell("rounds", "", counting.rounds),
            whole.cell("at once", counting.TRIANGLE, at_once),
            *(
                whole.cell("changing", str(batch), partial(counting.changing, batch=batch, runs=runs))
                for batch in self.batches
            ),
            *(hub.cell("hub", variant, partial(counting.hub, variant=variant)) for variant in VARIANTS),
            *(
                by_vertex.cell("vertices", name, partial(counting.vertices, name=name), verified=BY_BIGJOIN)
                for name in CLIQUES
            ),
            *self._skew_cells(),
            TableCell(NAME, "shares", "formulas", "", "", virtual_shards.shares),
        ]

    def _skew_cells(self) -> Iterator[TableCell]:
        """List the cells that measure the loads of virtual shards."""
        measure = partial(
            virtual_shards.loads, name="triangle", pattern=MOTIFS["triangle"], shards=virtual_shards.SHARDS,
            batch=virtual_shards.BATCH,
        )  # fmt: skip
        names = virtual_shards.planted(self.scale, self.hub)
        graphs = [(name, LazyGraph(name, self.data, _unchanged)) for name in names]
        for name, each in (*graphs, (f"{names[-1]}, oriented", LazyGraph(names[-1], self.data))):
            dataset = f"triangle, {virtual_shards.SHARDS} shards"
            yield each.cell("skew", name, measure, verified=BY_BIGJOIN, dataset=dataset)


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
        graph = loops.random_graph(self.nodes, self.edges, 0)
        yield from loops.measure(graph, roots, sizes=self.batches, changes=self.changes, seed=0)


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
            partial(trial.measure, sampled, name, directory, self.timeout), verified="oracle",
            engine=sampled.engine,
        )  # fmt: skip

    @contextmanager
    def measurer(self, plan: Plan) -> Iterator[ForkingMeasurer]:
        place = find_place()
        try:
            yield ForkingMeasurer(plan)
        finally:
            place.sweep()  # a killed child leaves its group


@dataclass(frozen=True, kw_only=True)
class RateSuite(DataSuite, TableSuite):
    NAME = "rate"
    TITLE = "Latency by rate"
    CODE = "suites.rate"
    MAKE_TABLES = rate_tables

    engines: tuple[str, ...] = DEFAULT_SWEEP
    workload: tuple[str, ...] = ()
    arrivals: tuple[str, ...] = (rate.STEADY,)
    seconds: float = 5.0
    limit: float = 1.0

    def cells(self) -> list[TableCell]:
        works, arrivals = (
            map(known_workload, self.workload or (self.home.workload,)),
            map(rate.known_arrivals, self.arrivals),
        )
        choices = product(map(_known_feeding, self.engines), self.names, works, arrivals)
        return [self._cell(*choice) for choice in choices]

    def _cell(self, engine: str, name: str, work: str, arrivals: str) -> TableCell:
        master = self.master if capabilities(engine).has_master else ""
        logical, physical = FINE
        cell = self.cell(name, work).but(logical=logical, physical=physical, engine=engine, master=master)
        of, directory = rate.RateCell(cell, arrivals, self.seconds, self.limit, self.runs), self._wanted.directory
        part = f"{of.name}, trials of {self.seconds:g} s, limit {self.limit:g} s"
        return TableCell(
            self.NAME, "trials", self.dataset, part, data_digest(directory, cell), partial(rate.measure, of, directory),
            verified="oracle", engine=engine,
        )  # fmt: skip

    @classmethod
    def summary(cls, records: Iterable[Record]) -> list[Table]:
        return suite_tables(records, cls.NAME, highest_rates)


def _known_feeding(engine: str) -> str:
    """Return the name of an engine that the harness feeds, or raise a DeltamarkError."""
    if capabilities(engine).reads_input:
        raise DeltamarkError("no open loop for an engine that reads the input itself", engine, "leave it out")
    return engine


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
        if self.benchmark != DEFAULT_BENCHMARK:
            raise DeltamarkError("sharing is measured over TPC-H", self.benchmark, "leave BENCHMARK out")
        directory, dataset = self._wanted.directory, " ".join([self.dataset, *self.queries])
        shared = sharing.SharedQueries(directory, {name: self.cell(name) for name in self.names})
        cell = partial(TableCell, self.NAME, dataset=dataset, data=machine.data(directory))
        batchings = [(logical, physical) for logical in self.logical for physical in self.physical]
        return [
            *(
                cell(
                    table="loads", part=f"{logical} x {physical}", verified=ORACLE,
                    measure=partial(sharing.loads, shared, logical, physical, self.runs),
                )
                for logical, physical in batchings
            ),
            cell(table="arrangements", part="", measure=partial(sharing.arrangements, shared)),
            cell(table="filters", part="", measure=partial(sharing.filters, shared)),
            cell(table="coming", part="", measure=partial(sharing.attachments, shared), verified=ORACLE),
            cell(
                table="crowding", part=f"fuel {self.fuel}",
                measure=partial(sharing.incremental_attachments, shared, self.fuel),
            ),
        ]  # fmt: skip


SUITES: dict[str, type[Suite]] = {
    suite.NAME: suite
    for suite in (
        TpchSuite, CoverageSuite, GraphSuite, LoopSuite, MemorySuite, RateSuite, SharingSuite,
    )
}  # fmt: skip
DEFAULT = TpchSuite.NAME
