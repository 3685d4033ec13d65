"""Runs of a cell: a checked run, then timed runs; or a sample, which checks nothing.

The clock runs from the moment the engine takes a batch until it has counted the last change of the answer. Batches are
cut before that, and cutting is timed on its own. An engine that takes several batches at a time applies them one after
another, and reports the time of each by a clock of its own. The clock of an external engine excludes the pipe. That of
our engine, with one worker and batches of at most 50,000 rounds, excludes the call from Python, which takes longer than
a batch of a few rows. If a stream has too many batches to time them all, windows spread evenly over the stream are
timed, and between them the engine is fed large batches.

An engine with a process of its own could work while no clock runs. Therefore its CPU time is taken in the clock and
outside of it, and results/plausibility.py compares both with its time.

Before each timed run the process touches as much memory as the checked run needed, and frees it. Otherwise a run in a
virtual machine that has returned free memory to its host waits for it. For eight queries with much state (SF 1,
1 x 100000, 40 pairs of cells each) the first run with touched memory took 0.93 times as long on one worker, 0.84 times
if two seconds had passed since the check, and 0.88 times on two workers (geometric means). The fastest of three runs
of q05 hardly changed.
"""

from __future__ import annotations

import gc
import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from random import Random

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.workload import Workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import DEFAULT_ENGINE, Cell
from deltamark.harness.check.oracle import Answers, moments, oracle_answers
from deltamark.harness.check.run_check import RunCheck, open_check
from deltamark.harness.engines.base import REFUSALS, AnswerEngine, Engine, Sink, batches_at_a_time
from deltamark.harness.engines.embedded import measured_workers
from deltamark.harness.engines.registry import capabilities, open_engine, open_stream
from deltamark.harness.measure.child import Phases
from deltamark.harness.measure.client import CellReply, CellRequest, SampleReply, WrongError
from deltamark.harness.measure.stats import percentile
from deltamark.harness.measure.windows import Span, checkpoints, inner_times, spans
from deltamark.harness.results.record import SPREAD, Figures
from deltamark.harness.system import resources
from deltamark.harness.system.clock import (
    LIST_EVERY_S,
    CpuUse,
    Result,
    Stopwatch,
    control_seconds,
    timed,
    without_collections,
)

LOAD_ROUNDS = 100_000
"""The rounds of a batch between two windows. Not tuned."""

MAX_REPEATED_S, MAX_TIMED_S = 1.5, 15.0
"""The seconds of timed runs, without the first one and with it, after which no further run begins. Not tuned."""

FIRST_ROUNDS = 100
"""The number of rounds that are fed in order to load code. Not tuned."""

WARM_UP_BATCHES = 3
MAX_WARM_UP_ROUNDS = 100_000
"""The rounds of a warm-up batch. Neither number is tuned."""

MAX_TRACED_BATCHES = 100
"""The number of batches up to which a record keeps the time of each."""

PERCENTILES = dict(zip(SPREAD, (50, 95, 99, 100), strict=True))

SAMPLED_RUNS = 3
"""The runs of a sample."""


@dataclass
class TimedRun:
    """The figures of a run; times in seconds."""

    seconds: float = 0.0
    outside: float = 0.0
    """By the clock of the harness, if the engine reports its own times; otherwise 0."""
    cpu: float = 0.0
    """The CPU time of this process in the clock, and of its descendants in the clock and outside of it."""
    timed_cpu: float = 0.0
    """The CPU time of descendants in the clock."""
    untimed_cpu: float = 0.0
    """The CPU time of descendants from the end of a timed batch to the begin of the next one."""
    cut: float = 0.0
    untimed: float = 0.0
    """The time for which the harness waited, outside the clock, until the engine had its input ready."""
    requests: int = 0
    """The number of times that the clock was started."""
    answer_cpu: float = 0.0
    """The CPU time of descendants from the end of the last batch until an engine has handed over its answer."""
    answer_rows: int = 0
    tuples: int = 0
    changes: int = 0
    loaded: int = 0
    """The number of rows that have arrived, in timed batches and between them."""
    latencies: list[float] = field(default_factory=list)
    loaded_by: list[int] = field(default_factory=list)
    """The rows that have arrived by the end of each timed batch."""
    opened_bytes: int = 0
    """The memory of the process when the query was open, before the first batch."""
    state_rows: int = 0
    state_bytes: int = 0
    peak_bytes: int = 0
    has_own_process: bool = False
    """Whether state and peak are those of a process of the engine, rather than of this one."""
    fully_timed: bool = True
    recomputed: bool = False


