"""A sample: one process runs a cell a few times, and sums the shortest time of each batch over all batches.

Every run does the same work in a batch, so a longer time of the same batch has an outside cause: the first touch of a
page, or another program. The minimum of each batch removes a disturbance in one batch; the minimum of whole runs would
need one run without any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import workload
from deltamark.harness.engines.registry import open_engine
from deltamark.harness.measure import resources, timing
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.messages import SampleReply

RUNS = 3


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
    """Return a cell's time, its state at the end of a run and its peak memory."""
    resources.reset_peak()
    before = resources.peak()
    runs: list[SampledRun] = []
    for _ in range(RUNS):
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
        run = timing.run(cell, 0, work, lambda: open_engine(cell, dataset, work))
        peak = run.peak_bytes if run.has_own_process else None
        return SampledRun(run.latencies, (run.changes,), run.state_bytes, peak, run.state_rows)

    return run_once
