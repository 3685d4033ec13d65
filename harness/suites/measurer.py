"""Measurers: throughput is measured by the measurement server and its answers checked, other goals in a child.

All cells of a query, workload and L have one change stream. The first cell of each engine is compared with DuckDB's
answers, also at drawn times inside batches, and only then is its digest a reference: that of every other cell must be
equal to it. A stream with the changes of a batch at its end has the right answers at the ends of batches, so a
comparison there makes no reference. With enough cores and memory the check of the next cell runs beside that of the
current one; timed runs are always alone.

The cells of other goals are measured by the function of their suite, which checks its answers itself.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from msgspec.structs import replace

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import benchmark
from deltamark.harness.benchmarks.cell import DEFAULT_ENGINE, THROUGHPUT, Cell
from deltamark.harness.check.answers import WrongAnswerError
from deltamark.harness.engines.registry import capabilities
from deltamark.harness.measure.child import LimitError, run_in_child
from deltamark.harness.measure.client import CellReply, CellRequest, OracleReply
from deltamark.harness.measure.windows import checkpoints, inner_times
from deltamark.harness.results.record import Record
from deltamark.harness.suites.plan import Plan
from deltamark.harness.system.clock import control_seconds

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
    _prepared: dict[Cell, CellRequest[Cell] | Record] = field(default_factory=dict)
    """The requests of cells whose answers of DuckDB are there, or the records of cells for which it has none."""

    def __post_init__(self) -> None:
        for name in {cell.workload for cell in self.plan.remaining}:
            workload(self.dataset, name)  # reject unknown workloads before anything is measured
        planned = {(cell.benchmark, cell.query) for cell in self.plan.cells}
        for record in self.plan.done.values():
            if (
                record.suite == THROUGHPUT and (record.benchmark, record.query) in planned
            ):  # the file of another may be gone
                self._remember(record)

    def measure(self, cell: Cell, following: Cell | None) -> list[Record]:
        beside = following if following and self._may_check_beside(cell, following) else None
        record = self._measured(cell, beside)
        self._remember(record)
        return [record]

    def _may_check_beside(self, cell: Cell, other: Cell) -> bool:
        single = all(each.workers == 1 and capabilities(each.engine).checks_in_pairs for each in (cell, other))
        return self.checks_in_pairs and single and cell not in self._prepared

    def _measured(self, cell: Cell, beside: Cell | None) -> Record:
        prepared = self._prepared.pop(cell, None) or self._prepare(cell)
        if isinstance(prepared, Record):
            return prepared
        if beside is not None:
            self._prepared[beside] = self._prepare(beside)
        other = self._prepared.get(beside) if beside else None
        reply = self.service.cell(prepared, None if isinstance(other, Record) else other)
        record = self.plan.blank(cell)
        if prepared.compare and (once := self._oracle_reply(cell).once):
            record = replace(record, figures={"oracle_seconds": [once]})
        record = reply.fill(record)
        return _judged(record, self._references.get(_digest_group(record), ()), cell)

    def _prepare(self, cell: Cell) -> CellRequest[Cell] | Record:
        """Request DuckDB's answers if the cell needs them; return a failed record if DuckDB has none."""
        record, rounds, times = self.plan.blank(cell), list[int](), list[int]()
        if not self._has_own_reference(record):
            reply = self._oracle_reply(cell)
            if reply.status != "ok":
                return replace(record, status="failed", problem=f"DuckDB's answer: {reply.problem}")
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
            self._oracle_replies[name] = self.service.oracle_answers(single, rounds, ORACLE_TIMEOUT_S, inside)
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

    def _remember(self, record: Record) -> None:
        if record.vouches:
            self._references.setdefault(_digest_group(record), []).append(record)


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


class MeasuredSuite(Protocol):
    """The functions of a suite that measure its cells: harness/suites/plan.py."""

    def prepare(self, cell: Cell) -> None: ...

    def measure(self, cell: Cell) -> Iterable[CellReply]: ...


@dataclass(frozen=True)
class ForkingMeasurer:
    """Measures each cell in a child, so that a time-out, a crash or a lack of memory becomes the cell's record."""

    plan: Plan
    suite: MeasuredSuite

    def measure(self, cell: Cell, following: Cell | None) -> list[Record]:  # noqa: ARG002
        control, blank = control_seconds(), self.plan.blank(cell)
        return [replace(reply, control=control).fill(blank) for reply in self._replies(cell)]

    def _replies(self, cell: Cell) -> list[CellReply]:
        try:
            self.suite.prepare(cell)
            gc.freeze()  # a collection in the child would copy the parent's pages
            return run_in_child(lambda _: self._measured(cell), self.plan.effort.limit)
        except LimitError as error:
            return [CellReply(status="timeout", problem=str(error))]
        except (ChildProcessError, DeltamarkError) as error:
            return [CellReply(status="failed", problem=str(error))]
        finally:
            gc.unfreeze()

    def _measured(self, cell: Cell) -> list[CellReply]:
        """Return a reply for each row of the cell, or one without figures."""
        try:
            return [*self.suite.measure(cell)] or [CellReply()]
        except WrongAnswerError as error:
            return [CellReply(status="wrong", problem=str(error))]
        except DeltamarkError as error:
            return [CellReply(status="failed", problem=str(error))]
