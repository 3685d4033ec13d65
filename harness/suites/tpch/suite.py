"""The suite of a benchmark: queries, workloads, batchings, workers and engines over one scale factor.

Each cell is measured in a child of the measurement server, and its answers are checked. All cells of a query, workload
and L have one change stream. The first cell of each engine is compared with DuckDB's answers, also at drawn times
inside batches, and only then is its digest a reference: that of every other cell must be equal to it. A stream with the
changes of a batch at its end has the right answers at the ends of batches, so a comparison there makes no reference.
With enough cores and memory the check of the next cell runs beside that of the current one; timed runs are always
alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from msgspec.structs import replace

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import workload
from deltamark.harness.benchmarks.benchmark import DEFAULT, benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.console.table import Table
from deltamark.harness.engines.plans import specified_plan
from deltamark.harness.engines.registry import DEFAULT as DEFAULT_ENGINE
from deltamark.harness.engines.registry import capabilities
from deltamark.harness.measure.client import CellReply, CellRequest, MeasurementClient, OracleReply, ServerSpec
from deltamark.harness.measure.windows import checkpoints, inner_times, rounds_of
from deltamark.harness.results.record import TPCH, Record, of_queries
from deltamark.harness.suites.plan import BenchmarkCell, Plan
from deltamark.harness.suites.suite import DataSuite
from deltamark.harness.suites.tpch.grid import GridSettings, SampledCell, grid_cells
from deltamark.harness.system import machine
from deltamark.harness.tables import tpch

DigestGroup = tuple[str, ...]

ORACLE_TIMEOUT_S = 1800.0
"""The time for all answers of DuckDB to a query over a workload; not measured."""


class MeasurementService(Protocol):
    """The client of the measurement server: harness/measure/client.py."""

    def oracle_answers(
        self, cell: Cell, rounds: Sequence[int], limit: float, moments: Sequence[tuple[int, int]] = ()
    ) -> OracleReply: ...

    def cell(self, request: CellRequest[Cell], beside: CellRequest[Cell] | None = None) -> CellReply: ...


@dataclass
class CheckedMeasurer:
    plan: Plan
    dataset: Dataset
    service: MeasurementService
    checks_in_pairs: bool = False
    """Whether the machine has the cores and the memory to check two cells at once."""
    _references: dict[DigestGroup, list[Record]] = field(default_factory=dict)
    """The records of each group that vouch for others: at least one of each engine that was measured."""
    _oracle_replies: dict[tuple[str, str], OracleReply] = field(default_factory=dict)
    _prepared: dict[SampledCell, CellRequest[Cell] | Record] = field(default_factory=dict)
    """The requests of cells whose answers of DuckDB are there, or the records of cells for which it has none."""

    def __post_init__(self) -> None:
        for name in {cell.cell.workload for cell in self._cells(self.plan.remaining)}:
            workload(self.dataset, name)  # reject unknown workloads before anything is measured
        planned = {(cell.cell.benchmark, cell.cell.query) for cell in self._cells(self.plan.cells)}
        for record in self.plan.done.values():
            if record.suite == TPCH and (record.benchmark, record.query) in planned:  # the file of another may be gone
                self._remember(record)

    def measure(self, cell: BenchmarkCell, following: BenchmarkCell | None) -> list[Record]:
        assert isinstance(cell, SampledCell)
        assert isinstance(following, SampledCell | None)
        beside = following if following and self._may_check_beside(cell, following) else None
        record = self._measured(cell, beside)
        self._remember(record)
        return [record]

    def _may_check_beside(self, cell: SampledCell, other: SampledCell) -> bool:
        cells = (cell.cell, other.cell)
        single = all(each.workers == 1 and capabilities(each.engine).checks_in_pairs for each in cells)
        return self.checks_in_pairs and single and cell not in self._prepared

    def _measured(self, cell: SampledCell, beside: SampledCell | None) -> Record:
        prepared = self._prepared.pop(cell, None) or self._prepare(cell)
        if isinstance(prepared, Record):
            return prepared
        if beside is not None:
            self._prepared[beside] = self._prepare(beside)
        other = self._prepared.get(beside) if beside else None
        reply = self.service.cell(prepared, None if isinstance(other, Record) else other)
        record = self.plan.blank(cell)
        if prepared.compare and (once := self._oracle_reply(cell.cell).once):
            record = replace(record, figures={"oracle_seconds": [once]})
        record = reply.fill(record)
        return _judged(record, self._references.get(_digest_group(record), ()), cell.cell)

    def _prepare(self, cell: SampledCell) -> CellRequest[Cell] | Record:
        """Request DuckDB's answers if the cell needs them; return a failed record if DuckDB has none."""
        record, rounds, times = self.plan.blank(cell), list[int](), list[int]()
        if not self._has_own_reference(record):
            reply = self._oracle_reply(cell.cell)
            if reply.status != "ok":
                return replace(record, status="failed", problem=f"DuckDB's answer: {reply.problem}")
            rounds, times = self._moments(cell)
        effort = self.plan.effort
        return CellRequest(cell.cell, cell.sample, effort.runs, effort.limit, tuple(rounds), tuple(times))

    def _has_own_reference(self, record: Record) -> bool:
        """Return whether the same engine has a reference: one of another engine does not say who errs."""
        references = self._references.get(_digest_group(record), ())
        return any((each.engine, each.external) == (record.engine, record.external) for each in references)

    def _oracle_reply(self, cell: Cell) -> OracleReply:
        """Request DuckDB's answers to a query at all moments at which any cell of the plan is compared."""
        name = (cell.query, cell.workload)
        if name not in self._oracle_replies or self._oracle_replies[name].status != "ok":
            cells = [each for each in self._cells(self.plan.cells) if (each.cell.query, each.cell.workload) == name]
            rounds = sorted({number for each in cells for number in self._moments(each)[0]})
            inside = sorted({(each.cell.logical, time) for each in cells for time in self._moments(each)[1]})
            single = cell.but(engine=DEFAULT_ENGINE, workers=1)
            self._oracle_replies[name] = self.service.oracle_answers(single, rounds, ORACLE_TIMEOUT_S, inside)
        return self._oracle_replies[name]

    def _moments(self, sampled: SampledCell) -> tuple[list[int], list[int]]:
        """Draw the moments at which a cell is compared: after numbers of rounds, and at logical times inside rounds.

        In a session, all engines have the same times inside rounds.
        """
        cell = sampled.cell
        work = workload(self.dataset, cell.workload)
        rounds = checkpoints(cell, sampled.sample, work, self._chance(cell))
        if not capabilities(cell.engine).has_stream:
            return rounds, []
        stream = Cell(cell.query, cell.sf, cell.workload, cell.logical, benchmark=cell.benchmark)
        return rounds, inner_times(cell, range(work.load_rounds, work.rounds), self._chance(stream))

    def _chance(self, cell: Cell) -> Random:
        return Random(f"{self.plan.origin.session} {cell}")  # noqa: S311 (no secret)

    def _remember(self, record: Record) -> None:
        if record.vouches:
            self._references.setdefault(_digest_group(record), []).append(record)

    @staticmethod
    def _cells(cells: Iterable[BenchmarkCell]) -> list[SampledCell]:
        return [cell for cell in cells if isinstance(cell, SampledCell)]


