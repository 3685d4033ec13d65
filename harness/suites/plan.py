"""The plan of a run, its runner, and the interface of a suite.

A plan has the cells of a suite, the records that make some of them done, and estimates of the rest. The runner measures
the remaining cells in order, stores the records of each and reports them. The fields of a suite's dataclass are its
settings on the command line.
"""

from __future__ import annotations

import datetime as dt
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Protocol, Self

import msgspec
from msgspec.structs import replace

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.make import Wanted
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT, Benchmark, benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.console.progress import open_dataset
from deltamark.harness.console.table import Table
from deltamark.harness.engines.external.named import is_program
from deltamark.harness.engines.registry import external_info
from deltamark.harness.measure.windows import rounds_of
from deltamark.harness.results.commits import repository_name
from deltamark.harness.results.record import Origin, Record, blank_record, dataset_name
from deltamark.harness.system import machine
from deltamark.harness.system.clock import timed


@dataclass(frozen=True)
class Effort:
    """The number of timed runs of a cell, and the limit in seconds: per run (throughput) or per cell (other goals)."""

    runs: int
    limit: float

    def is_met_by(self, record: Record) -> bool:
        if record.status == "timeout":
            return record.limit >= self.limit
        if record.status == "refused":
            return True
        return record.status == "ok" and record.requested_runs >= self.runs


@dataclass(frozen=True)
class Estimate:
    """The estimated seconds of some cells, and the number of cells without an estimate, because no similar cell was
    measured.
    """

    seconds: float
    unmeasured: int
    estimated: int


@dataclass(frozen=True)
class Plan:
    cells: Sequence[Cell]
    known: Sequence[Record]
    """The stored records of the suite, of any data and code."""
    origin: Origin
    effort: Effort
    program_origin: Origin | None = None
    """The origin of the cells of programs that a user provides, if they have a repository of their own."""

    @cached_property
    def done(self) -> dict[str, Record]:
        """The last record of each key, if it took enough effort."""
        last = {record.key: record for record in self.known}
        return {key: record for key, record in last.items() if self.effort.is_met_by(record)}

    @cached_property
    def remaining(self) -> list[Cell]:
        return [cell for cell in self.cells if self.blank(cell).key not in self.done]

    def blank(self, cell: Cell) -> Record:
        return replace(self._blank(cell), requested_runs=self.effort.runs, limit=self.effort.limit)

    def _blank(self, cell: Cell) -> Record:
        own = self.program_origin if is_program(cell.engine) else None
        return blank_record(cell, own or self.origin, external_info(cell.engine))

    def estimate(self, cells: Iterable[Cell], measured: Sequence[Record] = ()) -> Estimate:
        """Estimate the time of cells: their last time, else the mean of similar cells, else the default of the suite,
        else the mean of this run.

        measured: a record of each cell of this run, which are not among the known ones.
        """
        durations = _Durations([*self.known, *measured])
        mean = math.fsum(record.elapsed for record in measured) / len(measured) if measured else None
        guesses = [durations.guess(self._blank(cell)) for cell in cells]
        known = [guess for guess in (mean if guess is None else guess for guess in guesses) if guess is not None]
        return Estimate(sum(known), len(guesses) - len(known), len(known))


