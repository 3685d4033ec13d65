"""The measurer: a cell, run once. Every speed that is ever claimed comes out of here.

Timed is what an engine does, from taking a batch to having counted the last change: batches are cut before, one by one,
and their cutting is timed on its own. Of streams that are too long only windows are timed, and between them the engine
is fed large batches.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta, Feed
from deltamark.datagen.schema import RelationName, relation
from deltamark.datagen.workload import Workload
from deltamark.harness.measure import resources
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.windows import Span, spans
from deltamark.queries.catalogue import query

FORWARD_ROUNDS = 100_000
"""In one batch, between windows."""


class Subject(Protocol):
    """What is measured: an engine with a query."""

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """The relations, and the columns that are read from them."""
        ...

    def prepare(self, deltas: list[Delta]) -> Any:
        """Make a batch as the engine takes it; not timed."""
        ...

    def push(self, batch: Any) -> int:
        """Apply a batch; return how many changes (or rows of an answer) came of it."""
        ...

    def advance(self, batch: Any) -> None:
        """Apply a batch of which nobody asks what came."""
        ...

    def state_rows(self) -> int: ...

    def close(self) -> None: ...


class Drive(Protocol):
    """A subject and the feed of its stream: take a batch, then push it."""

    feed: Feed

    def take(self, physical: int) -> int:
        """Cut the next logical batches; return how many rows they have."""
        ...

    def push(self) -> int: ...

    def advance(self) -> None: ...

    def state_rows(self) -> int: ...

    def close(self) -> None: ...


class Handed:
    """A subject that is handed its batches."""

    def __init__(self, subject: Subject, cell: Cell, dataset: Dataset, work: Workload) -> None:
        self.feed = Feed(dataset, work, wanted(subject), logical=cell.logical)
        self._subject, self._batch = subject, None
        self.state_rows, self.close = subject.state_rows, subject.close

    def take(self, physical: int) -> int:
        deltas = self.feed.take(physical)
        self._batch = self._subject.prepare(deltas) if deltas else None
        return sum(len(delta.time) for delta in deltas)

    def push(self) -> int:
        return self._subject.push(self._batch)

    def advance(self) -> None:
        self._subject.advance(self._batch)


def wanted(subject: Subject) -> dict[RelationName, tuple[str, ...]]:
    """Return which columns of which relations a subject is fed."""
    return {relation(name).name: columns for name, columns in subject.inputs.items()}


@dataclass
class Run:
    """What was seen in a run; times in seconds."""

    seconds: float = 0.0
    cpu: float = 0.0
    cut: float = 0.0
    tuples: int = 0
    changes: int = 0
    loaded: int = 0
    """Rows that have come, untimed ones among them."""
    latencies: list[float] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    """How many rows had come by the end of each timed batch."""
    state_rows: int = 0
    state_bytes: int = 0
    peak_bytes: int = 0
    whole: bool = True


def run(cell: Cell, sample: int, work: Workload, make: Callable[[], Drive]) -> Run:
    """Run a cell to the end of its stream, timing all batches or a sample of them."""
    gc.collect()
    before = resources.memory()
    drive, found = make(), Run()
    try:
        gc.disable()
        windows = spans(work, query(cell.query).relations, cell.logical * cell.physical, sample)
        found.whole = len(windows) == 1
        for window in windows:
            _forward(drive, window[0], cell.logical, found)
            _timed(drive, window, cell.physical, found)
        _forward(drive, work.rounds, cell.logical, found)
        found.seconds = sum(found.latencies)
        found.state_rows = drive.state_rows()
        found.state_bytes = max(resources.memory() - before, 0)
        found.peak_bytes = resources.peak()
    finally:
        gc.enable()
        drive.close()
    return found


def _forward(drive: Drive, stop: int, logical: int, found: Run) -> None:
    """Feed all rounds before `stop`, untimed."""
    while not drive.feed.done and drive.feed.round < stop:
        rounds = min(FORWARD_ROUNDS, stop - drive.feed.round)
        if rows := drive.take(max(rounds // logical, 1)):
            drive.advance()
            found.loaded += rows


def _timed(drive: Drive, window: Span, physical: int, found: Run) -> None:
    clock, processor, feed = time.perf_counter, time.process_time, drive.feed
    others = resources.cpu_of_descendants()
    while not feed.done and feed.round < window[1]:
        started = clock()
        rows = drive.take(physical)
        used, handed = processor(), clock()
        found.cut += handed - started
        if rows:
            found.changes += drive.push()
            found.latencies.append(clock() - handed)
            found.cpu += processor() - used
            found.tuples += rows
            found.loaded += rows
            found.at.append(found.loaded)
    found.cpu += resources.cpu_of_descendants() - others
