"""The suites: the settings, the cells, the measurement and the tables of each goal.

Throughput: queries, workloads, batchings, workers and engines over one scale factor. Coverage: every engine runs every
query in workloads with and without retractions, and gets a grade. The answers are compared with DuckDB's over exactly
the live rows: after each batch, and at logical times within batches if the engine has a stream. Graphs: motifs in
static and changing graphs, at a hub, vertex by vertex, and on virtual shards. Loops: distances over a random graph.
Memory: the least memory in which a cell passes, found by runs under limits. Rates: the highest rate that an engine
sustains in an open loop. Sharing: all queries in one dataflow beside the same queries alone, and queries that attach to
others.
"""

from __future__ import annotations

import shlex
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, Self, cast

import numpy as np

from deltamark.dataflow.language.motif import VARIANTS, Variant
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.graphs.generator import graph
from deltamark.datagen.graphs.make import directory_of, make_graph
from deltamark.datagen.make import Wanted
from deltamark.datagen.workloads.registry import known_workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT as DEFAULT_BENCHMARK
from deltamark.harness.benchmarks.cell import FINE, THROUGHPUT, Cell
from deltamark.harness.console.progress import ProgressLine
from deltamark.harness.console.table import Table
from deltamark.harness.engines.base import short_name
from deltamark.harness.engines.plans import specified_plan
from deltamark.harness.engines.registry import DEFAULT_SWEEP, capabilities, external_info
from deltamark.harness.measure.client import CellReply, MeasurementClient, ServerSpec
from deltamark.harness.results.record import Origin, Record, blank_record, of_queries
from deltamark.harness.suites import coverage, loops, rate, sharing
from deltamark.harness.suites.graphs import counting, virtual_shards
from deltamark.harness.suites.graphs.counting import LOOPS, warm
from deltamark.harness.suites.graphs.graph_data import ORIENTED, named_graph
from deltamark.harness.suites.grid import GridSettings, grid_cells
from deltamark.harness.suites.measurer import CheckedMeasurer, ForkingMeasurer
from deltamark.harness.suites.memory import trial
from deltamark.harness.suites.memory.trial import find_place
from deltamark.harness.suites.plan import DataSuite, Plan, Suite
from deltamark.harness.system import machine
from deltamark.harness.tables import tpch
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

CHECK_BYTES_PER_DATA_BYTE = 4
"""The memory of a check relative to its data; a generous estimate, not measured."""


@dataclass(frozen=True, kw_only=True)
class ThroughputSuite(GridSettings, DataSuite):
    NAME = THROUGHPUT
    TITLE = "TPC-H"
    CODE = "suites.measurer"

    def cells(self) -> Sequence[Cell]:
        directory = self._wanted.directory
        cells = grid_cells(self, machine.data(directory), self._rounds())
        files = {each.query: each for each in cells if each.query not in self.home.queries}
        for each in files.values() if self.home.source.specification(self.sf, "insert") else ():
            specified_plan(each)  # a mistake in a file is one error, before any data is made
        return cells

    def headline(self, plan: Plan) -> str:
        """Describe the cells, such as `484 cells = 22 queries x 22 batchings`."""
        queries = len({cell.query for cell in plan.cells})
        batchings = len({(c.workload, c.engine, c.logical, c.physical, c.workers) for c in plan.cells})
        exactly = "=" if queries * batchings == len(plan.cells) else "of"
        return f"{len(plan.cells)} cells {exactly} {queries} queries x {batchings} batchings"

    @contextmanager
    def measurer(self, plan: Plan) -> Iterator[CheckedMeasurer]:
        dataset = Dataset.open(self._wanted.directory)
        with closing(MeasurementClient(ServerSpec(dataset.directory))) as service:
            measurer = CheckedMeasurer(plan, dataset, service, _has_room_for_two_checks(dataset))
            service.warm(self.benchmark)
            yield measurer

    @classmethod
    def tables(cls, records: Iterable[Record]) -> list[Table]:
        return [table for sf, found in _by_dataset(records) for table in tpch.tables(found, sf)]

    @classmethod
    def summary(cls, records: Iterable[Record]) -> list[Table]:
        return [tpch.summary(found, sf) for sf, found in _by_dataset(records)]

    @property
    def selection(self) -> str:
        named = "" if self.benchmark == DEFAULT_BENCHMARK else f"BENCHMARK={shlex.quote(self.benchmark)} "
        return f"{named}SF={self.home.source.scale(self.sf)}"


def _by_dataset(records: Iterable[Record]) -> Iterator[tuple[str, list[Record]]]:
    records = [record for record in records if record.suite == THROUGHPUT]
    for name, sf in sorted({(record.benchmark, record.sf) for record in records}):
        yield sf, of_queries(records, sf, name)


def _has_room_for_two_checks(dataset: Dataset) -> bool:
    facts, size = machine.facts(), sum(chunk.bytes for chunk in dataset.manifest.files)
    return facts["usable"] > 1 and 2 * CHECK_BYTES_PER_DATA_BYTE * size < 1e9 * facts["memory_gb"]


@dataclass(frozen=True, kw_only=True)
class TableSuite(Suite):
    """A suite whose cells are each measured in a child of this process, and yield the rows of its tables."""

    MAKE_TABLES: ClassVar[MakeTables]

    @contextmanager
    def measurer(self, plan: Plan) -> Iterator[ForkingMeasurer]:
        warm()
        yield ForkingMeasurer(plan, self)

    def prepare(self, cell: Cell) -> None:
        """Read and cache the data that several cells share. Runs in this process."""

    @abstractmethod
    def measure(self, cell: Cell) -> Iterable[CellReply]:
        """Measure a cell: yield a reply for each row, or raise an error. Runs in the child."""

    @classmethod
    def tables(cls, records: Iterable[Record]) -> list[Table]:
        return suite_tables(records, cls.NAME, cls.MAKE_TABLES)


