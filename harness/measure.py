"""The measurer: a cell, run once. Every speed that is ever claimed comes out of here.

Timed is what an engine does, from taking a batch to having counted the last change: batches are cut before, one by one,
and their cutting is timed on its own. Of streams that are too long only windows are timed, and between them the engine
is fed large batches.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from datagen.dataset import Dataset
from datagen.feed import Delta, Feed
from datagen.schema import RelationName, relation
from datagen.workload import Workload
from harness import usage
from harness.cell import Cell
from harness.windows import Span, spans

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


@dataclass
class Run:
    """What was seen in a run; times in seconds."""

    seconds: float = 0.0
    cpu: float = 0.0
    cut: float = 0.0
    tuples: int = 0
    changes: int = 0
    latencies: list[float] = field(default_factory=list)
    state_rows: int = 0
    state_bytes: int = 0
    whole: bool = True


def run(cell: Cell, sample: int, dataset: Dataset, work: Workload, make: Callable[[], Subject]) -> Run:
    """Run a cell to the end of its stream, timing all batches or a sample of them."""
    gc.collect()
    before = usage.memory()
    subject = make()
    found = Run()
    try:
        feed = Feed(dataset, work, wanted(subject), logical=cell.logical)
        gc.disable()
        windows = spans(work, subject.inputs, cell.logical * cell.physical, sample)
        found.whole = len(windows) == 1
        for span in windows:
            _forward(subject, feed, span[0], cell.logical)
            _timed(subject, feed, span, cell.physical, found)
        _forward(subject, feed, work.rounds, cell.logical)
        found.seconds = sum(found.latencies)
        found.state_rows = subject.state_rows()
        found.state_bytes = max(usage.memory() - before, 0)
    finally:
        gc.enable()
        subject.close()
    return found


def wanted(subject: Subject) -> dict[RelationName, tuple[str, ...]]:
    """Return which columns of which relations a subject is fed."""
    return {relation(name).name: columns for name, columns in subject.inputs.items()}


def _forward(subject: Subject, feed: Feed, stop: int, logical: int) -> None:
    """Feed all rounds before `stop`, untimed."""
    while not feed.done and feed.round < stop:
        rounds = min(FORWARD_ROUNDS, stop - feed.round)
        if deltas := feed.take(max(rounds // logical, 1)):
            subject.advance(subject.prepare(deltas))


def _timed(subject: Subject, feed: Feed, span: Span, physical: int, found: Run) -> None:
    clock, processor = time.perf_counter, time.process_time
    others = usage.cpu_of_descendants()
    while not feed.done and feed.round < span[1]:
        started = clock()
        deltas = feed.take(physical)
        batch = subject.prepare(deltas) if deltas else None
        used, handed = processor(), clock()
        found.cut += handed - started
        if batch is None:
            continue
        changes = subject.push(batch)
        found.latencies.append(clock() - handed)
        found.cpu += processor() - used
        found.changes += changes
        found.tuples += _rows(deltas)
    found.cpu += usage.cpu_of_descendants() - others


def _rows(deltas: Sequence[Delta]) -> int:
    return sum(len(delta.time) for delta in deltas)
