"""One timed run of a cell. Every published speed comes from this module.

The clock runs from the moment the engine takes a batch until it has counted the last change of the answer. Batches are
cut before that, and cutting is timed on its own. An engine that takes several batches at a time applies them one after
another, and reports the time of each by a clock of its own. The clock of an external engine excludes the pipe. That of
our engine, with one worker and batches of at most 50,000 rounds, excludes the call from Python, which takes longer than
a batch of a few rows. If a stream has too many
batches to time them all, windows spread evenly over the stream are timed, and between them the engine is fed large
batches.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.check.run_check import RunCheck
from deltamark.harness.engines.base import Engine, batches_at_a_time
from deltamark.harness.measure import resources
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.windows import Span, spans
from deltamark.queries.catalogue import query

LOAD_ROUNDS = 100_000
"""The rounds of a batch between two windows. Not tuned."""


@dataclass
class TimedRun:
    """The figures of a run; times in seconds."""

    seconds: float = 0.0
    outside: float = 0.0
    """By the clock of the harness, if the engine reports its own times; otherwise 0."""
    cpu: float = 0.0
    cut: float = 0.0
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
        figures.opened_bytes = memory.now
        gc.disable()
        windows = spans(work, query(cell.query).relations, cell.logical * cell.physical, sample)
        figures.fully_timed = len(windows) == 1 and windows[0][0] == 0
        for window in windows:
            _load(engine, check, window[0], cell.logical, figures)
            if engine.takes_several:
                _time_several(engine, check, window, cell.physical, figures)
            else:
                _time(engine, check, window, cell.physical, figures)
        _load(engine, check, work.rounds, cell.logical, figures)
        figures.seconds = sum(figures.latencies)
        figures.recomputed = engine.recomputes_query
        figures.state_rows = engine.state_rows()
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


def _load(engine: Engine, check: RunCheck | None, stop: int, logical: int, figures: TimedRun) -> None:
    """Feed all rounds before `stop` without timing them."""
    feed = engine.feed
    while not feed.done and feed.round < stop:
        if check is not None:
            check.before_batch(engine)
        rounds = min(LOAD_ROUNDS, stop - feed.round)
        if rows := engine.take(max(rounds // logical, 1)):
            engine.load()
            figures.loaded += rows


def _time_several(engine: Engine, check: RunCheck | None, window: Span, physical: int, figures: TimedRun) -> None:
    """Time the batches of a window by the clock of the engine, which takes several of them at a time."""
    clock, processor, feed = time.perf_counter, time.process_time, engine.feed
    descendants = resources.cpu_of_descendants()
    rounds = physical * feed.logical
    while not feed.done and feed.round < window[1]:
        if check is not None:
            check.before_batch(engine)
        left = -(-(window[1] - feed.round) // rounds)
        started = clock()
        rows = engine.take_several(physical, min(batches_at_a_time(rounds), left))
        used, taken = processor(), clock()
        figures.cut += taken - started
        if not rows:
            continue
        applied = engine.apply_several()
        figures.outside += clock() - taken
        figures.cpu += processor() - used
        for number, (changes, seconds) in zip(rows, applied, strict=True):
            figures.changes += changes
            figures.latencies.append(seconds)
            figures.tuples += number
            figures.loaded += number
            figures.loaded_by.append(figures.loaded)
    figures.cpu += resources.cpu_since(descendants)


def _time(engine: Engine, check: RunCheck | None, window: Span, physical: int, figures: TimedRun) -> None:
    clock, processor, feed = time.perf_counter, time.process_time, engine.feed
    descendants = resources.cpu_of_descendants()
    while not feed.done and feed.round < window[1]:
        if check is not None:
            check.before_batch(engine)
        started = clock()
        rows = engine.take(physical)
        used, taken = processor(), clock()
        figures.cut += taken - started
        if rows:
            figures.changes += engine.apply()
            elapsed = clock() - taken
            if engine.own_seconds is not None:
                figures.outside += elapsed
                elapsed = engine.own_seconds
            figures.latencies.append(elapsed)
            figures.cpu += processor() - used
            figures.tuples += rows
            figures.loaded += rows
            figures.loaded_by.append(figures.loaded)
    figures.cpu += resources.cpu_since(descendants)
