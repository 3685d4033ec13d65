"""The work of the child process that measures a cell: a checked run, then the timed runs.

Before each timed run the process touches as much memory as the checked run needed, and frees it. Otherwise a run in a
virtual machine that has returned free memory to its host waits for it. For eight queries with much state (SF 1,
1 x 100000, 40 pairs of cells each) the first run with touched memory took 0.93 times as long on one worker, 0.84 times
if two seconds had passed since the check, and 0.88 times on two workers (geometric means). The fastest of three runs
of q05 hardly changed.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import closing
from dataclasses import dataclass
from random import Random

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.workload import Workload
from deltamark.errors import DeltamarkError
from deltamark.harness.check.change_stream import no_report
from deltamark.harness.check.oracle import Answers, moments, oracle_answers
from deltamark.harness.check.run_check import RunCheck, open_check
from deltamark.harness.engines.base import REFUSALS, first_line
from deltamark.harness.engines.embedded import measured_workers
from deltamark.harness.engines.registry import capabilities, open_engine, open_stream
from deltamark.harness.measure import control_work, resources, timing
from deltamark.harness.measure.cell import DEFAULT_ENGINE, Cell
from deltamark.harness.measure.child import Phases
from deltamark.harness.measure.messages import CellReply
from deltamark.harness.measure.stats import percentile
from deltamark.harness.measure.timing import TimedRun
from deltamark.harness.measure.windows import checkpoints, inner_times
from deltamark.harness.results.record import SPREAD

MAX_REPEATED_S = 1.5
"""The seconds of timed runs after which no further run begins. Not tuned."""

WARM_UP_BATCHES = 3
MAX_WARM_UP_ROUNDS = 100_000
"""The rounds of a warm-up batch. Neither number is tuned."""

MAX_TRACED_BATCHES = 100
"""The number of batches up to which a record keeps the time of each."""

PERCENTILES = dict(zip(SPREAD, (50, 95, 99, 100), strict=True))


@dataclass(frozen=True)
class CellJob:
    """A cell to be measured. sample: the number of batches to time at most; 0: all."""

    cell: Cell
    sample: int
    runs: int
    answers: Answers
    """The oracle's answers to compare with, by logical time; empty: the checked run is digested only."""
    checked: bool = True


@dataclass(frozen=True)
class RunOutput:
    """The output of a run, which must be the same in all runs of a cell. digest: empty if it is not known."""

    digest: str
    changes: int


def answers_of(cell: Cell, sample: int, work: Workload) -> Answers:
    """Compute the oracle's answers at moments of a cell: drawn ones, and the end."""
    chance = Random()  # noqa: S311 (no secret)
    rounds = checkpoints(cell, sample, work, chance)
    inside = range(work.load_rounds, work.rounds)
    times = inner_times(cell, inside, chance) if capabilities(cell.engine).has_stream else []
    wanted = moments(cell, rounds, times)
    answers = oracle_answers(cell, work, wanted.values()).answers
    return {time: answers[moment] for time, moment in wanted.items()}


class WrongError(Exception):
    """An answer that differs from DuckDB's, or a run whose output differs from another run's."""


def measured(job: CellJob, dataset: Dataset, phases: Phases) -> CellReply:
    """Measure a cell; return its figures."""
    try:
        return _measured(job, dataset, phases)
    except WrongError as error:
        return CellReply(status="wrong", problem=str(error))
    except REFUSALS as error:
        return CellReply(status="refused", problem=first_line(error))


def _measured(job: CellJob, dataset: Dataset, phases: Phases) -> CellReply:
    work = workload(dataset, job.cell.workload)
    expected, needed_bytes = _prepare(job, dataset, work)
    phases.wait()
    control = control_work.seconds()
    runs: list[TimedRun] = []
    repeated = 0.0
    while len(runs) < job.runs and repeated < MAX_REPEATED_S:
        resources.touch(needed_bytes)
        resources.reset_peak()
        phases.begin()
        started = time.monotonic()
        run, digest = _timed_run(job, dataset, work)
        if run.latencies and not _nanoseconds(run.seconds):
            actual = f"{run.seconds} s for {len(run.latencies)} batches"
            raise DeltamarkError(f"{job.cell.engine} reports no time", actual, "report times of a monotonic clock")
        runs.append(run)
        repeated += time.monotonic() - started
        outcome = RunOutput(digest or (expected.digest if expected else ""), run.changes)
        expected = expected or outcome
        if outcome != expected:
            raise WrongError(f"run {len(runs)} has {_words(outcome)}; another run has {_words(expected)}")
    assert expected
    return _figures(job, runs, control, expected.digest)