def timed_run(cell: Cell, work: Workload, opened: Callable[[], Engine], check: RunCheck | None = None) -> TimedRun:
    """Run a cell to the end of its stream."""
    gc.collect()
    own = resources.MemoryUse()
    engine, figures = opened(), TimedRun()
    memory, figures.has_own_process = engine.memory or own, engine.memory is not None
    try:
        running = _Running(engine, check, figures, CpuUse(LIST_EVERY_S if engine.memory else math.inf))
        figures.opened_bytes = memory.now
        with without_collections():
            windows = spans(work, cell.reads, cell.logical * cell.physical, cell.sample)
            figures.fully_timed = len(windows) == 1 and windows[0][0] == 0
            for window in windows:
                running.load(window[0], cell.logical)
                running.time(window, cell.physical)
            running.load(work.rounds, cell.logical)
            figures.seconds = sum(figures.latencies)
            figures.recomputed = engine.recomputes_query
            figures.state_rows = engine.state_rows()
            running.end()
            stored = engine.stored_bytes()
            figures.state_bytes, figures.peak_bytes = memory.growth if stored is None else stored, memory.peak
            running.ask()
            if check is not None:
                engine.finish()
                check.finish(engine)
    finally:
        engine.close()
        if check is not None:
            check.close()
    return figures


