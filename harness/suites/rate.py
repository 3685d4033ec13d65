"""The measurement of rates: trials in an open loop, until the highest rate is known that an engine sustains.

Arrivals are the times at which rounds become due, which do not depend on the engine. `steady`: a round is due at equal
intervals. `burst:S`: every millisecond a burst is due, whose share of all rounds is drawn from a Pareto distribution
with the shape S. Both have the same mean rate. The draws are the same for every rate and engine, so a burst is the same
share of a second at every rate.

In the open loop, the engine takes all rounds that are due as one batch. The latency of a round counts from the time at
which it is due, also if the engine is busy then. It ends when the engine has counted the last change of the batch.
Cutting and converting the batch are part of it, because the rounds wait meanwhile.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.seeded import hashed
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.workload import Workload
from deltamark.errors import DeltamarkError, shortened, unknown
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import WrongAnswerError
from deltamark.harness.console.console import warn
from deltamark.harness.console.table import brief, rate
from deltamark.harness.engines.base import REFUSALS, Engine, first_line, short_name
from deltamark.harness.engines.registry import capabilities, open_engine
from deltamark.harness.measure.client import CellReply, WrongError
from deltamark.harness.measure.runs import LOAD_ROUNDS, answers_of, checked_run
from deltamark.harness.measure.stats import percentile
from deltamark.harness.measure.windows import rounds_of
from deltamark.harness.results.record import REFUSED, Figures
from deltamark.harness.suites.grid import RECOMPUTED_BATCHES
from deltamark.harness.system.clock import WallClock, without_collections

STEADY, BURST = "steady", "burst"
NAMES = (STEADY, f"{BURST}:S")

INTERVAL_S = 0.001
"""The time between two bursts. Not tuned."""

MIN_SHAPE, MAX_SHAPE = 1.05, 100.0
"""Shapes up to 1 have no mean; with large shapes the bursts are nearly equal."""

RANDOM_BITS = 63


def known_arrivals(text: str) -> str:
    """Return the name of arrivals if it is well formed."""
    if text != STEADY:
        _shape(text)
    return text


def due_times(arrivals: str, *, rate: float, seconds: float, most: int) -> np.ndarray:
    """Return the time in seconds at which each round is due, in order.

    rate: rounds per second, in the mean. The rounds are those of the given time, but no more than `most`.
    """
    rounds = max(min(int(rate * seconds), most), 1)
    if arrivals == STEADY:
        return np.arange(rounds) / rate
    sizes = burst_sizes(_shape(arrivals), rounds, max(math.ceil(rounds / rate / INTERVAL_S), 1))
    return np.repeat(np.arange(len(sizes)) * INTERVAL_S, sizes)


def burst_sizes(shape: float, rounds: int, bursts: int) -> np.ndarray:
    """Divide rounds into bursts, whose shares are drawn from a Pareto distribution; a burst may be empty."""
    drawn = (hashed(BURST, np.arange(bursts)) + 1.0) / 2.0**RANDOM_BITS
    ends = np.cumsum(drawn ** (-1 / shape))
    return np.diff(np.rint(ends / ends[-1] * rounds).astype(np.int64), prepend=0)


def _shape(text: str) -> float:
    kind, _, number = text.partition(":")
    if kind != BURST:
        raise unknown("arrivals", text, NAMES)
    try:
        shape = float(number)
    except ValueError:
        shape = math.nan
    if not MIN_SHAPE <= shape <= MAX_SHAPE:
        remedy = f"write burst:S with S from {MIN_SHAPE:g} to {MAX_SHAPE:g}, such as burst:1.5"
        raise DeltamarkError("not a shape of bursts", shortened(text), remedy)
    return shape


class Clock(Protocol):
    """A clock in seconds, and the way to wait for a time on it."""

    def now(self) -> float: ...

    def wait(self, until: float) -> None: ...


@dataclass(frozen=True)
class OpenRun:
    """The outcome of an open loop. The times of rounds are in seconds since its beginning."""

    due: np.ndarray
    completed: np.ndarray
    """The time at which each round was completed, or at which the loop was given up."""
    finished: bool
    """Whether all rounds were completed."""
    batches: int
    rows: int
    changes: int

    @property
    def latencies(self) -> np.ndarray:
        """The latency of each round, in increasing order; at least that long for rounds that were not completed."""
        return np.sort(self.completed - self.due)

    @property
    def growth(self) -> float:
        """The median latency of the last quarter of the rounds, less that of the second quarter."""
        latencies, quarter = self.completed - self.due, len(self.due) // 4
        if not quarter:
            return 0.0
        return float(np.median(latencies[-quarter:]) - np.median(latencies[quarter : 2 * quarter]))

    @property
    def recovery(self) -> float:
        """The time from the largest burst until no round that is due waits."""
        times, first, sizes = np.unique(self.due, return_index=True, return_counts=True)
        largest = int(sizes.argmax())
        begin = int(first[largest])
        waiting = np.append(self.due[begin + 1 :] <= self.completed[begin:-1], False)
        return float(self.completed[begin:][~waiting][0] - times[largest])


def open_loop(engine: Engine, due: np.ndarray, clock: Clock, give_up: float) -> OpenRun:
    """Feed the next rounds of an engine when they are due. give_up: the time from which on no batch begins."""
    ends, times, rows, changes = [0], list[float](), 0, 0
    start = clock.now()
    while ends[-1] < len(due) and (now := clock.now() - start) < give_up:
        end = int(np.searchsorted(due, now, side="right"))
        if end == ends[-1]:
            clock.wait(start + due[end])
            continue
        if taken := engine.take(end - ends[-1]):
            rows += taken
            changes += engine.apply()
        ends.append(end)
        times.append(clock.now() - start)
    left = len(due) - ends[-1]
    completed = np.repeat([*times, clock.now() - start], [*np.diff(ends), left])
    return OpenRun(due, completed, not left, len(times), rows, changes)


RESOLUTION = 1.05
"""The ratio of the lowest rate that fails to the highest that passes."""

STEP = 4.0
"""The ratio of two rates before the first bisection: each trial is also a point of the latency by rate. Not tuned."""


@dataclass(frozen=True)
class HighestRate:
    """The highest rate that passed, and the lowest that failed above it."""

    passed: float
    failed: float


def highest_rate(passes: Callable[[float], bool], guess: float, least: float) -> HighestRate | None:
    """Return the highest rate that passes; None if no rate from `least` on does.

    From the guess on, rates are multiplied by STEP until one fails, or divided until one passes. Then the geometric
    mean of the last rate that passed and the last that failed is tried, until their ratio is at most RESOLUTION.
    """
    rate = guess
    if passes(rate):
        while passes(STEP * rate):
            rate *= STEP
    else:
        rate /= STEP
        while rate >= least and not passes(rate):
            rate /= STEP
    if rate < least:
        return None
    passed, failed = rate, STEP * rate
    while failed > RESOLUTION * passed:
        middle = math.sqrt(passed * failed)
        if passes(middle):
            passed = middle
        else:
            failed = middle
    return HighestRate(passed, failed)


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
class TrialRules:
    """The rules of the trials of all cells."""

    seconds: float
    """The duration of a trial, unless the stream ends earlier."""
    limit: float
    """The largest 99th percentile of the latency that passes, in seconds."""
    tries: int
    """The trials at a rate that fails. Other programs of the machine can only make a trial worse."""


def row_of(cell: Cell) -> str:
    """Return the name of the row of a cell."""
    arrivals = "" if cell.arrivals == STEADY else f" {cell.arrivals}"
    return f"{cell.row}{arrivals}{ON}{short_name(cell.engine)}"


@dataclass
class Trials:
    """The trials of a cell. rounds: up to the last one that changes an input of the query."""

    cell: Cell
    rules: TrialRules
    dataset: Dataset
    work: Workload
    rounds: int
    changes: int
    """The number of changes that the checked run has counted."""
    rows: list[CellReply] = field(default_factory=list)

    def passes(self, rate_of_rounds: float) -> bool:
        """Return whether one of a few trials is sustained."""
        return any(self._sustained(rate_of_rounds) for _ in range(self.rules.tries))

    def _sustained(self, rate_of_rounds: float) -> bool:
        run = self._run(rate_of_rounds)
        figures = _figures(run, rate_of_rounds)
        problem = problem_of(run, len(run.due) / rate_of_rounds, self.rules.limit)
        figures |= {"sustained": [int(not problem)], "limit": [self.rules.limit]}
        if self.cell.arrivals != STEADY:
            figures["recovery"] = [run.recovery]
        row = row_of(self.cell)
        self.rows.append(CellReply(row=row, figures=figures, note=problem, verified="oracle"))
        shown = f"{problem or 'sustained'}; p99 {brief(figures['p99'][0]).text}, {run.batches:,} batches"
        warn(f"  {row}: {rate(rate_of_rounds).text}: {shown}")
        return not problem

    def _run(self, rate_of_rounds: float) -> OpenRun:
        cell, load = self.cell, self.work.load_rounds
        first = load or int(LOADED_SHARE * self.rounds)
        most = self.rounds - first
        due = due_times(cell.arrivals, rate=rate_of_rounds, seconds=self.rules.seconds, most=most)
        gc.collect()
        with closing(open_engine(cell, self.dataset, self.work)) as engine:
            loaded = _load(engine, first)
            with without_collections():
                run = open_loop(engine, due, WallClock(), len(due) / rate_of_rounds + self.rules.limit)
        changes = loaded + run.changes
        whole = run.finished and len(due) == most and capabilities(cell.engine).has_stream
        if whole and changes != self.changes:
            raise WrongAnswerError(f"{cell} has {changes} changes", f"not {self.changes}", "run make verify")
        return run


def measure(cell: Cell, rules: TrialRules, data: Path) -> Iterator[CellReply]:
    """Compare a run with DuckDB's answers, and then find the highest sustained rate; yield a row for each trial."""
    dataset = Dataset.open(data)
    work, rounds = workload(dataset, cell.workload), rounds_of(dataset)(cell)
    if not rounds:
        yield CellReply(row=row_of(cell), note=f"{REFUSED}nothing changes after the load")
        return
    try:
        changes = _checked_changes(cell, dataset, work)
    except WrongError as error:
        raise WrongAnswerError("a wrong answer", f"{cell}, {error}", "run the cell without SUITE=rate") from error
    except REFUSALS as error:
        yield CellReply(row=row_of(cell), note=REFUSED + first_line(error))
        return
    trials = Trials(cell, rules, dataset, work, rounds, changes)
    highest_rate(trials.passes, FIRST_RATE, MIN_ROUNDS / rules.seconds)
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
    sampled = cell.but(sample=RECOMPUTED_BATCHES if capabilities(cell.engine).recomputes else 0)
    _, check = checked_run(sampled, answers_of(sampled, work), dataset, work)
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