class _Durations:
    """The durations of measured cells, alone and by groups of similar cells."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._cells: dict[str, float] = {}
        self._groups: dict[tuple[str, ...], list[float]] = {}
        for record in records:
            self._cells[record.cell] = record.elapsed
            for group in record.estimate_groups:
                self._groups.setdefault(group, []).append(record.elapsed)

    def guess(self, record: Record) -> float | None:
        if record.cell in self._cells:
            return self._cells[record.cell]
        for group in record.estimate_groups:
            if durations := self._groups.get(group):
                return math.fsum(durations) / len(durations)
        return record.default_estimate


class CellMeasurer(Protocol):
    def measure(self, cell: Cell, following: Cell | None) -> Sequence[Record]:
        """Measure a cell; return its records, at least one.

        following: the next cell of the run, whose check may run beside that of this one.
        """
        ...


class RecordSink(Protocol):
    """The destination of records: harness/results/store.py."""

    def take_stop(self) -> bool: ...

    def add(self, records: Sequence[Record]) -> None: ...


class RunObserver(Protocol):
    """Reports the progress of a run: harness/suites/reporter.py."""

    def on_begin(self, cell: Record) -> None: ...

    def on_records(self, records: Sequence[Record], remaining: int, estimate: Estimate) -> None: ...


@dataclass
class Runner:
    plan: Plan
    measurer: CellMeasurer
    sink: RecordSink
    observer: RunObserver
    measured: list[Sequence[Record]] = field(default_factory=list)
    """The records of each cell of this run."""

    def run(self) -> None:
        """Measure the remaining cells until all are done or a file STOP appears."""
        cells = self.plan.remaining
        for number, cell in enumerate(cells, 1):
            if self.sink.take_stop():
                return
            self.observer.on_begin(self.plan.blank(cell))
            rest = cells[number:]
            records = self._records(cell, rest[0] if rest else None)
            self.measured.append(records)
            self.sink.add(records)
            self.observer.on_records(
                records, len(rest), self.plan.estimate(rest, [first for first, *_ in self.measured])
            )

    def _records(self, cell: Cell, following: Cell | None) -> list[Record]:
        elapsed, records = timed(lambda: self.measurer.measure(cell, following))
        finished_at = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
        return [replace(record, elapsed=elapsed, finished_at=finished_at) for record in records]


def refuse_others(suite: str, settings: Iterable[str], given: Iterable[str]) -> None:
    """Raise an error if a suite lacks one of the given settings."""
    for name in {*given} - {*settings}:
        known = ", ".join(sorted(each.upper() for each in settings))
        raise DeltamarkError(f"no setting of the suite {suite}", name.upper(), f"it has {known}")


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Queries of a benchmark at a scale factor. Without queries: all."""

    benchmark: str = DEFAULT
    sf: Decimal = Decimal("0.01")
    queries: tuple[str, ...] = ()

    @property
    def home(self) -> Benchmark:
        return benchmark(self.benchmark)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the queries; an unknown one raises an error."""
        for name in self.queries:
            self.home.query(name)
        return self.queries or tuple(self.home.queries)

    @property
    def dataset(self) -> str:
        """The name of the data in records and tables."""
        return dataset_name(self.benchmark, str(self.home.source.scale(self.sf)))

    def cell(self, name: str, workload: str = "") -> Cell:
        """Return the cell of a query, in rounds of their own and one batch."""
        scale = self.home.source.scale(self.sf)
        return Cell(name, str(scale), workload or self.home.workload, benchmark=self.benchmark)


@dataclass(frozen=True, kw_only=True)
class Suite(ABC):
    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    """The heading in docs/results.md."""
    CODE: ClassVar[str]
    """The package of the harness whose code takes part in the suite's numbers, beside machine.MEASURED."""

    data: Path = Path("data")
    master: str = ""
    runs: int = 3
    timeout: float = 600.0

    @classmethod
    def settings(cls) -> set[str]:
        return {each.name for each in fields(cls)}

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Self:
        """Return the suite with the given settings; raise an error if it lacks one of them."""
        refuse_others(cls.NAME, cls.settings(), given)
        return msgspec.convert(given, cls)

    @abstractmethod
    def make_data(self) -> None:
        """Generate the missing data."""

    @abstractmethod
    def cells(self) -> Sequence[Cell]:
        """List the cells, whether or not their data exists; raise an error for a wrong name in the settings."""

    def headline(self, plan: Plan) -> str:
        """Describe the cells of a plan."""
        return f"suite {self.NAME}: {len(plan.cells)} cells"

    @abstractmethod
    def measurer(self, plan: Plan) -> AbstractContextManager[CellMeasurer]:
        """Open the measurer of the cells of a plan."""

    @classmethod
    @abstractmethod
    def tables(cls, records: Iterable[Record]) -> list[Table]:
        """Make the tables of the suite's records; records of other suites are ignored."""

    @classmethod
    def summary(cls, records: Iterable[Record]) -> list[Table]:
        """Make the tables that a run ends with; a suite with many tables has a short one."""
        return cls.tables(records)

    @property
    def selection(self) -> str:
        """The setting with which other commands find the records of the suite."""
        return f"SUITE={self.NAME}"

    def plan(self, known: Sequence[Record], session: str = "", repository: Path | None = None) -> Plan:
        """Return the plan of all cells.

        known: the records of this machine. repository: that of the measured programs, if they have one of their own.
        Each of its commits has cells of its own.
        """
        origin = Origin(machine.code(self.CODE), machine.versions(), machine.commit(), session)
        of_programs = None
        if repository is not None:
            commit, name = machine.commit(repository), repository_name(repository)
            of_programs = replace(origin, code=f"{origin.code} {commit}", commit=commit, repository=name)
        of_suite = [record for record in known if record.suite == self.NAME]
        return Plan(self.cells(), of_suite, origin, Effort(self.runs, self.timeout), of_programs)


@dataclass(frozen=True, kw_only=True)
class DataSuite(Selection, Suite):
    """A suite over the data of a benchmark."""

    @property
    def _wanted(self) -> Wanted:
        workloads, source = vars(self).get("workload", ()), self.home.source
        return Wanted(self.data, self.sf, self.master or Wanted.master, workloads=workloads, source=source)

    def make_data(self) -> None:
        open_dataset(self._wanted)

    def _rounds(self) -> Callable[[Cell], int] | None:
        """Return the function that counts the rounds of a cell, if the data exists."""
        directory = self._wanted.directory
        return rounds_of(Dataset.open(directory)) if machine.data(directory) else None