@dataclass(frozen=True)
class _Running:
    """An engine that runs a cell, and the figures of the run so far."""

    engine: Engine
    check: RunCheck | None
    figures: TimedRun
    cpu: CpuUse

    def load(self, stop: int, logical: int) -> None:
        """Feed all rounds before `stop` without timing them."""
        feed = self.engine.feed
        while not feed.done and feed.round < stop:
            self._compare()
            rounds = min(LOAD_ROUNDS, stop - feed.round)
            if rows := self.engine.take(max(rounds // logical, 1)):
                self.engine.load()
                self.figures.loaded += rows

    def time(self, window: Span, physical: int) -> None:
        """Time the batches of a window."""
        self.cpu.passed()
        if self.engine.takes_several:
            self._time_several(window, physical)
        else:
            self._time_each(window, physical)

    def end(self) -> None:
        """Count the work after the last timed batch."""
        if self.figures.fully_timed:
            if self.figures.has_own_process:
                self.cpu.list_processes()
            self._taken()

    def ask(self) -> None:
        """Ask for the answer after the last batch, which an engine must have ready: it may have put work off."""
        if self.figures.has_own_process and isinstance(self.engine, AnswerEngine):
            self.cpu.passed()
            self.figures.answer_rows = len(self.engine.answer())
            self.figures.answer_cpu = self.cpu.passed()

    def _time_several(self, window: Span, physical: int) -> None:
        """Time batches by the clock of the engine, which takes several of them at a time."""
        engine, figures, feed = self.engine, self.figures, self.engine.feed
        rounds = physical * feed.logical
        while not feed.done and feed.round < window[1]:
            left = -(-(window[1] - feed.round) // rounds)
            size = min(batches_at_a_time(rounds), left)
            if rows := self._cut(lambda: engine.take_several(physical, size)):  # noqa: B023 (called at once)
                seen, applied = self._applied(engine.apply_several)
                figures.outside += seen
                for number, (changes, seconds) in zip(rows, applied, strict=True):
                    self._count(number, changes, seconds)

    def _time_each(self, window: Span, physical: int) -> None:
        engine, figures, feed = self.engine, self.figures, self.engine.feed
        while not feed.done and feed.round < window[1]:
            if rows := self._cut(lambda: engine.take(physical)):
                seen, changes = self._applied(engine.apply)
                if engine.own_seconds is not None:
                    figures.outside += seen
                self._count(rows, changes, seen if engine.own_seconds is None else engine.own_seconds)

    def _cut(self, take: Callable[[], Result]) -> Result:
        """Cut the next batches, after the answer that is due before them was compared."""
        self._compare()
        seconds, rows = timed(take)
        self.figures.cut += seconds
        self._taken()
        return rows

    def _applied(self, apply: Callable[[], Result]) -> tuple[float, Result]:
        """Time a request; return its seconds by the clock of the harness, too."""
        figures = self.figures
        with Stopwatch() as watch:
            result = apply()
        passed = self.cpu.passed()
        figures.timed_cpu += passed
        figures.cpu += passed + watch.cpu
        figures.untimed += self.engine.untimed_seconds
        figures.requests += 1
        return watch.seconds, result

    def _compare(self) -> None:
        """Compare the answer that is due before the next batch."""
        if self.check is not None:
            self.check.before_batch(self.engine)

    def _taken(self) -> None:
        """Count the CPU time outside the clock."""
        passed = self.cpu.passed()
        self.figures.untimed_cpu += passed
        self.figures.cpu += passed

    def _count(self, rows: int, changes: int, seconds: float) -> None:
        """Count a timed batch."""
        figures = self.figures
        figures.changes += changes
        figures.latencies.append(seconds)
        figures.tuples += rows
        figures.loaded += rows
        figures.loaded_by.append(figures.loaded)


@dataclass(frozen=True)
class RunOutput:
    """The output of a run, which must be the same in all runs of a cell. digest: empty if it is not known."""

    digest: str
    changes: int


def answers_of(cell: Cell, work: Workload) -> Answers:
    """Compute the oracle's answers at moments of a cell: drawn ones, and the end."""
    chance = Random()  # noqa: S311 (no secret)
    rounds = checkpoints(cell, work, chance)
    inside = range(work.load_rounds, work.rounds)
    times = inner_times(cell, inside, chance) if capabilities(cell.engine).has_stream else []
    wanted = moments(cell, rounds, times)
    answers = oracle_answers(cell, work, wanted.values()).answers
    return {time: answers[moment] for time, moment in wanted.items()}


def measured(request: CellRequest[Cell], answers: Answers, dataset: Dataset, phases: Phases) -> CellReply:
    """Measure a cell; return its figures.

    answers: the oracle's, to compare with, by logical time; empty: the checked run is digested only.
    """
    try:
        return _measured(request, answers, dataset, phases)
    except (WrongError, *REFUSALS) as error:
        return CellReply.of(error)


def _measured(request: CellRequest[Cell], answers: Answers, dataset: Dataset, phases: Phases) -> CellReply:
    cell = request.cell
    work = workload(dataset, cell.workload)
    expected, needed_bytes = _prepare(request, answers, dataset, work)
    phases.wait()
    control = control_seconds()
    runs: list[TimedRun] = []
    watch = Stopwatch()
    resources.empty_pool()  # the first run takes fresh memory
    while len(runs) < request.runs and _repeats(watch.laps):
        resources.touch(needed_bytes - resources.kept_bytes())
        resources.reset_peak()
        phases.begin()
        with watch:
            run, digest = _measured_run(cell, answers, dataset, work)
        if run.latencies and not _nanoseconds(run.seconds):
            actual = f"{run.seconds} s for {len(run.latencies)} batches"
            raise DeltamarkError(f"{cell.engine} reports no time", actual, "report times of a monotonic clock")
        runs.append(run)
        outcome = RunOutput(digest or (expected.digest if expected else ""), run.changes)
        expected = expected or outcome
        if outcome != expected:
            raise WrongError(f"run {len(runs)} has {_words(outcome)}; another run has {_words(expected)}")
    assert expected
    return CellReply(
        control=control, digest=expected.digest, verified="oracle" if answers else "",
        figures=_figures(cell, runs) | ({"compared": sorted(answers)} if answers else {}),
    )  # fmt: skip


def _repeats(laps: Sequence[float]) -> bool:
    """Return whether another run shall begin. The first one has memory that no other run has used, and is slower."""
    return sum(laps[1:]) < MAX_REPEATED_S and sum(laps) < MAX_TIMED_S


def _prepare(
    request: CellRequest[Cell], answers: Answers, dataset: Dataset, work: Workload
) -> tuple[RunOutput | None, int]:
    """Run a cell without timing it, which compiles and loads its code; return the outcome if that run is checked.

    Return also the bytes that a timed run will allocate: 0 if they are not known, or if a session keeps its memory.
    """
    engine = capabilities(request.cell.engine)
    if engine.has_session:
        warm_up(request.cell, dataset, work)
    if engine.checked_while_timed or not request.checked:
        return None, 0
    run, check = checked_run(request.cell, answers, dataset, work)
    return RunOutput(check.digest, run.changes), 0 if engine.has_session else run.state_bytes


def _run(cell: Cell, dataset: Dataset, work: Workload, check: RunCheck | None, sink: Sink | None) -> TimedRun:
    if cell.engine == DEFAULT_ENGINE:
        cell = cell.but(workers=measured_workers(cell))
    run = timed_run(cell, work, lambda: open_engine(cell, dataset, work, sink), check)
    if check is not None and check.problem:
        raise WrongError(check.problem)
    return run


def _measured_run(cell: Cell, answers: Answers, dataset: Dataset, work: Workload) -> tuple[TimedRun, str]:
    """Time a run; return its digest, too, if it is checked itself.

    Otherwise the changes of the run are counted, and of whole answers the last one is compared: an engine knows which
    runs are checked, and could leave its work out of the others.
    """
    engine = capabilities(cell.engine)
    if not engine.checked_while_timed:
        end = {time: answers[time] for time in sorted(answers)[-1:] if engine.output == "answers"}
        return _run(cell, dataset, work, open_check(cell, work, end) if end else None, None), ""
    run, check = checked_run(cell, answers, dataset, work)
    return run, check.digest


def checked_run(cell: Cell, answers: Answers, dataset: Dataset, work: Workload) -> tuple[TimedRun, RunCheck]:
    """Run a cell and compare its output; return the finished check, too. A wrong output raises a WrongError."""
    check = open_check(cell, work, answers)
    run = _run(cell, dataset, work, check, check.add)
    counts = capabilities(cell.engine).output != "answers" and run.fully_timed
    if counts and check.changes != run.changes:
        raise WrongError(f"the engine emitted {check.changes} changes, but counted {run.changes}")
    return run, check


def load_code(cell: Cell, dataset: Dataset, work: Workload) -> None:
    """Run the first rounds, which loads the kernels and libraries that the engine and the check of a cell need."""
    check = open_check(cell, work, {})
    with closing(check), closing(open_engine(cell, dataset, work, check.add)) as engine:
        if engine.take(FIRST_ROUNDS):
            engine.apply()
        check.finish(engine)


def warm_up(cell: Cell, dataset: Dataset, work: Workload) -> None:
    """Run a few small batches in the session that will be timed."""
    rounds = min(cell.logical * cell.physical, MAX_WARM_UP_ROUNDS)
    logical = min(cell.logical, rounds)
    small = cell.but(logical=logical, physical=rounds // logical)
    if capabilities(cell.engine).has_stream:
        with closing(open_stream(small, dataset, work)) as stream:
            until = min(WARM_UP_BATCHES * small.logical * small.physical, work.rounds)
            deque(stream.changes(until), maxlen=0)
        return
    with closing(open_engine(small, dataset, work)) as engine:
        for _ in range(WARM_UP_BATCHES):
            if engine.take(small.physical):
                engine.apply()


def _figures(cell: Cell, runs: list[TimedRun]) -> Figures:
    best = min(runs, key=lambda run: run.seconds)
    # the first batch of a window holds all rows of the small relations
    first = cell.workload.startswith("window:") and best.fully_timed
    ordered = sorted(best.latencies[first:] or best.latencies)
    traced = len(best.latencies) <= MAX_TRACED_BATCHES
    separate = [run for run in runs if run.has_own_process]
    times = {
        "seconds": [run.seconds for run in runs], "cpu": [run.cpu for run in runs], "cut": [run.cut for run in runs],
        "outside": [run.outside for run in runs if run.outside], "untimed": [run.untimed for run in separate],
        "timed_cpu": [run.timed_cpu for run in separate], "untimed_cpu": [run.untimed_cpu for run in separate],
        "answer_cpu": [run.answer_cpu for run in separate] if best.answer_rows else [],
        **{name: [percentile(ordered, percent)] for name, percent in PERCENTILES.items()},
        "trace_seconds": best.latencies if traced else [],
    }  # fmt: skip
    counts = {
        "requests": best.requests if best.has_own_process else 0, "recomputed": int(best.recomputed),
        "answer_rows": best.answer_rows, "sampled": int(not best.fully_timed), "tuples": best.tuples,
        "changes": best.changes,
        "batches": len(best.latencies), "state_rows": best.state_rows,
        "state_bytes": max(run.state_bytes for run in runs), "peak_bytes": max(run.peak_bytes for run in runs),
    }  # fmt: skip
    known: Figures = {
        **{name: [_nanoseconds(value) for value in values] for name, values in times.items()},
        **{name: [value] for name, value in counts.items() if value},
        "trace_rows": list(best.loaded_by) if traced else [],
    }  # fmt: skip
    return {name: values for name, values in known.items() if values}


def _words(outcome: RunOutput) -> str:
    return f"{outcome.changes} changes ({outcome.digest})"


def _nanoseconds(seconds: float) -> float:
    """Round to nanoseconds, the resolution of the clock."""
    return round(seconds, 9)


@dataclass(frozen=True)
class SampledRun:
    """One run of a cell. latencies: seconds of each batch; output: equal in every run; state_bytes: at the end."""

    latencies: Sequence[float]
    output: tuple[int, ...]
    state_bytes: int
    peak_bytes: int | None = None
    """The peak of the engine's own process, if it has one."""
    state_rows: int = 0
    """0 if the engine does not report them."""


def sample(run_once: Callable[[], SampledRun], phase: Callable[[], None]) -> SampleReply:
    """Return a cell's time, its state at the end of a run and its peak memory.

    The time is the sum over all batches of the shortest time of each. Every run does the same work in a batch, so a
    longer time of the same batch has an outside cause: the first touch of a page, or another program. The minimum of
    each batch removes a disturbance in one batch; the minimum of whole runs would need one run without any.
    """
    resources.reset_peak()
    before = resources.peak()
    runs: list[SampledRun] = []
    for _ in range(SAMPLED_RUNS):
        phase()
        runs.append(run_once())
    if len({run.output for run in runs}) > 1:
        outputs = ", ".join(str(run.output) for run in runs)
        return SampleReply(status="wrong", problem=f"runs of one process differ: {outputs}")
    least = sum(map(min, zip(*(run.latencies for run in runs), strict=True)))
    # the first run also copies those pages of the interpreter that it changes, and that the server shares
    state = max(run.state_bytes for run in runs[1:])
    peaks = [run.peak_bytes for run in runs if run.peak_bytes is not None] or [resources.peak() - before]
    return SampleReply(time=least, state=state, rows=runs[-1].state_rows, peak=max(peaks))


def query_run(cell: Cell, dataset: Dataset) -> Callable[[], SampledRun]:
    """Return a function that runs a query once."""
    work = workload(dataset, cell.workload)

    def run_once() -> SampledRun:
        run = timed_run(cell, work, lambda: open_engine(cell, dataset, work))
        peak = run.peak_bytes if run.has_own_process else None
        return SampledRun(run.latencies, (run.changes,), run.state_bytes, peak, run.state_rows)

    return run_once
