"""A sample: what one process sees of a cell. It runs the cell a few times and adds up the least time of every batch.

Batches do the same work in every run, so whatever makes one of them slower came from outside: the first touch of a
page, another program. A minimum a batch forgives that where a minimum a run would need a whole run without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from datagen.dataset import Dataset
from datagen.workload import workload
from harness import measure, usage
from harness.cell import Cell
from harness.measure import Run
from harness.subjects import open_subject

RUNS = 3


def sampled(cell: Cell, dataset: Dataset, stage: Callable[[], None]) -> dict[str, Any]:
    """Return a cell's time and memory: what it keeps at the end, and the most that it needed."""
    work = workload(dataset, cell.workload)
    usage.reset_peak()
    before = usage.peak()
    runs: list[Run] = []
    for _ in range(RUNS):
        stage()
        runs.append(measure.run(cell, 0, work, lambda: open_subject(cell, dataset, work)))
    shown = {run.changes for run in runs}
    if len(shown) > 1:
        return {"status": "wrong", "problem": f"{sorted(shown)} changes in runs of one process"}
    return {
        "status": "ok", "time": sum(map(min, zip(*(run.latencies for run in runs), strict=True))),
        "state": max(run.state_bytes for run in runs), "peak": usage.peak() - before,
    }  # fmt: skip