def _prepare(job: CellJob, dataset: Dataset, work: Workload) -> tuple[RunOutput | None, int]:
    """Run a cell without timing it, which compiles and loads its code; return the outcome if that run is checked.

    Return also the bytes that a timed run will allocate: 0 if they are not known, or if a session keeps its memory.
    """
    engine = capabilities(job.cell.engine)
    if engine.has_session:
        warm_up(job.cell, dataset, work)
    if engine.checked_while_timed or not job.checked:
        return None, 0
    run, check = checked_run(job, dataset, work)
    return RunOutput(check.digest, run.changes), 0 if engine.has_session else run.state_bytes


def _run(job: CellJob, dataset: Dataset, work: Workload, check: RunCheck | None) -> TimedRun:
    sink, cell = None if check is None else check.add, job.cell
    if cell.engine == DEFAULT_ENGINE:
        cell = cell.but(workers=measured_workers(cell))
    run = timing.run(cell, job.sample, work, lambda: open_engine(cell, dataset, work, sink), check)
    if check is not None and check.problem:
        raise WrongError(check.problem)
    return run


def _timed_run(job: CellJob, dataset: Dataset, work: Workload) -> tuple[TimedRun, str]:
    """Time a run; return its digest, too, if it is checked itself."""
    engine = capabilities(job.cell.engine)
    if not engine.checked_while_timed:
        return _run(job, dataset, work, None), ""
    run, check = checked_run(job, dataset, work)
    return run, check.digest


def checked_run(job: CellJob, dataset: Dataset, work: Workload) -> tuple[TimedRun, RunCheck]:
    """Run a cell and compare its output; return the finished check, too. A wrong output raises a WrongError."""
    check = open_check(job.cell, work, job.answers)
    run = _run(job, dataset, work, check)
    counts = capabilities(job.cell.engine).output != "answers" and run.fully_timed
    if counts and check.changes != run.changes:
        raise WrongError(f"the engine emitted {check.changes} changes, but counted {run.changes}")
    return run, check


def warm_up(cell: Cell, dataset: Dataset, work: Workload) -> None:
    """Run a few small batches in the session that will be timed."""
    rounds = min(cell.logical * cell.physical, MAX_WARM_UP_ROUNDS)
    logical = min(cell.logical, rounds)
    small = cell.but(logical=logical, physical=rounds // logical)
    if capabilities(cell.engine).has_stream:
        with closing(open_stream(small, dataset, work)) as stream:
            until = min(WARM_UP_BATCHES * small.logical * small.physical, work.rounds)
            deque(stream.changes(until, no_report), maxlen=0)
        return
    with closing(open_engine(small, dataset, work)) as engine:
        for _ in range(WARM_UP_BATCHES):
            if engine.take(small.physical):
                engine.apply()


def _figures(job: CellJob, runs: list[TimedRun], control: float, digest: str) -> CellReply:
    best = min(runs, key=lambda run: run.seconds)
    # the first batch of a window holds all rows of the small relations
    first = job.cell.workload.startswith("window:") and best.fully_timed
    ordered = sorted(best.latencies[first:] or best.latencies)
    traced = len(best.latencies) <= MAX_TRACED_BATCHES
    separate = [run for run in runs if run.has_own_process]
    times = {
        "seconds": [run.seconds for run in runs], "cpu": [run.cpu for run in runs], "cut": [run.cut for run in runs],
        "outside": [run.outside for run in runs if run.outside], "untimed": [run.untimed for run in separate],
        "timed_cpu": [run.timed_cpu for run in separate], "untimed_cpu": [run.untimed_cpu for run in separate],
        **{name: [percentile(ordered, percent)] for name, percent in PERCENTILES.items()},
        "trace_seconds": best.latencies if traced else [],
    }  # fmt: skip
    counts = {
        "requests": best.requests if best.has_own_process else 0, "recomputed": int(best.recomputed),
        "sampled": int(not best.fully_timed), "tuples": best.tuples, "changes": best.changes,
        "batches": len(best.latencies), "state_rows": best.state_rows,
        "state_bytes": max(run.state_bytes for run in runs), "peak_bytes": max(run.peak_bytes for run in runs),
    }  # fmt: skip
    known: dict[str, list[float]] = {
        **{name: [_nanoseconds(value) for value in values] for name, values in times.items()},
        **{name: [value] for name, value in counts.items() if value},
        "trace_rows": list(best.loaded_by) if traced else [], "compared": sorted(job.answers),
    }  # fmt: skip
    return CellReply(
        control=control, digest=digest, verified="oracle" if job.answers else "",
        figures={name: values for name, values in known.items() if values},
    )  # fmt: skip


def _words(outcome: RunOutput) -> str:
    return f"{outcome.changes} changes ({outcome.digest})"


def _nanoseconds(seconds: float) -> float:
    """Round to nanoseconds, the resolution of the clock."""
    return round(seconds, 9)
