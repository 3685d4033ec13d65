"""What is done in the child of a cell: its checked run, and its timed runs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import Any

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workload import Workload, workload
from deltamark.harness.check.checked_run import Answers, StoredCheck, Told
from deltamark.harness.engines.embedded import collection
from deltamark.harness.engines.registry import RECOMPUTING, open_check, open_subject
from deltamark.harness.engines.spark import SPARK, Distributed, Streamed
from deltamark.harness.engines.spark_sql import SPARK_SQL
from deltamark.harness.measure import control_work, resources, timing
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.child import Stages
from deltamark.harness.measure.stats import percentile
from deltamark.harness.measure.timing import Drive, Handed, Run
from deltamark.harness.results.record import SPREAD

PATIENCE = 1.5
"""Seconds after which no further run is begun."""

WARM, WARM_ROUNDS = 3, 100_000
"""Batches of an untimed run on Spark, and the most rounds of one. Timed runs on Spark are checked themselves."""

FEW = 100
"""Batches of which a record keeps each."""

PERCENTILES = dict(zip(SPREAD, (50, 95, 99, 100), strict=True))


@dataclass(frozen=True)
class Job:
    """A cell to be measured."""

    cell: Cell
    sample: int
    runs: int
    answers: Answers
    """To compare the checked run with; none: it is digested only."""
    checked: bool = True


class WrongError(Exception):
    """An answer that is not DuckDB's, or a run that says other things than another."""


def measured(job: Job, dataset: Dataset, stage: Stages) -> dict[str, Any]:
    """Return what a record says of a cell."""
    try:
        return _measured(job, dataset, stage)
    except WrongError as error:
        return {"status": "wrong", "problem": str(error)}


def _measured(job: Job, dataset: Dataset, stage: Stages) -> dict[str, Any]:
    work = workload(dataset, job.cell.workload)
    digest, changes = _warmed(job, dataset, work)
    stage.wait()
    found: dict[str, Any] = {"control": control_work.seconds()}
    resources.reset_peak()
    runs: list[Run] = []
    started = time.monotonic()
    while len(runs) < job.runs and (not runs or time.monotonic() - started < PATIENCE):
        stage()
        run, stored = _run(job, dataset, work)
        runs.append(run)
        digest, changes = digest or stored, run.changes if changes is None else changes
        if (stored or digest, run.changes) != (digest, changes):
            problem = f"{run.changes} changes in run {len(runs)} ({stored or digest}), where another has shown"
            raise WrongError(f"{problem} {changes} ({digest})")
    found |= {"digest": digest, "verified": "oracle" if job.answers else ""}
    return {"status": "ok", **found, **_summary(job, runs)}


def _warmed(job: Job, dataset: Dataset, work: Workload) -> tuple[str, int | None]:
    """Run a cell untimed, checked if timed runs are not; return its digest and how many changes they show."""
    if job.cell.engine in (SPARK, SPARK_SQL):
        _warm_spark(_small(job.cell), dataset, work)
        return "", None
    if not job.checked or job.cell.engine in RECOMPUTING:
        return "", None
    check = open_check(job.cell, dataset, work, job.answers)
    run = timing.run(job.cell, job.sample, work, lambda: Handed(check, job.cell, dataset, work))
    if check.wrong:
        raise WrongError(check.wrong)
    return check.digest, run.changes


def _small(cell: Cell) -> Cell:
    """Return a cell whose batches are no larger than a warm-up needs."""
    rounds = min(cell.logical * cell.physical, WARM_ROUNDS)
    logical = min(cell.logical, rounds)
    return cell.but(logical=logical, physical=rounds // logical)


def _warm_spark(cell: Cell, dataset: Dataset, work: Workload) -> None:
    """Run a few batches in the session that will be timed."""
    if cell.engine == SPARK:
        engine = Distributed(cell, dataset, collection(cell, dataset, work))
        with closing(engine):
            deque(engine.changes(min(WARM * cell.logical * cell.physical, work.rounds)), maxlen=0)
        return
    with closing(open_subject(cell, dataset, work)) as drive:
        for _ in range(WARM):
            if drive.take(cell.physical):
                drive.push()


def _run(job: Job, dataset: Dataset, work: Workload) -> tuple[Run, str]:
    """Time a run; return the digest of what it has stored, too, if it stores what it says."""
    if job.cell.engine != SPARK:
        return timing.run(job.cell, job.sample, work, _timed(job, dataset, work)), ""
    plan = collection(job.cell, dataset, work)
    opened = cache(lambda: StoredCheck(Streamed(job.cell, dataset, plan), Told(job.cell, plan.schema, job.answers)))
    run = timing.run(job.cell, job.sample, work, opened)
    told = opened().told
    if told.wrong:
        raise WrongError(told.wrong)
    if told.changes != run.changes:
        raise WrongError(f"{told.changes} changes are stored, where {run.changes} were counted")
    return run, told.digest


def _timed(job: Job, dataset: Dataset, work: Workload) -> Callable[[], Drive]:
    """Say how to open what is timed. DuckDB's last answer, which is there anyway, is compared after the timing."""
    if job.cell.engine not in RECOMPUTING or not job.answers:
        return lambda: open_subject(job.cell, dataset, work)

    def make() -> Drive:
        subject = _Insisting(open_check(job.cell, dataset, work, job.answers))
        return Handed(subject, job.cell, dataset, work)

    return make


class _Insisting:
    """A check that fails at once."""

    def __init__(self, check: Any) -> None:
        self._check = check
        self.inputs, self.prepare, self.push = check.inputs, check.prepare, check.push
        self.advance, self.state_rows = check.advance, check.state_rows

    def close(self) -> None:
        self._check.close()
        if self._check.wrong:
            raise WrongError(self._check.wrong)


def _summary(job: Job, runs: list[Run]) -> dict[str, Any]:
    best = min(runs, key=lambda run: run.seconds)
    first = job.cell.workload.startswith("window:") and best.whole  # its first batch has all of the small relations
    ordered = sorted(best.latencies[first:] or best.latencies)
    return {
        "seconds": [_nanoseconds(run.seconds) for run in runs], "cpu": [_nanoseconds(run.cpu) for run in runs],
        "cut": [_nanoseconds(run.cut) for run in runs],
        "tuples": best.tuples, "changes": best.changes, "batches": len(best.latencies), "fully_timed": best.whole,
        "latency": {name: _nanoseconds(percentile(ordered, each)) for name, each in PERCENTILES.items()},
        "trace": list(zip(best.at, map(_nanoseconds, best.latencies), strict=True)) if len(best.at) <= FEW else [],
        "state_rows": best.state_rows, "state_bytes": max(run.state_bytes for run in runs),
        "peak_bytes": max(run.peak_bytes for run in runs),
    }  # fmt: skip


def _nanoseconds(seconds: float) -> float:
    """Leave the digits that no clock has away."""
    return round(seconds, 9)
