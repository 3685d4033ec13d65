"""Suites and their runner: the cells of a goal, the function that measures one, and their tables.

A suite lists its cells, and makes a reply for each row of a cell. `Runner` measures the cells that remain in a plan one
after another, whatever their suite: it stops at a file STOP, and stores and reports the records of each cell. The
fields of a suite's dataclass are its settings on the command line.

A cell is measured in a child process by a `Measure`. There are two of these functions, because two processes fork
children. `in_children` forks them from the process of the command, where a suite has read what its cells share. A cell
for throughput is a child of the measurement server (harness/measure/server.py), which has a process of its own: the
published peak of a child counts the memory that it inherits. The command holds all stored records and, after it has
made data, a connection to Spark; the server holds data and kernels alone.
"""

from __future__ import annotations

import datetime as dt
import gc
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields
from decimal import Decimal
from pathlib import Path
from typing import ClassVar, Self

import msgspec
from msgspec.structs import replace

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.make import Wanted
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.benchmark import DEFAULT, Benchmark, benchmark
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.console.progress import open_dataset
from deltamark.harness.console.table import Table, counted
from deltamark.harness.engines.base import REFUSALS, first_line
from deltamark.harness.engines.registry import capabilities, external_info
from deltamark.harness.measure.child import LimitError, run_in_child
from deltamark.harness.measure.client import CellReply
from deltamark.harness.measure.windows import rounds_of
from deltamark.harness.results.commits import repository_name
from deltamark.harness.results.record import REFUSED, Origin, Record, dataset_name
from deltamark.harness.results.store import Writer
from deltamark.harness.suites.graphs.counting import warm
from deltamark.harness.suites.plan import Effort, Plan
from deltamark.harness.suites.reporter import Reporter
from deltamark.harness.system import machine
from deltamark.harness.system.clock import control_seconds, timed
from deltamark.harness.tables.suites import MakeTables, suite_tables

Measure = Callable[[Cell, Cell | None], Sequence[CellReply]]
"""Measures a cell; returns a reply for each row of its table, at least one. The second cell is the next one of the run,
whose check may run beside that of the first."""


def in_children(suite: TableSuite, limit: float) -> Measure:
    """Return a function that measures each cell of a suite in a child of this process, which ends alone if it fails.

    limit: seconds for a cell.
    """

    def replies(cell: Cell) -> list[CellReply]:
        try:
            return [*suite.measure(cell)] or [CellReply()]
        except REFUSALS as error:
            return [CellReply(note=REFUSED + first_line(error))]
        except DeltamarkError as error:
            return [CellReply.of(error)]

    def measure(cell: Cell, following: Cell | None) -> list[CellReply]:  # noqa: ARG001
        control = control_seconds()
        try:
            suite.prepare(cell)
            gc.freeze()  # a collection in the child would copy the parent's pages
            found = run_in_child(lambda _: replies(cell), limit)
        except (LimitError, ChildProcessError, DeltamarkError) as error:
            found = [CellReply.of(error)]
        finally:
            gc.unfreeze()
        return [replace(reply, control=control) for reply in found]

    return measure


@dataclass
class Runner:
    """Measures the remaining cells of a plan, and stores and reports their records."""

    plan: Plan
    measure: Measure
    sink: Writer
    reporter: Reporter
    measured: list[Sequence[Record]] = field(default_factory=list)
    """The records of each cell of this run."""

    def run(self) -> None:
        """Measure the remaining cells until all are done or a file STOP appears."""
        cells = self.plan.remaining
        for number, cell in enumerate(cells, 1):
            if self.sink.take_stop():
                return
            self.reporter.on_begin(self.plan.blank(cell))
            rest = cells[number:]
            records = self._records(cell, rest[0] if rest else None)
            self.measured.append(records)
            self.sink.add(records)
            estimate = self.plan.estimate(rest, [first for first, *_ in self.measured])
            self.reporter.on_records(records, len(rest), estimate)

    def _records(self, cell: Cell, following: Cell | None) -> list[Record]:
        elapsed, replies = timed(lambda: self.measure(cell, following))
        finished_at = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
        blank = replace(self.plan.blank(cell), elapsed=elapsed, finished_at=finished_at)
        return [reply.fill(blank) for reply in replies]


