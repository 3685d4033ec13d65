"""The grade of an engine for a query: at which moments its answers equal DuckDB's over exactly the live rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa

from deltamark.dataflow.batch import Batch
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import last_time
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import Snapshot, difference, unordered_difference
from deltamark.harness.check.oracle import Oracle
from deltamark.harness.check.verify import random_times
from deltamark.harness.engines.base import REFUSALS, AnswerEngine, Engine, Row, StreamEngine
from deltamark.harness.engines.plans import sql_inputs
from deltamark.harness.engines.registry import capabilities, open_engine
from deltamark.harness.measure.client import CellReply
from deltamark.harness.results.record import Figures
from deltamark.harness.tables.suites import GRADES, Grade

WINDOW = "window:500"
WORKLOADS = ("insert", WINDOW, "refresh:5")
BATCHES = 10
"""The number of batches of a graded run: each has an answer to be compared."""

TIMES = 20
"""The number of logical times at which a stream is compared, half of them inside a round."""


@dataclass(frozen=True)
class Graded:
    """The grade of an engine for a query in all workloads."""

    grade: Grade
    recomputed: bool = False
    problem: str = ""
    """The first difference."""
    compared: int = 0
    """The number of compared answers."""
    only_insertions: bool = False
    """Whether the engine refuses deletions, or is wrong after them, and is right while rows are only inserted."""


class _Output:
    """The output of an engine: the sum of its changes, or its last answer."""

    def __init__(self) -> None:
        self._weights: Counter[Row] = Counter()

    def add(self, changes: Batch | pa.Table) -> None:
        assert isinstance(changes, pa.Table)
        for _, diff, *row in zip(*(column.to_pylist() for column in changes.columns), strict=True):
            self._weights[tuple(row)] += diff

    def answer(self, engine: Engine) -> list[Row]:
        if isinstance(engine, AnswerEngine):
            return engine.answer()
        return list(self._weights.elements())


class _StreamOutput:
    """The changes of a stream that were emitted since the last comparison, and the snapshot up to then."""

    def __init__(self) -> None:
        self._waiting: list[Batch] = []
        self._time = -1
        self._snapshot: Snapshot | None = None

    def add(self, changes: Batch | pa.Table) -> None:
        assert isinstance(changes, Batch)
        self._waiting.append(changes)

    def answer(self, engine: StreamEngine, until: int, order: tuple[str, ...]) -> list[Row]:
        """Return the answer at a time, which is later than all previous ones."""
        self._snapshot = self._snapshot or Snapshot(engine.schema)
        for changes in self._waiting:
            self._snapshot.add(changes, since=self._time, until=until)
        self._time = until
        return self._snapshot.answer(order)

    def drop(self) -> None:
        """Drop changes that are part of the snapshot."""
        self._waiting = []


def graded(cell: Cell, dataset: Dataset, chance: Random) -> Graded:
    """Run a query in all workloads; return the worst grade. A query that the engine refuses raises one of REFUSALS.

    The first workload of several has insertions alone. An engine that refuses the others is graded in this one.
    """
    runs: dict[str, Graded] = {}
    for name in _workloads(cell):
        work = workload(dataset, name)
        size = -(-work.rounds // (cell.logical * BATCHES))
        try:
            runs[name] = _graded_run(cell.but(workload=name, physical=size), dataset, work, chance)
        except REFUSALS:
            if not runs:
                raise
    name, worst = min(runs.items(), key=lambda run: GRADES.index(run[1].grade))
    first = next(iter(runs.values()))
    return Graded(
        worst.grade,
        recomputed=any(run.recomputed for run in runs.values()),
        problem=f"{name}: {worst.problem}" if worst.problem else "",
        compared=sum(run.compared for run in runs.values()),
        only_insertions=first.grade != "wrong" and (worst.grade == "wrong" or len(runs) < len(_workloads(cell))),
    )


def _workloads(cell: Cell) -> tuple[str, ...]:
    """Return the workloads that the benchmark of a cell has. A window is as long as that of its golden digests."""
    if not cell.home.relations.events:
        return (cell.home.workload,)
    window = next((each for each in cell.home.golden if each.startswith("window:")), WINDOW)
    return tuple(window if each == WINDOW else each for each in WORKLOADS)


def _graded_run(cell: Cell, dataset: Dataset, work: Workload, chance: Random) -> Graded:
    """Run a query over one workload."""
    output = _StreamOutput() if capabilities(cell.engine).has_stream else _Output()
    problems: dict[Grade, str] = {}
    compared, last = 0, ""
    with (
        closing(open_engine(cell, dataset, work, output.add)) as engine,
        closing(Oracle(work, sql_inputs(cell), cell.logical)) as oracle,
    ):
        times = random_times(work, cell.reads, cell.logical, TIMES, chance)
        for moment, wrong in _compared(cell, engine, output, oracle, times):
            compared += 1
            if wrong:
                problems.setdefault(moment, wrong)
            last = wrong if moment == "batches" else last
        recomputed = capabilities(cell.engine).recomputes or engine.recomputes_query
    if not problems:
        return Graded("times" if capabilities(cell.engine).has_stream else "batches", recomputed, compared=compared)
    first = next(iter(problems.values()))
    grade: Grade = "batches" if "batches" not in problems else "wrong" if last else "end"
    return Graded(grade, recomputed, problem=first, compared=compared)


def _compared(
    cell: Cell, engine: Engine, output: _Output | _StreamOutput, oracle: Oracle, times: list[int]
) -> Iterator[tuple[Grade, str]]:
    """Feed all batches; yield each comparison: its moment, and the difference if there is one."""
    order = cell.definition.order_by
    while not engine.feed.done:
        if engine.take(cell.physical):
            engine.apply()
        engine.finish()
        end = last_time(engine.feed.round, cell.logical)
        if isinstance(output, _Output):
            oracle.at(end)
            answer, tolerance = output.answer(engine), capabilities(cell.engine).tolerance
            yield "batches", unordered_difference(answer, oracle.answer(cell.sql), tolerance)
            continue
        assert isinstance(engine, StreamEngine)
        for time in sorted({*(each for each in times if each <= end), end}):
            oracle.at(time)
            answer = output.answer(engine, time, order)
            yield "batches" if time == end else "times", difference(answer, oracle.answer(cell.sql))
        times = [each for each in times if each > end]
        output.drop()


def measure(cell: Cell, data: Path) -> Iterator[CellReply]:
    """Grade an engine for a query; yield a row."""
    found = graded(cell, Dataset.open(data), Random(str(cell)))  # noqa: S311 (no secret)
    figures: Figures = {
        "grade": [GRADES.index(found.grade)],
        "recomputed": [int(found.recomputed)],
        "compared": [found.compared],
    }
    if found.only_insertions:
        figures["only_insertions"] = [1]
    yield CellReply(figures=figures, note=found.problem, verified="oracle")
