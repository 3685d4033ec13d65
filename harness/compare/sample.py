"""A sample: what one process sees of a cell. It runs the cell a few times and adds up the least time of every batch.

Batches do the same work in every run, so whatever makes one of them slower came from outside: the first touch of a
page, another program. A minimum a batch forgives that where a minimum a run would need a whole run without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workload import workload
from deltamark.harness.engines.registry import open_engine
from deltamark.harness.measure import resources, timing
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.messages import SampleReply

RUNS = 3


@dataclass(frozen=True)
class Seen:
    """A run: the seconds of each batch, what it has shown (every run must show the same), the bytes kept at its end."""

    latencies: Sequence[float]
    shown: tuple[int, ...]
    state_bytes: int


def sampled(once: Callable[[], Seen], stage: Callable[[], None]) -> SampleReply:
    """Return a cell's time and memory: what it keeps at the end, and the most that it needed."""
    resources.reset_peak()
    before = resources.peak()
    runs: list[Seen] = []
    for _ in range(RUNS):
        stage()
        runs.append(once())
    if len({run.shown for run in runs}) > 1:
        problem = f"runs of one process show {', '.join(str(run.shown) for run in runs)}"
        return SampleReply(status="wrong", problem=problem)
    least = sum(map(min, zip(*(run.latencies for run in runs), strict=True)))
    state = max(run.state_bytes for run in runs)
    return SampleReply(time=least, state=state, peak=resources.peak() - before)


def query_run(cell: Cell, dataset: Dataset) -> Callable[[], Seen]:
    """Return what runs a query."""
    work = workload(dataset, cell.workload)

    def once() -> Seen:
        run = timing.run(cell, 0, work, lambda: open_engine(cell, dataset, work))
        return Seen(run.latencies, (run.changes,), run.state_bytes)

    return once