def refuse_others(suite: str, settings: Iterable[str], given: Iterable[str]) -> None:
    """Raise an error if a suite lacks one of the given settings."""
    for name in {*given} - {*settings}:
        known = ", ".join(sorted(each.upper() for each in settings))
        raise DeltamarkError(f"no setting of the suite {suite}", name.upper(), f"it has {known}")


def benchmark_setting(name: str) -> str:
    """Return the setting of a benchmark, followed by a blank, or nothing for the default one."""
    return "" if name == DEFAULT else f"BENCHMARK={shlex.quote(name)} "


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
    CODE: ClassVar[str]
    """The package of the harness whose code takes part in the suite's numbers, beside machine.MEASURED."""

    READS: ClassVar[Collection[str]] = ()
    """Other suites whose records take part in the tables."""

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
        try:
            return msgspec.convert(given, cls)
        except msgspec.ValidationError as error:
            remedy = "bench --help says which values it takes"
            raise DeltamarkError(f"no value of a setting of the suite {cls.NAME}", error, remedy) from error

    @abstractmethod
    def make_data(self) -> None:
        """Generate the missing data."""

    @abstractmethod
    def cells(self) -> Sequence[Cell]:
        """List the cells, whether or not their data exists; raise an error for a wrong name in the settings."""

    def headline(self, plan: Plan) -> str:
        """Describe the cells of a plan."""
        return f"suite {self.NAME}: {counted(len(plan.cells), 'cell')}"

    @abstractmethod
    def measuring(self, plan: Plan) -> AbstractContextManager[Measure]:
        """Open the function that measures the cells of a plan."""

    @classmethod
    @abstractmethod
    def tables(cls, records: Iterable[Record]) -> list[Table]:
        """Make the tables of the suite's records; records of other suites are ignored."""

    @classmethod
    def summary(cls, records: Iterable[Record]) -> list[Table]:
        """Make the tables that a run ends with; a suite with many tables has a short one."""
        return cls.tables(records)

    @property
    def of_benchmark(self) -> str:
        """The setting of the benchmark, followed by a blank, or nothing for a suite without one."""
        return ""

    @property
    def selection(self) -> str:
        """The settings with which other commands find the records of the suite."""
        return f"{self.of_benchmark}SUITE={self.NAME}"

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
class TableSuite(Suite):
    """A suite whose cells are each measured in a child of this process, and yield the rows of its tables."""

    MAKE_TABLES: ClassVar[MakeTables]

    def prepare(self, cell: Cell) -> None:
        """Read and cache the data that several cells share. Runs in this process."""
        del cell  # most suites share none

    @abstractmethod
    def measure(self, cell: Cell) -> Iterable[CellReply]:
        """Measure a cell: yield a reply for each row, or raise an error. Runs in the child."""

    @contextmanager
    def measuring(self, plan: Plan) -> Iterator[Measure]:
        warm()
        yield in_children(self, plan.effort.limit)

    @classmethod
    def tables(cls, records: Iterable[Record]) -> list[Table]:
        return suite_tables(records, cls.NAME, cls.MAKE_TABLES)


@dataclass(frozen=True, kw_only=True)
class DataSuite(Selection, Suite):
    """A suite over the data of a benchmark."""

    @property
    def _wanted(self) -> Wanted:
        workloads, source = vars(self).get("workload", ()), self.home.source
        return Wanted(self.data, self.sf, self.master or Wanted.master, workloads=workloads, source=source)

    @property
    def of_benchmark(self) -> str:
        return benchmark_setting(self.benchmark) if "benchmark" in self.settings() else ""

    def make_data(self) -> None:
        open_dataset(self._wanted)

    def _rounds(self) -> Callable[[Cell], int] | None:
        """Return the function that counts the rounds of a cell, if the data exists."""
        directory = self._wanted.directory
        return rounds_of(Dataset.open(directory)) if machine.data(directory) else None

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
