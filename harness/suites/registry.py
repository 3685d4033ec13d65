"""The suites: the settings, the cells, the measurement and the tables of each goal.

Throughput: queries, workloads, batchings, workers and engines over one scale factor. Coverage: every engine runs every
query in workloads with and without retractions, and gets a grade. The answers are compared with DuckDB's over exactly
the live rows: after each batch, and at logical times within batches if the engine has a stream. Graphs: motifs in
static and changing graphs, at a hub, vertex by vertex, and on virtual shards. Loops: distances over a random graph.
Memory: the least memory in which a cell passes, found by runs under limits. Rates: the highest rate that an engine
sustains in an open loop. Sharing: all queries in one dataflow beside the same queries alone, and queries that attach to
others. Windows: the time of a change of a partition, by its size, for each window function. Growth: the time of the
same changes over bases of several sizes, and the certificate that an engine maintains the answer. Recovery: the time to
the right answer after kills, and whether changes came exactly once. Attachment: a second query over loaded rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import product
from typing import Self, cast

import numpy as np

from deltamark.dataflow.language.motif import VARIANTS, Variant
from deltamark.datagen.graphs.generator import graph
from deltamark.datagen.graphs.make import directory_of, make_graph
from deltamark.datagen.make import Wanted
from deltamark.datagen.schema import scale_factor
from deltamark.datagen.windows import ROWS, WINDOWS
from deltamark.datagen.workloads.registry import known_workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT as DEFAULT_BENCHMARK
from deltamark.harness.benchmarks.cell import DEFAULT_ENGINE, FINE, GROWTH, Cell
from deltamark.harness.console.progress import ProgressLine
from deltamark.harness.console.table import Table
from deltamark.harness.engines.base import short_name
from deltamark.harness.engines.registry import DEFAULT_SWEEP, capabilities
from deltamark.harness.measure.client import CellReply
from deltamark.harness.results.record import Origin, Record, blank_record
from deltamark.harness.suites import attach, coverage, growth, loops, memory, rate, recovery, sharing, windows
from deltamark.harness.suites.graphs import counting, virtual_shards
from deltamark.harness.suites.graphs.counting import LOOPS
from deltamark.harness.suites.graphs.graph_data import ORIENTED, named_graph
from deltamark.harness.suites.grid import GridSettings, grid_cells
from deltamark.harness.suites.plan import Plan
from deltamark.harness.suites.suite import DataSuite, Measure, Suite, TableSuite, in_children
from deltamark.harness.suites.throughput import ThroughputSuite
from deltamark.harness.system import machine
from deltamark.harness.tables.graphs import graph_tables, loop_tables
from deltamark.harness.tables.growth import growth_tables, recorded_grades
from deltamark.harness.tables.lives import attach_tables, recovery_tables
from deltamark.harness.tables.suites import (
    coverage_tables,
    highest_rates,
    memory_tables,
    rate_tables,
    shared_tables,
    suite_tables,
    window_tables,
)
from deltamark.queries.graph.motifs import MOTIFS


@dataclass(frozen=True, kw_only=True)
class CoverageSuite(DataSuite, TableSuite):
    NAME = "coverage"
    CODE = "suites.coverage"
    READS = (GROWTH,)

    engines: tuple[str, ...] = DEFAULT_SWEEP

    def cells(self) -> list[Cell]:
        return [
            self._of_table(cell.but(engine=engine, master=self._master(engine)), "coverage", f"{cell.query} {short}")
            for engine, short in ((each, short_name(each)) for each in self.engines)
            for cell in map(self.cell, self.names)
        ]

    def measure(self, cell: Cell) -> Iterator[CellReply]:
        return coverage.measure(cell, self._wanted.directory)

    @classmethod
    def tables(cls, records: Iterable[Record]) -> list[Table]:
        """Make the tables, with the grades of the suite of growth in place of what engines declare."""
        found = list(records)
        return suite_tables(found, cls.NAME, partial(coverage_tables, grades=recorded_grades(found)))


CLIQUES = ("triangle", "4-clique", "5-clique", "6-clique")


@dataclass(frozen=True, kw_only=True)
class GraphSuite(TableSuite):
    NAME = "graph"
    CODE = "suites.graphs"
    MAKE_TABLES = graph_tables

    scale: int = 16
    hub: int = 13_127
    vertices: str = "zipf:16"
    batches: tuple[int, ...] = (1, 10, 100, 1000, 10_000)

    @property
    def _planted(self) -> list[str]:
        return virtual_shards.planted(self.scale, self.hub)

    def make_data(self) -> None:
        names = dict.fromkeys([f"rmat:{self.scale}", self.vertices, f"hub:{self.hub}", *self._planted])
        with ProgressLine() as progress:
            for name in names:
                make_graph(self.data, graph(name), self.master or Wanted.master, progress.report)

    def cells(self) -> list[Cell]:
        whole, by_vertex, hub = f"rmat:{self.scale}", self.vertices, f"hub:{self.hub}"
        oriented, triangle = f"{whole}{ORIENTED}", counting.TRIANGLE
        skewed = [*self._planted, f"{self._planted[-1]}{ORIENTED}"]
        return [
            *(self._cell("static", name, oriented, whole, name) for name in LOOPS),
            self._cell("rounds", counting.CLIQUE, oriented, whole),
            self._cell("at once", triangle, oriented, whole, triangle),
            *(
                self._cell("changing", triangle, oriented, whole, str(batch)).but(physical=batch)
                for batch in self.batches
            ),
            *(self._cell("hub", triangle, hub, hub, variant).but(variant=variant) for variant in VARIANTS),
            *(self._cell("vertices", name, f"{by_vertex}{ORIENTED}", by_vertex, name) for name in CLIQUES),
            *(
                self._cell("skew", triangle, name, f"{triangle}, {virtual_shards.SHARDS} shards", name)
                for name in skewed
            ),
            Cell("", "", goal=self.NAME, table="shares", dataset="formulas"),
        ]

    def _cell(self, table: str, motif: str, name: str, dataset: str, part: str = "") -> Cell:
        """Return a cell of a motif in the graph of a name."""
        data = machine.data(directory_of(self.data, graph(name.removesuffix(ORIENTED))))
        return Cell(motif, name, goal=self.NAME, table=table, dataset=dataset, part=part, data=data)

    def prepare(self, cell: Cell) -> None:
        if cell.sf:
            named_graph(cell.sf, self.data)

    def measure(self, cell: Cell) -> Iterator[CellReply]:
        if not cell.sf:
            return virtual_shards.shares()
        edges, motif, runs = named_graph(cell.sf, self.data), cell.query, self.runs
        of_tables: Mapping[str, Callable[[], Iterator[CellReply]]] = {
            "static": lambda: counting.static(edges, motif, runs),
            "rounds": lambda: counting.rounds(edges),
            "at once": lambda: counting.at_once(edges, motif, runs),
            "changing": lambda: counting.changing(edges, cell.physical, runs),
            "hub": lambda: counting.hub(edges, cast("Variant", cell.variant)),
            "vertices": lambda: counting.vertices(edges, motif),
            "skew": lambda: virtual_shards.loads(edges, motif, MOTIFS[motif]),
        }
        return of_tables[cell.table]()


@dataclass(frozen=True, kw_only=True)
class LoopSuite(TableSuite):
    NAME = "loops"
    CODE = "suites.loops"
    MAKE_TABLES = loop_tables

    nodes: int = 1_000_000
    edges: int = 10_000_000
    roots: int = 1
    changes: int = 100_000
    batches: tuple[int, ...] = (1, 10, 100, 1000, 10_000)

    def make_data(self) -> None:
        """Do nothing: the graph is random, and drawn by the cell."""

    def cells(self) -> list[Cell]:
        if (deleted := loops.deletions(self.batches, self.changes)) > self.edges:
            raise DeltamarkError("more deletions than edges", deleted, f"give EDGES={deleted}, or fewer CHANGES")
        dataset = f"{self.nodes:,} nodes, {self.edges:,} edges, {self.roots:,} roots"
        return [Cell("", "", goal=self.NAME, table="distances", dataset=dataset)]

    def measure(self, cell: Cell) -> Iterator[CellReply]:
        del cell  # there is one
        roots = np.random.default_rng(0).choice(self.nodes, min(self.roots, self.nodes), replace=False)
        graph = loops.random_graph(self.nodes, self.edges, 0)
        return loops.measure(graph, roots, sizes=self.batches, changes=self.changes, seed=0)


@dataclass(frozen=True, kw_only=True)
class MemorySuite(GridSettings, DataSuite, TableSuite):
    NAME = "memory"
    CODE = "suites.memory"
    MAKE_TABLES = memory_tables

    @property
    def _with_batching(self) -> Self:
        """Return these settings with a batching: by default 1 x 100000."""
        return self if self.logical or self.physical or self.product else replace(self, physical=(FINE[1],))

    def make_data(self) -> None:
        memory.find_place()  # without limits no data is needed
        super().make_data()

    def cells(self) -> list[Cell]:
        cells = grid_cells(self._with_batching, rounds=self._rounds())
        return [self._of_table(cell, "least", blank_record(cell, Origin("", "")).label) for cell in cells]

    def measure(self, cell: Cell) -> Iterator[CellReply]:
        return memory.measure(cell, self._wanted.directory, self.timeout)

    @contextmanager
    def measuring(self, plan: Plan) -> Iterator[Measure]:
        place = memory.find_place()
        try:
            yield in_children(self, plan.effort.limit)
        finally:
            place.sweep()  # a killed child leaves its group


@dataclass(frozen=True, kw_only=True)
class RateSuite(DataSuite, TableSuite):
    NAME = "rate"
    CODE = "suites.rate"
    MAKE_TABLES = rate_tables

    engines: tuple[str, ...] = DEFAULT_SWEEP
    workload: tuple[str, ...] = ()
    arrivals: tuple[str, ...] = (rate.STEADY,)
    seconds: float = 5.0
    limit: float = 1.0

    def cells(self) -> list[Cell]:
        works = map(known_workload, self.workload or (self.home.workload,))
        arrivals = map(rate.known_arrivals, self.arrivals)
        choices = product(map(_known_feeding, self.engines), self.names, works, arrivals)
        return [self._cell(*choice) for choice in choices]

    def _cell(self, engine: str, name: str, work: str, arrivals: str) -> Cell:
        logical, physical = FINE
        cell = self.cell(name, work).but(
            logical=logical, physical=physical, engine=engine, master=self._master(engine), arrivals=arrivals
        )
        part = f"{rate.row_of(cell)}, trials of {self.seconds:g} s, limit {self.limit:g} s"
        return self._of_table(cell, "trials", part)

    def measure(self, cell: Cell) -> Iterator[CellReply]:
        return rate.measure(cell, rate.TrialRules(self.seconds, self.limit, self.runs), self._wanted.directory)

    @classmethod
    def summary(cls, records: Iterable[Record]) -> list[Table]:
        return suite_tables(records, cls.NAME, highest_rates)


def _known_feeding(engine: str) -> str:
    """Return the name of an engine that the harness feeds, or raise a DeltamarkError."""
    if capabilities(engine).reads_input:
        raise DeltamarkError(
            "no batches of the harness for an engine that reads the input itself", engine, "leave it out"
        )
    return engine


@dataclass(frozen=True, kw_only=True)
class SharingSuite(DataSuite, TableSuite):
    NAME = "shared"
    CODE = "suites.sharing"
    MAKE_TABLES = shared_tables

    engines: tuple[str, ...] = (DEFAULT_ENGINE,)
    logical: tuple[int, ...] = (1,)
    physical: tuple[int, ...] = (1000, 10_000, 100_000, 1_000_000)
    fuel: int = 2

    def cells(self) -> list[Cell]:
        if self.benchmark != DEFAULT_BENCHMARK:
            raise DeltamarkError("sharing is measured over TPC-H", self.benchmark, "leave BENCHMARK out")
        loads = [self._loads(*choice) for choice in product(self.engines, self.logical, self.physical)]
        if DEFAULT_ENGINE not in self.engines:
            return loads
        inside = [self._of_queries(table) for table in ("arrangements", "filters", "coming")]
        return [*loads, *inside, self._of_queries("crowding", f"fuel {self.fuel}")]

    def _loads(self, engine: str, logical: int, physical: int) -> Cell:
        part = f"{logical} x {physical}" + ("" if engine == DEFAULT_ENGINE else f" {short_name(engine)}")
        return self._of_queries("loads", part, engine).but(logical=logical, physical=physical)

    def _of_queries(self, table: str, part: str = "", engine: str = DEFAULT_ENGINE) -> Cell:
        """Return a cell of all queries."""
        cell = self.cell(self.names[0]).but(engine=engine, master=self._master(engine))
        return self._of_table(cell, table, part).but(query="", dataset=" ".join([self.dataset, *self.queries]))

    def measure(self, cell: Cell) -> Iterator[CellReply]:
        if cell.table == "loads":
            of_table = {"engine": cell.engine, "logical": cell.logical, "physical": cell.physical}
            cells = [self.cell(name).but(**of_table) for name in self.names]
            return sharing.loads(cells, self._wanted.directory, self.runs)
        shared = sharing.SharedQueries(self._wanted.directory, {name: self.cell(name) for name in self.names})
        match cell.table:
            case "arrangements":
                return sharing.arrangements(shared)
            case "filters":
                return sharing.filters(shared)
            case "coming":
                return sharing.attachments(shared)
        return sharing.incremental_attachments(shared, self.fuel)


@dataclass(frozen=True, kw_only=True)
class WindowSuite(DataSuite, TableSuite):
    NAME = "windows"
    CODE = "suites.windows"
    MAKE_TABLES = window_tables

    benchmark: str = WINDOWS.name
    engines: tuple[str, ...] = DEFAULT_SWEEP
    sizes: tuple[int, ...] = (10, 100, 1000, 10_000, 100_000, 1_000_000)

    @classmethod
    def settings(cls) -> set[str]:
        return super().settings() - {"benchmark", "sf"}

    @property
    def dataset(self) -> str:
        return "one partition"

    def of_size(self, size: int) -> Self:
        """Return these settings over the data of a partition of some rows."""
        return replace(self, sf=Decimal(size) / ROWS)

    def make_data(self) -> None:
        for size in self.sizes:
            super(WindowSuite, self.of_size(size)).make_data()

    def cells(self) -> list[Cell]:
        choices = product(self.names, self.engines, self.sizes)
        return [self.of_size(size).cell_of(name, engine) for name, engine, size in choices]

    def cell_of(self, name: str, engine: str) -> Cell:
        """Return the cell of a text and an engine, in batches of one round."""
        cell = self.cell(name).but(physical=1, engine=engine, master=self._master(engine))
        return self._of_table(cell, "windows", f"{name} {short_name(engine)} {self.sf * ROWS:.0f}")

    def measure(self, cell: Cell) -> Iterator[CellReply]:
        return windows.measure(cell, replace(self._wanted, sf=Decimal(cell.sf)).directory)


SWAP = "swap:1000"
"""The name of the workload in cells; its rounds follow from the number of runs."""


@dataclass(frozen=True, kw_only=True)
class GrowthSuite(DataSuite, TableSuite):
    NAME = GROWTH
    CODE = "suites.growth"
    MAKE_TABLES = growth_tables

    engines: tuple[str, ...] = DEFAULT_SWEEP
    sizes: tuple[Decimal, ...] = tuple(map(Decimal, ("0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1")))

    @classmethod
    def settings(cls) -> set[str]:
        return super().settings() - {"sf"}

    @property
    def dataset(self) -> str:
        return self.benchmark

    def of_size(self, size: Decimal) -> Self:
        """Return these settings over the data of a scale factor."""
        return replace(self, sf=scale_factor(str(size)))

    def make_data(self) -> None:
        for size in self.sizes:
            super(GrowthSuite, self.of_size(size)).make_data()

    def cells(self) -> list[Cell]:
        if not self.home.source.scaled:
            raise DeltamarkError("no growth of a benchmark of one size", self.benchmark, "give one with scale factors")
        choices = product(self.names, map(_known_feeding, self.engines), self.sizes)
        return [self.of_size(size).cell_of(name, engine) for name, engine, size in choices]

    def cell_of(self, name: str, engine: str) -> Cell:
        """Return the cell of a query and an engine, in batches of one round."""
        cell = self.cell(name, SWAP).but(physical=1, engine=engine, master=self._master(engine))
        return self._of_table(cell, "certificates", f"{name} {cell.sf} {short_name(engine)}")

    def measure(self, cell: Cell) -> Iterator[CellReply]:
        return growth.measure(cell, replace(self._wanted, sf=Decimal(cell.sf)).directory, self.runs)


LIFE_WORKLOAD = "window:500"
"""The workload of a life, in which rows arrive and leave, for a benchmark that has events."""


@dataclass(frozen=True, kw_only=True)
class RecoverySuite(DataSuite, TableSuite):
    NAME = "recovery"
    TITLE = "Recovery"
    CODE = "suites.recovery"
    MAKE_TABLES = recovery_tables

    engines: tuple[str, ...] = ("spark",)
    workload: tuple[str, ...] = ()

    def cells(self) -> list[Cell]:
        works = self.workload or (LIFE_WORKLOAD if self.home.relations.events else self.home.workload,)
        return [self._cell(*choice) for choice in product(self.engines, self.names, map(known_workload, works))]

    def _cell(self, engine: str, name: str, work: str) -> Cell:
        cell = self.cell(name, work).but(engine=engine, master=self._master(engine))
        return self._of_table(cell, "kills", f"{name} {work} {short_name(engine)}")

    def measure(self, cell: Cell) -> Iterator[CellReply]:
        return recovery.measure(cell, self._wanted.directory, self.runs)


@dataclass(frozen=True, kw_only=True)
class AttachSuite(DataSuite, TableSuite):
    NAME = "attach"
    TITLE = "Attachment"
    CODE = "suites.attach"
    MAKE_TABLES = attach_tables

    engines: tuple[str, ...] = (DEFAULT_ENGINE,)

    def cells(self) -> list[Cell]:
        first, *coming = self.names
        if not coming:
            raise DeltamarkError("no second query", first, "give two QUERIES or more: the first one runs first")
        return [self._cell(engine, first, second) for engine, second in product(self.engines, coming)]

    def _cell(self, engine: str, first: str, second: str) -> Cell:
        cell = self.cell(first).but(engine=engine, master=self._master(engine))
        return self._of_table(cell, "attached", f"{first} {second} {short_name(engine)}")

    def measure(self, cell: Cell) -> Iterator[CellReply]:
        _, coming, _ = cell.part.split(" ", 2)
        return attach.measure(cell, coming, self._wanted.directory)


SUITES: dict[str, type[Suite]] = {
    suite.NAME: suite
    for suite in (
        ThroughputSuite, CoverageSuite, GraphSuite, LoopSuite, MemorySuite, RateSuite, SharingSuite,
        WindowSuite, GrowthSuite, RecoverySuite, AttachSuite,
    )
}  # fmt: skip
DEFAULT = ThroughputSuite.NAME