def _digest_group(record: Record) -> DigestGroup:
    """Return the name of the cells that must have the same change stream, of the same data, code and versions."""
    own_stream = record.variant if record.variant in benchmark(record.benchmark).query(record.query).accumulated else ""
    origin = (record.data, record.code, record.versions, str(record.measuring))
    return (*origin, record.query, record.workload, str(record.logical), own_stream)


def _judged(record: Record, references: Sequence[Record], cell: Cell) -> Record:
    """Compare the digest of a record with those of the references of its group."""
    if record.status != "ok" or not record.digest or not references:
        return record
    other = next((each for each in references if each.digest != record.digest), None)
    if other is not None:
        return replace(record, status="wrong", problem=_disagreement(record, other, cell))
    return replace(record, verified=record.verified or "digest")


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


CHECK_BYTES_PER_DATA_BYTE = 4
"""The memory of a check relative to its data; a generous estimate, not measured."""


@dataclass(frozen=True, kw_only=True)
class TpchSuite(GridSettings, DataSuite):
    NAME = TPCH
    TITLE = "TPC-H"
    CODE = "suites.tpch"

    def cells(self) -> Sequence[SampledCell]:
        directory = self._wanted.directory
        rounds = rounds_of(Dataset.open(directory)) if machine.data(directory) else None
        cells = grid_cells(self, machine.data(directory), rounds)
        files = {each.cell.query: each.cell for each in cells if each.cell.query not in self.home.queries}
        for each in files.values() if self.home.source.specification(self.sf, "insert") else ():
            specified_plan(each)  # a mistake in a file is one error, before any data is made
        return cells

    def headline(self, plan: Plan) -> str:
        """Describe the cells, such as `484 cells = 22 queries x 22 batchings`."""
        cells = [cell.cell for cell in plan.cells if isinstance(cell, SampledCell)]
        queries = len({cell.query for cell in cells})
        batchings = len({(c.workload, c.engine, c.logical, c.physical, c.workers) for c in cells})
        exactly = "=" if queries * batchings == len(cells) else "of"
        return f"{len(cells)} cells {exactly} {queries} queries x {batchings} batchings"

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
        named = "" if self.benchmark == DEFAULT else f"BENCHMARK={shlex.quote(self.benchmark)} "
        return f"{named}SF={self.home.source.scale(self.sf)}"


def _by_dataset(records: Iterable[Record]) -> Iterator[tuple[str, list[Record]]]:
    records = [record for record in records if record.suite == TPCH]
    for name, sf in sorted({(record.benchmark, record.sf) for record in records}):
        yield sf, of_queries(records, sf, name)


def _has_room_for_two_checks(dataset: Dataset) -> bool:
    facts, size = machine.facts(), sum(chunk.bytes for chunk in dataset.manifest.files)
    return facts["usable"] > 1 and 2 * CHECK_BYTES_PER_DATA_BYTE * size < 1e9 * facts["memory_gb"]
