"""The suite of throughput: queries, workloads, batchings, workers and engines over one scale factor.

All cells of a query, workload and L have one change stream. The first cell of each engine is compared with DuckDB's
answers, also at drawn times inside batches, and only then is its digest a reference: that of every other cell must be
equal to it. A stream with the changes of a batch at its end has the right answers at the ends of batches, so a
comparison there makes no reference. With enough cores and memory the check of the next cell runs beside that of the
current one; timed runs are always alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from random import Random

from msgspec.structs import replace

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import workload
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.cell import DEFAULT_ENGINE, THROUGHPUT, Cell
from deltamark.harness.console.table import Table, counted
from deltamark.harness.engines.plans import specified_plan
from deltamark.harness.engines.registry import capabilities
from deltamark.harness.measure.client import CellReply, CellRequest, MeasurementClient, OracleReply
from deltamark.harness.measure.windows import checkpoints, inner_times
from deltamark.harness.results.record import Record, of_queries
from deltamark.harness.suites.grid import GridSettings, grid_cells
from deltamark.harness.suites.plan import Plan
from deltamark.harness.suites.suite import DataSuite, Measure
from deltamark.harness.system import machine
from deltamark.harness.tables import tpch

DigestGroup = tuple[str, ...]

ORACLE_TIMEOUT_S = 1800.0
"""The time for all answers of DuckDB to a query over a workload; not measured."""

CHECK_BYTES_PER_DATA_BYTE = 4
"""The memory of a check relative to its data; a generous estimate, not measured."""


@dataclass(frozen=True, kw_only=True)
class ThroughputSuite(GridSettings, DataSuite):
    NAME = THROUGHPUT
    CODE = "suites.throughput"

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
        parts = f"{counted(queries, 'query')} x {counted(batchings, 'batching')}"
        return f"{counted(len(plan.cells), 'cell')} {exactly} {parts}"

    @contextmanager
    def measuring(self, plan: Plan) -> Iterator[Measure]:
        dataset = Dataset.open(self._wanted.directory)
        with closing(MeasurementClient(dataset.directory)) as server:
            checks = Checks(plan, dataset, server, _has_room_for_two_checks(dataset))
            server.warm(self.benchmark)
            yield checks.measure

    @classmethod
    def tables(cls, records: Iterable[Record]) -> list[Table]:
        return [table for sf, found in _by_dataset(records) for table in tpch.tables(found, sf)]

    @classmethod
    def summary(cls, records: Iterable[Record]) -> list[Table]:
        return [tpch.summary(found, sf) for sf, found in _by_dataset(records)]

    @property
    def selection(self) -> str:
        return f"{self.of_benchmark}SF={self.home.source.scale(self.sf)}"


def _by_dataset(records: Iterable[Record]) -> Iterator[tuple[str, list[Record]]]:
    records = [record for record in records if record.suite == THROUGHPUT]
    for name, sf in sorted({(record.benchmark, record.sf) for record in records}):
        yield sf, of_queries(records, sf, name)


def _has_room_for_two_checks(dataset: Dataset) -> bool:
    facts, size = machine.facts(), sum(chunk.bytes for chunk in dataset.manifest.files)
    return facts["usable"] > 1 and 2 * CHECK_BYTES_PER_DATA_BYTE * size < 1e9 * facts["memory_gb"]


@dataclass
class Checks:
    """The measurement of the cells of a plan, with the comparisons of their answers and digests."""

    plan: Plan
    dataset: Dataset
    server: MeasurementClient
    checks_in_pairs: bool = False
    """Whether the machine has the cores and the memory to check two cells at once."""
    _references: dict[DigestGroup, list[Record]] = field(default_factory=dict)
    """The records of each group that vouch for others: at least one of each engine that was measured."""
    _oracle_replies: dict[tuple[str, str], OracleReply] = field(default_factory=dict)
    _prepared: dict[Cell, CellRequest[Cell] | CellReply] = field(default_factory=dict)
    """The requests of cells whose answers of DuckDB are there, or the replies about cells for which it has none."""

    def __post_init__(self) -> None:
        for name in {cell.workload for cell in self.plan.remaining}:
            workload(self.dataset, name)  # reject unknown workloads before anything is measured
        planned = {(cell.benchmark, cell.query) for cell in self.plan.cells}
        for record in self.plan.done.values():
            if (
                record.suite == THROUGHPUT and (record.benchmark, record.query) in planned
            ):  # the file of another may be gone
                self._remember(record)

    def measure(self, cell: Cell, following: Cell | None) -> list[CellReply]:
        """Measure a cell, and compare its change stream with those of others."""
        reply = self._reply(cell, following if following and self._may_check_beside(cell, following) else None)
        reply = self._judged(cell, reply)
        self._remember(reply.fill(self.plan.blank(cell)))
        return [reply]

    def _may_check_beside(self, cell: Cell, other: Cell) -> bool:
        single = all(each.workers == 1 and capabilities(each.engine).checks_in_pairs for each in (cell, other))
        return self.checks_in_pairs and single and cell not in self._prepared

    def _reply(self, cell: Cell, beside: Cell | None) -> CellReply:
        prepared = self._prepared.pop(cell, None) or self._prepare(cell)
        if isinstance(prepared, CellReply):
            return prepared
        if beside is not None:
            self._prepared[beside] = self._prepare(beside)
        other = self._prepared.get(beside) if beside else None
        reply = self.server.cell(prepared, None if isinstance(other, CellReply) else other)
        once = self._oracle_reply(cell).once if prepared.compare else 0.0
        return replace(reply, figures={"oracle_seconds": [once], **reply.figures}) if once else reply

    def _prepare(self, cell: Cell) -> CellRequest[Cell] | CellReply:
        """Request DuckDB's answers if the cell needs them; return a reply without figures if DuckDB has none."""
        rounds, times = list[int](), list[int]()
        if not self._has_own_reference(self.plan.blank(cell)):
            oracle = self._oracle_reply(cell)
            if oracle.status != "ok":
                return CellReply(status="failed", problem=f"DuckDB's answer: {oracle.problem}")
            rounds, times = self._moments(cell)
        effort = self.plan.effort
        return CellRequest(cell, effort.runs, effort.limit, tuple(rounds), tuple(times))

    def _has_own_reference(self, record: Record) -> bool:
        """Return whether the same engine has a reference: one of another engine does not say who errs."""
        references = self._references.get(_digest_group(record), ())
        return any((each.engine, each.external) == (record.engine, record.external) for each in references)

    def _oracle_reply(self, cell: Cell) -> OracleReply:
        """Request DuckDB's answers to a query at all moments at which any cell of the plan is compared."""
        name = (cell.query, cell.workload)
        if name not in self._oracle_replies or self._oracle_replies[name].status != "ok":
            cells = [each for each in self.plan.cells if (each.query, each.workload) == name]
            rounds = sorted({number for each in cells for number in self._moments(each)[0]})
            inside = sorted({(each.logical, time) for each in cells for time in self._moments(each)[1]})
            single = cell.but(engine=DEFAULT_ENGINE, workers=1)
            self._oracle_replies[name] = self.server.oracle_answers(single, rounds, ORACLE_TIMEOUT_S, inside)
        return self._oracle_replies[name]

    def _moments(self, cell: Cell) -> tuple[list[int], list[int]]:
        """Draw the moments at which a cell is compared: after numbers of rounds, and at logical times inside rounds.

        In a session, all engines have the same times inside rounds.
        """
        work = workload(self.dataset, cell.workload)
        rounds = checkpoints(cell, work, self._chance(cell))
        if not capabilities(cell.engine).has_stream:
            return rounds, []
        stream = Cell(cell.query, cell.sf, cell.workload, cell.logical, benchmark=cell.benchmark)
        return rounds, inner_times(cell, range(work.load_rounds, work.rounds), self._chance(stream))

    def _chance(self, cell: Cell) -> Random:
        return Random(f"{self.plan.origin.session} {cell}")  # noqa: S311 (no secret)

    def _judged(self, cell: Cell, reply: CellReply) -> CellReply:
        """Compare the digest of a reply with those of the references of its group."""
        record = reply.fill(self.plan.blank(cell))
        references = self._references.get(_digest_group(record), ())
        if reply.status != "ok" or not reply.digest or not references:
            return reply
        other = next((each for each in references if each.digest != reply.digest), None)
        if other is not None:
            return replace(reply, status="wrong", problem=_disagreement(record, other, cell))
        return replace(reply, verified=reply.verified or "digest")

    def _remember(self, record: Record) -> None:
        if record.vouches:
            self._references.setdefault(_digest_group(record), []).append(record)


def _digest_group(record: Record) -> DigestGroup:
    """Return the name of the cells that must have the same change stream, of the same data, code and versions."""
    own_stream = record.variant if record.variant in benchmark(record.benchmark).query(record.query).accumulated else ""
    origin = (record.data, record.code, record.versions, str(record.measuring))
    return (*origin, record.query, record.workload, str(record.logical), own_stream)


def _disagreement(record: Record, other: Record, cell: Cell) -> str:
    """Describe two change streams that should be one, and what is known of each."""
    equals = (
        f"equals DuckDB's answers at the times {_listed(record.compared)}, too, so one of the two is wrong elsewhere"
    )
    own = equals if record.vouches else "was not compared with DuckDB's answers"
    external = other.engine if record.engine == DEFAULT_ENGINE else record.engine
    deciding = cell.but(engine=external, variant="", workers=1).command("verify")
    return (
        f"its change stream differs from that of {other.cell}: {record.digest}, not {other.digest}. That one equals "
        f"DuckDB's answers at the times {_listed(other.compared)}. This one {own}. The first difference, and DuckDB's "
        f"answer there:\n  {deciding}"
    )


def _listed(times: Sequence[float]) -> str:
    return ", ".join(map(str, times))
