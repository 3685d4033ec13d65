"""The measurement of a cell: trials at several rates, until the highest sustained rate is known."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.console.console import warn
from deltamark.harness.console.formatting import brief, rate
from deltamark.harness.engines.base import Engine, RefusedError, short_name
from deltamark.harness.engines.registry import capabilities, open_engine
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.runs import LOAD_ROUNDS, CellJob, WrongError, answers_of, checked_run
from deltamark.harness.measure.stats import percentile
from deltamark.harness.measure.timing import WallClock, without_collections
from deltamark.harness.measure.windows import rounds_of
from deltamark.harness.results.record import REFUSED, Figures, TableRow
from deltamark.harness.suites.rate.arrivals import STEADY, due_times
from deltamark.harness.suites.rate.bisection import highest_rate
from deltamark.harness.suites.rate.open_loop import OpenRun, open_loop
from deltamark.harness.suites.table_cell import WrongAnswerError
from deltamark.harness.suites.tpch.grid import RECOMPUTED_BATCHES

ON = " on "
"""The words between the stream and the engine in the name of a cell."""

FIRST_RATE = 1000.0
"""The rate of the first trial, in rounds per second. Not tuned."""

LOADED_SHARE = 0.25
"""The share of the stream that is loaded before the first round is due, if the workload has no load of its own.

In the workload `insert` the orders end about there, and almost every later round is one row of lineitem.
"""

MAX_GROWTH = 0.035
"""The largest growth of the latency, relative to the duration of a trial.

If rounds become due 5% faster than the engine completes them, the latency grows by about 3.5% of the duration from the
second quarter to the last one, because a round waits for the batch before its own, too.
"""

MAX_SHARE = 0.1
"""The largest median latency, relative to the duration of a trial: in a shorter trial no growth would be seen."""

MIN_ROUNDS = 10
"""The fewest rounds of a trial. Not tuned."""


@dataclass(frozen=True)
class RateCell:
    """A query over a workload, with arrivals, on an engine."""

    cell: Cell
    arrivals: str
    seconds: float
    """The duration of a trial, unless the stream ends earlier."""
    limit: float
    """The largest 99th percentile of the latency that passes, in seconds."""
    tries: int
    """The trials at a rate that fails. Other programs of the machine can only make a trial worse."""

    @property
    def name(self) -> str:
        arrivals = "" if self.arrivals == STEADY else f" {self.arrivals}"
        return f"{self.cell.row}{arrivals}{ON}{short_name(self.cell.engine)}"


@dataclass
class Trials:
    """The trials of a cell. rounds: up to the last one that changes an input of the query."""

    of: RateCell
    dataset: Dataset
    work: Workload
    rounds: int
    changes: int
    """The number of changes that the checked run has counted."""
    rows: list[TableRow] = field(default_factory=list)

    def passes(self, rate_of_rounds: float) -> bool:
        """Return whether one of a few trials is sustained."""
        return any(self._sustained(rate_of_rounds) for _ in range(self.of.tries))

    def _sustained(self, rate_of_rounds: float) -> bool:
        run = self._run(rate_of_rounds)
        figures = _figures(run, rate_of_rounds)
        problem = problem_of(run, len(run.due) / rate_of_rounds, self.of.limit)
        figures |= {"sustained": [int(not problem)], "limit": [self.of.limit]}
        if self.of.arrivals != STEADY:
            figures["recovery"] = [run.recovery]
        self.rows.append(TableRow(self.of.name, figures, problem))
        shown = f"{problem or 'sustained'}; p99 {brief(figures['p99'][0]).text}, {run.batches:,} batches"
        warn(f"  {self.of.name}: {rate(rate_of_rounds).text}: {shown}")
        return not problem

    def _run(self, rate_of_rounds: float) -> OpenRun:
        cell, load = self.of.cell, self.work.load_rounds
        first = load or int(LOADED_SHARE * self.rounds)
        most = self.rounds - first
        due = due_times(self.of.arrivals, rate=rate_of_rounds, seconds=self.of.seconds, most=most)
        gc.collect()
        with closing(open_engine(cell, self.dataset, self.work)) as engine:
            loaded = _load(engine, first)
            with without_collections():
                run = open_loop(engine, due, WallClock(), len(due) / rate_of_rounds + self.of.limit)
        changes = loaded + run.changes
        whole = run.finished and len(due) == most and capabilities(cell.engine).has_stream
        if whole and changes != self.changes:
            raise WrongAnswerError(f"{cell} has {changes} changes", f"not {self.changes}", "run make verify")
        return run


def measure(of: RateCell, data: Path) -> Iterator[TableRow]:
    """Compare a run with DuckDB's answers, and then find the highest sustained rate; yield a row for each trial."""
    dataset = Dataset.open(data)
    work, rounds = workload(dataset, of.cell.workload), rounds_of(dataset)(of.cell)
    if not rounds:
        yield TableRow(of.name, {}, f"{REFUSED}nothing changes after the load")
        return
    try:
        changes = _checked_changes(of.cell, dataset, work)
    except WrongError as error:
        raise WrongAnswerError("a wrong answer", f"{of.cell}, {error}", "run the cell without SUITE=rate") from error
    except RefusedError as error:
        yield TableRow(of.name, {}, f"{REFUSED}{error.actual}")
        return
    trials = Trials(of, dataset, work, rounds, changes)
    highest_rate(trials.passes, FIRST_RATE, MIN_ROUNDS / of.seconds)
    yield from trials.rows


def problem_of(run: OpenRun, planned: float, limit: float) -> str:
    """Return the reason why a trial is not sustained; empty if it is. planned: its duration, as the rounds are due."""
    ordered = run.latencies
    if not run.finished:
        return f"not done {brief(limit).text} after its end"
    if percentile(ordered, 99) > limit:
        return f"p99 over {brief(limit).text}"
    if run.growth > MAX_GROWTH * planned:
        return "latency grows"
    if percentile(ordered, 50) > MAX_SHARE * planned:
        return "stream too short"
    return ""


def _checked_changes(cell: Cell, dataset: Dataset, work: Workload) -> int:
    """Run the whole stream in a closed loop, and compare its answers; return the number of changes."""
    sample = RECOMPUTED_BATCHES if capabilities(cell.engine).recomputes else 0
    _, check = checked_run(CellJob(cell, sample, 1, answers_of(cell, sample, work)), dataset, work)
    return check.changes


def _load(engine: Engine, rounds: int) -> int:
    """Apply the first rounds of a stream; return the number of changes."""
    changes = 0
    while engine.feed.round < rounds:
        if engine.take(min(LOAD_ROUNDS, rounds - engine.feed.round)):
            changes += engine.apply()
    return changes


def _figures(run: OpenRun, rate_of_rounds: float) -> Figures:
    ordered = run.latencies
    return {
        "rate": [rate_of_rounds], "rounds": [len(run.due)], "rows": [run.rows], "batches": [run.batches],
        "seconds": [float(run.completed[-1])],
        "p50": [percentile(ordered, 50)], "p99": [percentile(ordered, 99)], "max": [float(ordered[-1])],
    }  # fmt: skip
