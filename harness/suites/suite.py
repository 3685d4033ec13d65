"""The interface of a suite. The fields of a suite's dataclass are its settings on the command line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
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
from deltamark.harness.console.datasets import open_dataset
from deltamark.harness.console.table import Table
from deltamark.harness.measure.windows import rounds_of
from deltamark.harness.results.commits import repository_name
from deltamark.harness.results.record import Origin, Record, dataset_name
from deltamark.harness.suites.plan import CellMeasurer, Effort, Plan
from deltamark.harness.system import machine


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
