"""The suite of sharing: all queries in one dataflow beside the same queries alone, and queries that attach to others.

Answers are compared with DuckDB's, in the measured batches, after a random number of rounds and at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from random import Random

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.make import Wanted
from deltamark.datagen.workload import Workload, workload
from deltamark.harness.console.datasets import open_dataset
from deltamark.harness.console.table import Table
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.stats import percentile
from deltamark.harness.results import machine
from deltamark.harness.results.record import Record
from deltamark.harness.results.table_record import Figures, TableRow
from deltamark.harness.suites.graphs.counting import warm
from deltamark.harness.suites.plan import Plan
from deltamark.harness.suites.sharing import attaching, loading
from deltamark.harness.suites.suite import Suite
from deltamark.harness.suites.table_cell import ForkingMeasurer, TableCell, WrongAnswerError, forking
from deltamark.harness.tables.suites.rows import suite_tables
from deltamark.harness.tables.suites.sharing import shared_tables
from deltamark.queries.catalogue import QUERIES, query

DEFAULT_PHYSICAL = (1000, 10_000, 100_000, 1_000_000)
TOGETHER, ALONE = "together", "alone"
NAME, ORACLE = "shared", "oracle"


class SharedQueries:
    """Several queries over the stream of one scale factor, and what the suite measures of them."""

    def __init__(self, directory: Path, names: Sequence[str], sf: str) -> None:
        self._directory = directory
        self._cells = {name: Cell(name, sf) for name in names}

    @cached_property
    def _dataset(self) -> Dataset:
        return Dataset.open(self._directory)

    @cached_property
    def _work(self) -> Workload:
        return workload(self._dataset, "insert")

    @cached_property
    def _plans(self) -> loading.Plans:
        return loading.plans(self._cells, self._dataset, self._work)

    def loads(self, logical: int, physical: int, runs: int) -> Iterator[TableRow]:
        """Load all queries together, and each alone, alternately."""
        drawn = Random(logical * physical).randrange(1, self._work.rounds) // logical * logical  # noqa: S311
        rounds = sorted({max(drawn, logical), self._work.rounds})
        wrong = loading.check(self._cells, self._dataset, self._work, logical, physical, rounds)
        if wrong:
            raise _wrong(wrong, f"in batches of {logical} x {physical}")
        loads = loading.alternate(self._plans, self._dataset, self._work, logical, physical, runs)
        figures: Figures = {
            "tuples": [loads.together.tuples],
            **_figures(TOGETHER, [[each] for each in loads.timed_together], [loads.together]),
            **_figures(ALONE, loads.timed_alone, loads.alone),
        }
        yield TableRow(f"{logical} x {physical}", figures)

    def arrangements(self) -> Iterator[TableRow]:
        shared = loading.shared_arrangements(self._plans, self._dataset, self._work)
        for each in shared or [loading.SharedArrangement("none", (), 0, 0)]:
            yield TableRow(each.name, {"rows": [each.rows], "bytes": [each.size]}, " ".join(each.queries))

    def filters(self) -> Iterator[TableRow]:
        names = "apart", "left", "bytes_apart", "bytes_as_one", "in_vain"
        choices = [
            (name, (each.apart, len(each.filters), each.bytes_apart, each.bytes_as_one, each.in_vain))
            for name, each in loading.choices(self._plans)
        ]
        for name, figures in choices or [("none", (0, 0, 0, 0, 0))]:
            yield TableRow(name, {figure: [value] for figure, value in zip(names, figures, strict=True)})

    def attachments(self) -> Iterator[TableRow]:
        for each in attaching.attachments(self._cells, self._dataset, self._work):
            if each.wrong:
                raise _wrong(f"{each.query}, attached while others run\n{each.wrong}", "compared after all rows")
            figures = {"there": [each.with_arrangements], "others": [each.without], "alone": [each.from_scratch]}
            yield TableRow(each.query, figures)

    def incremental_attachments(self, fuel: int) -> Iterator[TableRow]:
        for each in attaching.incremental_attachments(self._plans, self._dataset, self._work, fuel):
            figures: Figures = {
                "fuel": [fuel],
                "there": [int(each.completed)],
                "batches": [len(each.beside)],
            }
            for name, latencies in (("alone", each.alone), ("beside", each.beside)):
                figures |= {f"{name}_p{percent}": [percentile(latencies, percent)] for percent in (50, 99)}
                figures |= {f"{name}_max": [latencies[-1]]}
            yield TableRow(each.name, figures)


def _wrong(difference: str, place: str) -> WrongAnswerError:
    remedy = f"{place}; python -m harness verify tells whether the query is right alone"
    return WrongAnswerError("a wrong answer", difference, remedy)


def _figures(name: str, timed: Sequence[Sequence[loading.Loaded]], sizes: Sequence[loading.Loaded]) -> Figures:
    """Sum the seconds of loads, run by run, and their state; the peak is that of the largest."""
    return {
        f"{name}_seconds": [sum(each.seconds for each in run) for run in timed],
        f"{name}_rows": [sum(each.state_rows for each in sizes)],
        f"{name}_bytes": [sum(each.state_bytes for each in sizes)],
        f"{name}_peak": [max(each.peak_bytes for each in sizes)],
    }


@dataclass(frozen=True, kw_only=True)
class SharingSuite(Suite):
    NAME = NAME
    TITLE = "Sharing"
    CODE = "suites.sharing"

    sf: Decimal = Decimal("0.01")
    queries: tuple[str, ...] = ()
    logical: tuple[int, ...] = (1,)
    physical: tuple[int, ...] = DEFAULT_PHYSICAL
    fuel: int = 2

    @property
    def _wanted(self) -> Wanted:
        return Wanted(self.data, self.sf, self.master or Wanted.master)

    def make_data(self) -> None:
        open_dataset(self._wanted)

    def cells(self) -> list[TableCell]:
        for name in self.queries:
            query(name)  # raises an error for an unknown name
        directory = self._wanted.directory
        shared = SharedQueries(directory, self.queries or tuple(QUERIES), str(self.sf))
        cell = partial(
            TableCell, NAME, dataset=" ".join([f"SF {self.sf}", *self.queries]), data=machine.data(directory)
        )  # fmt: skip
        return [
            *(
                cell(
                    table="loads", part=f"{logical} x {physical}", verified=ORACLE,
                    measure=partial(shared.loads, logical, physical, self.runs),
                )
                for logical in self.logical for physical in self.physical
            ),
            cell(table="arrangements", part="", measure=shared.arrangements),
            cell(table="filters", part="", measure=shared.filters),
            cell(table="coming", part="", measure=shared.attachments, verified=ORACLE),
            cell(
                table="crowding", part=f"fuel {self.fuel}", measure=partial(shared.incremental_attachments, self.fuel)
            ),
        ]  # fmt: skip

    def measurer(self, plan: Plan) -> AbstractContextManager[ForkingMeasurer]:
        return forking(plan, warm)

    @staticmethod
    def tables(records: Iterable[Record]) -> list[Table]:
        return suite_tables(records, NAME, shared_tables)
