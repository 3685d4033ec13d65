"""The measurer of TPC-H: each cell is measured in a child of the measurement server, and its answers are checked.

The first cell of a query, workload and L is compared with DuckDB's answers at several rounds; the digest of every other
one must equal the digest of the first. With enough cores and memory the check of the next cell runs beside that of the
current one; timed runs are always alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from msgspec.structs import replace

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import workload
from deltamark.harness.engines.registry import DEFAULT, capabilities
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.messages import CellReply, CellRequest, OracleReply
from deltamark.harness.measure.windows import checkpoints
from deltamark.harness.results.record import QueryRecord, Record
from deltamark.harness.suites.plan import BenchmarkCell, Plan
from deltamark.harness.suites.tpch.grid import SampledCell
from deltamark.queries.catalogue import query

DigestGroup = tuple[str, ...]

ORACLE_TIMEOUT_S = 600.0


class MeasurementService(Protocol):
    """The client of the measurement server: harness/measure/client.py."""

    def oracle_answers(self, cell: Cell, rounds: list[int], limit: float) -> OracleReply: ...

    def cell(self, request: CellRequest[Cell], beside: CellRequest[Cell] | None = None) -> CellReply: ...


@dataclass(frozen=True)
class PreparedCell:
    """The blank record of a cell, and the request that measures it."""

    record: QueryRecord
    request: CellRequest[Cell]


@dataclass
class CheckedMeasurer:
    plan: Plan
    dataset: Dataset
    service: MeasurementService
    checks_in_pairs: bool = False
    """Whether the machine has the cores and the memory to check two cells at once."""
    _checked: dict[DigestGroup, QueryRecord] = field(default_factory=dict)
    """The first record of each group whose answers were compared with DuckDB's."""
    _oracle_replies: dict[tuple[str, str], OracleReply] = field(default_factory=dict)
    _prepared: dict[SampledCell, PreparedCell | QueryRecord] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in {cell.cell.workload for cell in self._cells(self.plan.remaining)}:
            workload(self.dataset, name)  # reject unknown workloads before anything is measured
        planned = {cell.cell.query for cell in self._cells(self.plan.cells)}
        for record in self.plan.done.values():
            if isinstance(record, QueryRecord) and record.query in planned:  # the file of another may be gone
                self._remember(record)

    def measure(self, cell: BenchmarkCell, following: BenchmarkCell | None) -> Record:
        assert isinstance(cell, SampledCell)
        assert isinstance(following, SampledCell | None)
        beside = following if following and self._may_check_beside(cell, following) else None
        record = self._measured(cell, beside)
        self._remember(record)
        return record

    def _may_check_beside(self, cell: SampledCell, other: SampledCell) -> bool:
        cells = (cell.cell, other.cell)
        single = all(each.workers == 1 and capabilities(each.engine).checks_in_pairs for each in cells)
        return self.checks_in_pairs and single and cell not in self._prepared

    def _measured(self, cell: SampledCell, beside: SampledCell | None) -> QueryRecord:
        prepared = self._prepared.pop(cell, None) or self._prepare(cell)
        if isinstance(prepared, QueryRecord):
            return prepared
        if beside is not None:
            self._prepared[beside] = self._prepare(beside)
        other = self._prepared.get(beside) if beside else None
        reply = self.service.cell(prepared.request, other.request if isinstance(other, PreparedCell) else None)
        record = reply.fill(prepared.record)
        return _judged(record, self._checked.get(_digest_group(record)), cell.cell)

    def _prepare(self, cell: SampledCell) -> PreparedCell | QueryRecord:
        """Request DuckDB's answers if the cell needs them; return a failed record if DuckDB has none."""
        record = self.plan.blank(cell)
        assert isinstance(record, QueryRecord)
        compared: list[int] = []
        if _digest_group(record) not in self._checked or not capabilities(cell.cell.engine).has_stream:
            reply = self._oracle_reply(cell.cell)
            if reply.status != "ok":
                return replace(record, status="failed", problem=f"DuckDB's answer: {reply.problem}")
            record, compared = replace(record, oracle_seconds=reply.once), self._checkpoints(cell)
        effort = self.plan.effort
        return PreparedCell(record, CellRequest(cell.cell, cell.sample, effort.runs, effort.limit, tuple(compared)))

    def _oracle_reply(self, cell: Cell) -> OracleReply:
        """Request DuckDB's answers to a query at all rounds at which any cell of the plan is compared."""
        name = (cell.query, cell.workload)
        if name not in self._oracle_replies or self._oracle_replies[name].status != "ok":
            cells = [each for each in self._cells(self.plan.cells) if (each.cell.query, each.cell.workload) == name]
            rounds = sorted({number for each in cells for number in self._checkpoints(each)})
            single = cell.but(engine=DEFAULT, workers=1)
            self._oracle_replies[name] = self.service.oracle_answers(single, rounds, ORACLE_TIMEOUT_S)
        return self._oracle_replies[name]

    def _checkpoints(self, cell: SampledCell) -> list[int]:
        return checkpoints(cell.cell, cell.sample, workload(self.dataset, cell.cell.workload))

    def _remember(self, record: Record) -> None:
        if isinstance(record, QueryRecord) and record.status == "ok" and record.verified == "oracle" and record.digest:
            self._checked.setdefault(_digest_group(record), record)

    @staticmethod
    def _cells(cells: Iterable[BenchmarkCell]) -> list[SampledCell]:
        return [cell for cell in cells if isinstance(cell, SampledCell)]


def _digest_group(record: QueryRecord) -> DigestGroup:
    """Return the name of the cells that must have the same change stream, of the same data, code and versions."""
    own_stream = record.variant if record.variant in query(record.query).accumulated else ""
    origin = (record.data, record.code, record.versions, str(record.measuring))
    return (*origin, record.query, record.workload, str(record.logical), own_stream)


def _judged(record: QueryRecord, checked: QueryRecord | None, cell: Cell) -> QueryRecord:
    """Compare the digest of a record with that of the checked one of its group."""
    if record.status != "ok" or checked is None or not record.digest:
        return record
    if record.digest != checked.digest:
        problem = f"its change stream differs from that of {checked.cell}: {record.digest}, not {checked.digest}\n  "
        problem += cell.command("changes", "--digest")
        return replace(record, status="wrong", problem=problem)
    return replace(record, verified=record.verified or "digest")
