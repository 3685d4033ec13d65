"""The measurer: one cell, measured. Every speed that is ever claimed comes out of here.

Timed is what an engine does, from taking the first batch to having counted the last change: batches are cut before,
one by one, and their cutting is timed on its own. A run that shows other changes than the first is an error.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dataflow.embedded import Embedded
from datagen.dataset import Dataset
from datagen.feed import Feed
from datagen.workload import workload
from deltamark import DeltamarkError
from harness.cell import Cell
from harness.engines import Engine, open_taking
from harness.sources import batches
from harness.stream import wanted


@dataclass
class Run:
    """One run of a cell; times in seconds."""

    latencies: list[float]
    cut: float = 0.0
    tuples: int = 0
    changes: int = 0


@dataclass
class Record:
    """What was seen of a cell; times in seconds, latencies of all batches of the fastest run."""

    cell: Cell
    walls: list[float] = field(default_factory=list)
    cuts: list[float] = field(default_factory=list)
    tuples: int = 0
    changes: int = 0
    batches: int = 0
    state_rows: int = 0
    latencies: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        return min(self.walls)

    def latency(self, percent: float) -> float:
        """Return a percentile of the latencies."""
        ordered = sorted(self.latencies)
        return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)]

    @property
    def spread(self) -> float:
        """How far the median run lies above the fastest, as a share."""
        return statistics.median(self.walls) / self.best - 1


def measure(cell: Cell, dataset: Dataset, make: Callable[[], Engine], runs: int) -> Record:
    """Run a cell once to warm up and then `runs` times."""
    record = Record(cell)
    for run in range(runs + 1):
        engine = make()
        try:
            _run(record, dataset, engine, counts=run > 0)
        finally:
            engine.close()
    return record


def _run(record: Record, dataset: Dataset, engine: Engine, *, counts: bool) -> None:
    cell, clock = record.cell, time.perf_counter
    feed = Feed(dataset, workload(dataset, cell.workload), wanted(engine), logical=cell.logical)
    latencies: list[float] = []
    cut = tuples = changes = 0.0
    while not feed.done:
        started = clock()
        taken = batches(feed.take(cell.physical))
        handed = clock()
        if taken:
            changes += engine.push(taken)
            latencies.append(clock() - handed)
            tuples += sum(len(batch.time) for batch in taken.values())
        cut += handed - started
    _write_down(record, engine, Run(latencies, cut, int(tuples), int(changes)), counts=counts)


def measure_workers(cells: list[Cell], dataset: Dataset, runs: int) -> list[Record]:
    """Run cells that differ in their workers by turns, once to warm up and then `runs` times."""
    records = [Record(cell) for cell in cells]
    for run in range(runs + 1):
        for record in records:
            engine, feed = open_taking(record.cell, dataset, workload(dataset, record.cell.workload))
            try:
                _run_taking(record, engine, feed, counts=run > 0)
            finally:
                engine.close()
    return records


def _run_taking(record: Record, engine: Embedded, feed: Feed, *, counts: bool) -> None:
    clock, run = time.perf_counter, Run([])
    while not feed.done:
        started = clock()
        rows = engine.take(record.cell.physical)
        handed = clock()
        if rows:
            run.changes += engine.push_taken()
            run.latencies.append(clock() - handed)
            run.tuples += rows
        run.cut += handed - started
    _write_down(record, engine, run, counts=counts)


def _write_down(record: Record, engine: Engine, run: Run, *, counts: bool) -> None:
    if counts and run.changes != record.changes:
        raise DeltamarkError(
            f"another number of changes than before in {record.cell}", run.changes, f"it was {record.changes}"
        )
    record.changes, record.tuples, record.batches = run.changes, run.tuples, len(run.latencies)
    record.state_rows = engine.state_rows()
    if counts:
        if not record.walls or sum(run.latencies) < record.best:
            record.latencies = run.latencies
        record.walls.append(sum(run.latencies))
        record.cuts.append(run.cut)


def measure_rounds(cell: Cell, dataset: Dataset, engine: Engine, rounds: int) -> list[Record]:
    """Measure single batches over `rounds` rounds at the start, a quarter and the end of the load."""
    work = workload(dataset, cell.workload)
    feed = Feed(dataset, work, wanted(engine), logical=cell.logical)
    records, clock = [], time.perf_counter
    for start in (0, work.rounds // 4, work.rounds - rounds):
        while feed.round < start:
            engine.push(batches(feed.take(min(100_000, start - feed.round))))
        record = Record(cell)
        for _ in range(rounds):
            taken = batches(feed.take(cell.physical))
            began = clock()
            record.changes += engine.push(taken)
            record.latencies.append(clock() - began)
        records.append(record)
    return records
