"""The change stream of a cell: an engine fed with a workload up to some time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from deltamark.dataflow.batch import Batch, concatenated
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import TIMES_PER_ROUND, Feed
from deltamark.datagen.schema import RelationName, relation
from deltamark.datagen.workload import Workload, workload
from deltamark.errors import DeltamarkError
from deltamark.harness.engines.embedded import Engine, Whole
from deltamark.harness.engines.inputs import batches
from deltamark.harness.measure.cell import Cell


@dataclass(frozen=True)
class End:
    """Where a stream is to end: after so many rounds, and with what has at most this time."""

    rounds: int
    time: int


def asked(work: Workload, logical: int, rounds: int | None, time: int | None) -> End:
    """End where a command asks for it."""
    return after(work, logical, rounds) if time is None else at(work, logical, time)


def after(work: Workload, logical: int, rounds: int | None = None) -> End:
    """End after so many rounds, or after all."""
    end = work.rounds if rounds is None else work.check_end(rounds, logical)
    return End(end, max(_last(end, logical), 0))


def at(work: Workload, logical: int, time: int) -> End:
    """End with a logical time."""
    last = _last(work.rounds, logical)
    if not 0 <= time <= last:
        raise DeltamarkError("no such time in this stream", time, f"ask for one from 0 to {last}")
    return End(min((time // TIMES_PER_ROUND + 1) * logical, work.rounds), time)


def _last(rounds: int, logical: int) -> int:
    return (rounds - 1) // logical * TIMES_PER_ROUND + TIMES_PER_ROUND - 1


def wanted(engine: Engine) -> dict[RelationName, tuple[str, ...]]:
    """Return which columns of which relations an engine is fed."""
    return {relation(name).name: columns for name, columns in engine.inputs.items()}


def nothing(_done: int, _total: int) -> None:
    """Report no progress."""


def changes(
    cell: Cell, dataset: Dataset, engine: Engine | Whole, end: End, report: Callable[[int, int], None] = nothing
) -> Iterator[Batch]:
    """Feed an engine, or have it feed itself; yield the changes of the answer, batch by batch."""
    if isinstance(engine, Whole):
        yield from (_until(out, end.time) for out in engine.changes(end.rounds))
        return
    work = workload(dataset, cell.workload)
    feed = Feed(dataset, work, wanted(engine), logical=cell.logical, until=end.rounds)
    yield engine.feed({})
    while not feed.done:
        out = engine.feed(batches(feed.take(cell.physical)))
        report(feed.round, end.rounds)
        yield out if not feed.done else _until(out, end.time)


def _until(out: Batch, time: int) -> Batch:
    kept = int(np.searchsorted(out.time, time, side="right"))
    return Batch(out.time[:kept], out.diff[:kept], {name: each[:kept] for name, each in out.columns.items()})


def gathered(stream: Iterator[Batch], rows: int) -> Iterator[Batch]:
    """Put small batches together, until there are so many rows."""
    waiting: list[Batch] = []
    held = 0
    for each in stream:
        if len(each.time):
            waiting.append(each)
            held += len(each.time)
        if held >= rows:
            yield concatenated(waiting)
            waiting, held = [], 0
    if waiting:
        yield concatenated(waiting)
