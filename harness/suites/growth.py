"""The measurement of growth: the time of the same changes over bases of several sizes.

The base is loaded untimed. Then single rows leave and come back, in the workload `swap`, so the base keeps its size. A
run is a cycle of this workload, in which each relation has a block of batches. The first runs have few batches and are
not counted: they load code, and show how many batches of each block fit into a timed run. The others are skipped.

An engine with a clock of its own is timed by it. For any other engine the CPU time of the harness and of the processes
that it has started counts, because the clock on the wall also counts the work of other programs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import workload
from deltamark.datagen.workloads.swap import BLOCK, swapped
from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import WrongAnswerError
from deltamark.harness.engines.base import Engine
from deltamark.harness.engines.registry import capabilities, open_engine
from deltamark.harness.measure.client import CellReply, WrongError
from deltamark.harness.measure.runs import LOAD_ROUNDS, answers_of, checked_run
from deltamark.harness.results.record import Figures
from deltamark.harness.suites.grid import RECOMPUTED_BATCHES
from deltamark.harness.system.clock import CpuUse, Stopwatch, without_collections
from deltamark.harness.system.resources import MemoryUse

CHECKED_ROWS = 100_000
"""The largest base whose answers are compared with DuckDB's: in TPC-H that of scale factor 0.01."""

FIRST_RUNS = 3
"""The runs that are not counted: the fastest one is hardly disturbed by other programs."""

RUN_SECONDS, MIN_BATCHES = 0.5, 4
"""The time of a run, and the batches of a block that are timed at least. Neither is tuned."""

SECONDS, MAX_RUNS = 1.0, 40
"""Runs are repeated for this time at least, but no more often than this, unless RUNS is more. Neither is tuned."""

REMEDY = "make verify WORKLOAD=swap:1000 shows the first difference"


@dataclass(frozen=True)
class Applied:
    """The batches of a block. rows: that they change; changes: of the answer."""

    batches: int = 0
    rows: int = 0
    changes: int = 0
    seconds: float = 0.0


def measure(cell: Cell, data: Path, runs: int) -> Iterator[CellReply]:
    """Time the changes over one base; yield a row."""
    dataset = Dataset.open(data)
    names = swapped(dataset.relations)
    cycle, base = BLOCK * len(names), sum(dataset.rows(name) for name in cell.reads)
    if base <= CHECKED_ROWS:
        _check(cell.but(workload=f"swap:{cycle}"), dataset)
    most = max(runs, MAX_RUNS)
    cell = cell.but(workload=f"swap:{(FIRST_RUNS + most) * cycle}")
    work = workload(dataset, cell.workload)
    own = MemoryUse()
    with closing(open_engine(cell, dataset, work)) as engine, without_collections():
        load(engine, work)
        stored, memory = engine.stored_bytes(), engine.memory or own
        figures: Figures = {"base": [base], "bytes": [memory.growth if stored is None else stored]}
        running = _Running(engine, names, CpuUse(math.inf))
        size = _fitting([running.run(MIN_BATCHES) for _ in range(FIRST_RUNS)])
        found = [running.run(size)]
        while len(found) < runs or (len(found) < most and _seconds(found) < SECONDS):
            found.append(running.run(size))
    yield CellReply(figures=figures | _figures(cell, names, found), verified="oracle" if base <= CHECKED_ROWS else "")


def _check(cell: Cell, dataset: Dataset) -> None:
    """Compare a cycle with DuckDB's answers."""
    sampled = cell.but(sample=RECOMPUTED_BATCHES if capabilities(cell.engine).recomputes else 0)
    work = workload(dataset, cell.workload)
    try:
        checked_run(sampled, answers_of(sampled, work), dataset, work)
    except WrongError as error:
        raise WrongAnswerError("a wrong answer", f"{cell}, {error}", REMEDY) from error


def load(engine: Engine, work: Workload) -> None:
    """Load the base, untimed."""
    while engine.feed.round < work.load_rounds:
        if engine.take(min(LOAD_ROUNDS, work.load_rounds - engine.feed.round)):
            engine.load()


def _fitting(first: Sequence[Sequence[Applied]]) -> int:
    """Return the number of batches of a block, an even one, with which a run takes about RUN_SECONDS."""
    share = RUN_SECONDS / max(min(_seconds([run]) for run in first), 1e-9)
    return min(max(2 * int(share * MIN_BATCHES / 2), MIN_BATCHES), BLOCK)


@dataclass(frozen=True)
class _Running:
    """An engine with the base loaded. names: the relations, whose blocks follow one another."""

    engine: Engine
    names: Sequence[str]
    cpu: CpuUse

    def run(self, size: int) -> list[Applied]:
        """Apply the first batches of the block of each relation."""
        return [self._block(size) for _ in self.names]

    def _block(self, size: int) -> Applied:
        """Apply the first batches of a block one by one, without those in which the query reads no rows."""
        engine, rows, applied = self.engine, list[int](), list[tuple[int, float]]()
        if engine.takes_several:
            if rows := engine.take_several(1, size):
                applied = engine.apply_several()
        else:
            for _ in range(size):
                if taken := engine.take(1):
                    rows.append(taken)
                    applied.append(self._applied())
        if size < BLOCK and engine.take(BLOCK - size):
            engine.load()
        changes, seconds = (sum(each) for each in zip(*applied, strict=True)) if applied else (0, 0.0)
        return Applied(len(applied), sum(rows), int(changes), seconds)

    def _applied(self) -> tuple[int, float]:
        """Apply a batch; return the changes of the answer and the seconds."""
        self.cpu.passed()
        with Stopwatch() as watch:
            changes = self.engine.apply()
        own = self.engine.own_seconds
        return changes, watch.cpu + self.cpu.passed() if own is None else own


def _seconds(runs: Sequence[Sequence[Applied]]) -> float:
    return sum(block.seconds for run in runs for block in run)


def _figures(cell: Cell, names: Sequence[str], runs: Sequence[Sequence[Applied]]) -> Figures:
    """Return the counts of a run, which are those of any, and by relation the seconds of each."""
    first = runs[0]
    figures: Figures = {
        "batches": [sum(block.batches for block in first)],
        "rows": [sum(block.rows for block in first)],
    }
    if capabilities(cell.engine).output != "answers":  # an answer has no changes
        figures["changes"] = [sum(block.changes for block in first)]
    for name, *blocks in zip(names, *runs, strict=True):
        if blocks[0].rows:
            figures |= {f"seconds_{name}": [block.seconds for block in blocks], f"rows_{name}": [blocks[0].rows]}
    return figures