@dataclass(frozen=True, kw_only=True)
class QuerySuite(DataSuite, TableSuite):
    """A table suite over the queries of a benchmark."""

    def _of_table(self, cell: Cell, table: str, part: str) -> Cell:
        """Return a cell of a query as one of a table of this suite.

        Its digest covers the data, the file of the query and, for an external engine, its program.
        """
        external = external_info(cell.engine)
        more = [cell.digest, *([external.name, external.digest] if external else [])]
        data = " ".join([machine.data(self._wanted.directory), *filter(None, more)])
        return cell.but(goal=self.NAME, dataset=self.dataset, table=table, part=part, data=data)

    def _master(self, engine: str) -> str:
        return self.master if capabilities(engine).has_master else ""


@dataclass(frozen=True, kw_only=True)
class CoverageSuite(QuerySuite):
    NAME = "coverage"
    TITLE = "Coverage and consistency"
    CODE = "suites.coverage"
    MAKE_TABLES = coverage_tables

    engines: tuple[str, ...] = DEFAULT_SWEEP

    def cells(self) -> list[Cell]:
        return [
            self._of_table(cell.but(engine=engine, master=self._master(engine)), "coverage", f"{cell.query} {short}")
            for engine, short in ((each, short_name(each)) for each in self.engines)
            for cell in map(self.cell, self.names)
        ]

    def measure(self, cell: Cell) -> Iterator[CellReply]:
        return coverage.measure(cell, self._wanted.directory)


CLIQUES = ("triangle", "4-clique", "5-clique", "6-clique")


@dataclass(frozen=True, kw_only=True)
class GraphSuite(TableSuite):
    NAME = "graph"
    TITLE = "Graphs"
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

    def cells(self) -> list[Cell]:
        dataset = f"{self.nodes:,} nodes, {self.edges:,} edges, {self.roots:,} roots"
        return [Cell("", "", goal=self.NAME, table="distances", dataset=dataset)]

    def measure(self, cell: Cell) -> Iterator[CellReply]:
        del cell  # there is one
        roots = np.random.default_rng(0).choice(self.nodes, min(self.roots, self.nodes), replace=False)
        graph = loops.random_graph(self.nodes, self.edges, 0)
        return loops.measure(graph, roots, sizes=self.batches, changes=self.changes, seed=0)


@dataclass(frozen=True, kw_only=True)
class MemorySuite(GridSettings, QuerySuite):
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

    def cells(self) -> list[Cell]:
        cells = grid_cells(self._with_batching, rounds=self._rounds())
        return [self._of_table(cell, "least", blank_record(cell, Origin("", "")).label) for cell in cells]

    def measure(self, cell: Cell) -> Iterator[CellReply]:
        return trial.measure(cell, self._wanted.directory, self.timeout)

    @contextmanager
    def measurer(self, plan: Plan) -> Iterator[ForkingMeasurer]:
        place = find_place()
        try:
            yield ForkingMeasurer(plan, self)
        finally:
            place.sweep()  # a killed child leaves its group


@dataclass(frozen=True, kw_only=True)
class RateSuite(QuerySuite):
    NAME = "rate"
    TITLE = "Latency by rate"
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
        raise DeltamarkError("no open loop for an engine that reads the input itself", engine, "leave it out")
    return engine


@dataclass(frozen=True, kw_only=True)
class SharingSuite(DataSuite, TableSuite):
    NAME = "shared"
    TITLE = "Sharing"
    CODE = "suites.sharing"
    MAKE_TABLES = shared_tables

    logical: tuple[int, ...] = (1,)
    physical: tuple[int, ...] = (1000, 10_000, 100_000, 1_000_000)
    fuel: int = 2

    def cells(self) -> list[Cell]:
        if self.benchmark != DEFAULT_BENCHMARK:
            raise DeltamarkError("sharing is measured over TPC-H", self.benchmark, "leave BENCHMARK out")
        dataset, data = " ".join([self.dataset, *self.queries]), machine.data(self._wanted.directory)
        all_queries = self.cell(self.names[0]).but(query="", goal=self.NAME, dataset=dataset, data=data)
        return [
            *(
                all_queries.but(table="loads", part=f"{logical} x {size}", logical=logical, physical=size)
                for logical, size in product(self.logical, self.physical)
            ),
            *(all_queries.but(table=table) for table in ("arrangements", "filters", "coming")),
            all_queries.but(table="crowding", part=f"fuel {self.fuel}"),
        ]

    def measure(self, cell: Cell) -> Iterator[CellReply]:
        shared = sharing.SharedQueries(self._wanted.directory, {name: self.cell(name) for name in self.names})
        match cell.table:
            case "loads":
                return sharing.loads(shared, cell.logical, cell.physical, self.runs)
            case "arrangements":
                return sharing.arrangements(shared)
            case "filters":
                return sharing.filters(shared)
            case "coming":
                return sharing.attachments(shared)
        return sharing.incremental_attachments(shared, self.fuel)


SUITES: dict[str, type[Suite]] = {
    suite.NAME: suite
    for suite in (
        ThroughputSuite, CoverageSuite, GraphSuite, LoopSuite, MemorySuite, RateSuite, SharingSuite,
    )
}  # fmt: skip
DEFAULT = ThroughputSuite.NAME
