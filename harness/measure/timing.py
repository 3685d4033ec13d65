"""One timed run of a cell. Every published speed comes from this module.

The clock runs from the moment the engine takes a batch until it has counted the last change of the answer. Batches are
cut before that, and cutting is timed on its own. An engine that takes several batches at a time applies them one after
another, and reports the time of each by a clock of its own. The clock of an external engine excludes the pipe. That of
our engine, with one worker and batches of at most 50,000 rounds, excludes the call from Python, which takes longer than
a batch of a few rows. If a stream has too many batches to time them all, windows spread evenly over the stream are
timed, and between them the engine is fed large batches.

An engine with a process of its own could work while no clock runs. Therefore its CPU time is taken in the clock and
outside of it, and results/plausibility.py compares both with its time.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.check.run_check import RunCheck
from deltamark.harness.engines.base import Engine, batches_at_a_time
from deltamark.harness.measure import resources
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.windows import Span, spans

LOAD_ROUNDS = 100_000
"""The rounds of a batch between two windows. Not tuned."""

LIST_EVERY_S = 0.2
"""The time between two lists of the processes of an engine. A list takes about 5 ms if 200 processes run."""


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


def run(
    cell: Cell, sample: int, work: Workload, opened: Callable[[], Engine], check: RunCheck | None = None
) -> TimedRun:
    """Run a cell to the end of its stream. sample: the number of batches to time at most; 0: all."""
    gc.collect()
    own = resources.MemoryUse()
    engine, figures = opened(), TimedRun()
    memory, figures.has_own_process = engine.memory or own, engine.memory is not None
    try:
        running = _Running(engine, check, figures, resources.CpuUse(LIST_EVERY_S if engine.memory else math.inf))
        figures.opened_bytes = memory.now
        gc.disable()
        windows = spans(work, cell.reads, cell.logical * cell.physical, sample)
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
        if check is not None:
            engine.finish()
            check.finish(engine)
    finally:
        gc.enable()
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
    cpu: resources.CpuUse

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

    def _time_several(self, window: Span, physical: int) -> None:
        """Time batches by the clock of the engine, which takes several of them at a time."""
        clock, processor = time.perf_counter, time.process_time
        engine, figures, feed = self.engine, self.figures, self.engine.feed
        rounds = physical * feed.logical
        while not feed.done and feed.round < window[1]:
            self._compare()
            left = -(-(window[1] - feed.round) // rounds)
            started = clock()
            rows = engine.take_several(physical, min(batches_at_a_time(rounds), left))
            self._taken()
            used, taken = processor(), clock()
            figures.cut += taken - started
            if not rows:
                continue
            applied = engine.apply_several()
            figures.outside += clock() - taken
            self._applied(processor() - used)
            for number, (changes, seconds) in zip(rows, applied, strict=True):
                self._count(number, changes, seconds)

    def _time_each(self, window: Span, physical: int) -> None:
        clock, processor = time.perf_counter, time.process_time
        engine, figures, feed = self.engine, self.figures, self.engine.feed
        while not feed.done and feed.round < window[1]:
            self._compare()
            started = clock()
            rows = engine.take(physical)
            self._taken()
            used, taken = processor(), clock()
            figures.cut += taken - started
            if rows:
                changes = engine.apply()
                elapsed = clock() - taken
                self._applied(processor() - used)
                if engine.own_seconds is not None:
                    figures.outside += elapsed
                    elapsed = engine.own_seconds
                self._count(rows, changes, elapsed)

    def _compare(self) -> None:
        """Compare the answer that is due before the next batch."""
        if self.check is not None:
            self.check.before_batch(self.engine)

    def _taken(self) -> None:
        """Count the CPU time outside the clock."""
        passed = self.cpu.passed()
        self.figures.untimed_cpu += passed
        self.figures.cpu += passed

    def _applied(self, own_cpu: float) -> None:
        """Count a timed request. own_cpu: the CPU seconds of this process."""
        figures, passed = self.figures, self.cpu.passed()
        figures.timed_cpu += passed
        figures.cpu += passed + own_cpu
        figures.untimed += self.engine.untimed_seconds
        figures.requests += 1

    def _count(self, rows: int, changes: int, seconds: float) -> None:
        """Count a timed batch."""
        figures = self.figures
        figures.changes += changes
        figures.latencies.append(seconds)
        figures.tuples += rows
        figures.loaded += rows
        figures.loaded_by.append(figures.loaded)
