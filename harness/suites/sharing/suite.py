"""The suite of sharing: all queries in one dataflow beside the same queries alone, and how one comes while others run.

Answers are compared with DuckDB's in the batches that are measured, after a random number of rounds and at the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from random import Random

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workload import Workload, workload
from deltamark.harness.cli.data.data import ensure
from deltamark.harness.cli.options import data_request
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.stats import percentile
from deltamark.harness.results import machine
from deltamark.harness.results.finding import Figures, Finding, Task
from deltamark.harness.suites.run import WrongError
from deltamark.harness.suites.sharing import runs as shared
from deltamark.queries.catalogue import QUERIES, query

DEFAULT_PHYSICAL = (1000, 10_000, 100_000, 1_000_000)
TOGETHER, ALONE = "together", "alone"
ORACLE = "oracle"


class All:
    """All queries that are asked for, over the rows of one scale factor."""

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
    def _plans(self) -> shared.Plans:
        return shared.plans(self._cells, self._dataset, self._work)

    def loads(self, logical: int, physical: int, runs: int) -> Iterator[Finding]:
        """Load all together, and each alone, by turns."""
        drawn = Random(logical * physical).randrange(1, self._work.rounds) // logical * logical  # noqa: S311
        rounds = sorted({max(drawn, logical), self._work.rounds})
        wrong = shared.check(self._cells, self._dataset, self._work, logical, physical, rounds)
        if wrong:
            raise _wrong(wrong, f"in batches of {logical} x {physical}")
        turns = shared.by_turns(self._plans, self._dataset, self._work, logical, physical, runs)
        figures: Figures = {
            "tuples": [turns.together.tuples],
            **_figures(TOGETHER, [[each] for each in turns.timed_together], [turns.together]),
            **_figures(ALONE, turns.timed_alone, turns.alone),
        }
        yield Finding(f"{logical} x {physical}", figures, verified=ORACLE)

    def arrangements(self) -> Iterator[Finding]:
        found = shared.sharing(self._plans, self._dataset, self._work)
        for each in found or [shared.Shared("none", (), 0, 0)]:
            yield Finding(each.what, {"rows": [each.rows], "bytes": [each.size]}, said=" ".join(each.queries))

    def filters(self) -> Iterator[Finding]:
        names = "apart", "left", "bytes_apart", "bytes_as_one", "in_vain"
        weighed = [
            (what, (each.apart, len(each.filters), each.bytes_apart, each.bytes_as_one, each.wasted_probes))
            for what, each in shared.choices(self._plans)
        ]
        for what, figures in weighed or [("none", (0, 0, 0, 0, 0))]:
            yield Finding(what, {name: [figure] for name, figure in zip(names, figures, strict=True)})

    def coming(self) -> Iterator[Finding]:
        for each in shared.coming(self._cells, self._dataset, self._work):
            if each.wrong:
                raise _wrong(f"{each.query}, come while others run\n{each.wrong}", "compared with all rows there")
            figures = {"there": [each.with_arrangements], "others": [each.without], "alone": [each.from_scratch]}
            yield Finding(each.query, figures, verified=ORACLE)

    def crowding(self, fuel: int) -> Iterator[Finding]:
        for each in shared.backfill_interference(self._plans, self._dataset, self._work, fuel):
            figures: Figures = {
                "fuel": [fuel],
                "there": [int(each.there)],
                "batches": [len(each.beside)],
            }
            for name, took in (("alone", each.alone), ("beside", each.beside)):
                figures |= {f"{name}_p{point}": [percentile(took, point)] for point in (50, 99)}
                figures |= {f"{name}_max": [took[-1]]}
            yield Finding(each.what, figures)


def _wrong(what: str, where: str) -> WrongError:
    return WrongError("a wrong answer", what, f"{where}; python -m harness verify says if it is right alone")


def _figures(name: str, timed: Sequence[Sequence[shared.Load]], kept: Sequence[shared.Load]) -> Figures:
    """Add up what loads took, run by run, and what they kept; the peak is that of the largest."""
    return {
        f"{name}_seconds": [sum(each.seconds for each in run) for run in timed],
        f"{name}_rows": [sum(each.state_rows for each in kept)],
        f"{name}_bytes": [sum(each.state_bytes for each in kept)],
        f"{name}_peak": [max(each.peak_bytes for each in kept)],
    }


def make(chosen: argparse.Namespace) -> None:
    """Generate the rows, if they are not there."""
    _check(chosen.queries)
    ensure(chosen)


def tasks(chosen: argparse.Namespace) -> list[Task]:
    """List the cells of the suite."""
    _check(chosen.queries)
    directory = data_request(chosen).directory
    names = chosen.queries or tuple(QUERIES)
    of = " ".join([f"SF {chosen.sf}", *(chosen.queries and names)])
    data = machine.data(directory)
    all_ = All(directory, names, str(chosen.sf))
    batches = [
        (logical, physical) for logical in chosen.logical or (1,) for physical in chosen.physical or DEFAULT_PHYSICAL
    ]
    return [
        *(
            Task("loads", of, f"{logical} x {physical}", data, partial(all_.loads, logical, physical, chosen.runs))
            for logical, physical in batches
        ),
        Task("arrangements", of, "", data, all_.arrangements),
        Task("filters", of, "", data, all_.filters),
        Task("coming", of, "", data, all_.coming),
        Task("crowding", of, f"fuel {chosen.fuel}", data, partial(all_.crowding, chosen.fuel)),
    ]


def _check(names: Sequence[str]) -> None:
    """Raise an error where there is no such query."""
    for name in names:
        query(name)
