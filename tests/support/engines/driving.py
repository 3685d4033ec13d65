"""Feeds of engines with streams of plain rows, and the changes of engines in the form of the reference."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Protocol

import numpy as np
import pyarrow as pa
from support.random_plans.streams import Streams, inputs_of, times_of
from support.reference.rows import Stream, Update

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import NULL, Schema, Type


class Engine(Protocol):
    def feed(self, batches: Mapping[str, Batch], /) -> Batch: ...


def arrays(schema: Schema, updates: Sequence[Update]) -> Batch:
    rows, time, diff = zip(*updates, strict=True) if updates else ((), (), ())
    columns = zip(*rows, strict=True) if rows else [()] * len(schema.names)
    found = {name: values(schema[name], each) for name, each in zip(schema.names, columns, strict=True)}
    return Batch(np.array(time, dtype=np.int64), np.array(diff, dtype=np.int64), found)


def values(type_: Type, column: Sequence[int | str]) -> np.ndarray | pa.StringArray:
    if type_.kind == "text":
        return pa.array([None if value == NULL else value for value in column], pa.string())
    return np.array(column, dtype=np.int64)


def feed(engine: Engine, collection: Collection, streams: Streams) -> Stream:
    """Feed all updates at once; check the form of the output."""
    schemas = inputs_of(collection)
    out = engine.feed({name: arrays(schemas[name], stream) for name, stream in streams.items() if stream})
    return stream_of(collection, out)


def stream_of(collection: Collection, batch: Batch) -> Stream:
    """Return the changes of a batch, which must be in order of time, with one change for each row and time."""
    columns = [missing(batch.columns[name].tolist()) for name in collection.schema.names]
    times, diffs = batch.time.tolist(), batch.diff.tolist()
    rows = list(zip(*columns, strict=True)) or [()] * len(times)
    assert times == sorted(times), f"times out of order: {times}"
    assert 0 not in diffs, "a change of weight zero"
    stream = dict(zip(zip(times, rows, strict=True), diffs, strict=True))
    assert len(stream) == len(diffs), "several changes of a row at one time"
    return stream


def missing(column: list[int | str | None]) -> list[int | str]:
    """Replace missing values by the NULL of the reference."""
    return [NULL if value is None else value for value in column]


def maintained(collection: Collection, streams: Streams, feeds: Iterable[Iterable[int]], workers: int = 1) -> Stream:
    """Run a plan over streams whose times are cut into feeds; return all changes together."""
    with closing(Dataflow(collection, workers=workers)) as worker:
        return added(feed(worker, collection, between(streams, set(times))) for times in feeds)


def at_once(collection: Collection, streams: Streams) -> Stream:
    return maintained(collection, streams, [times_of(streams)])


def between(streams: Streams, times: set[int]) -> Streams:
    return {name: [update for update in stream if update[1] in times] for name, stream in streams.items()}


def added(streams: Iterable[Stream]) -> Stream:
    """Return the sum of the changes of several feeds."""
    found: Counter[object] = Counter()
    for stream in streams:
        found.update(stream)
    return {change: diff for change, diff in found.items() if diff}


def undone(streams: Streams) -> Streams:
    """Append the deletion of all live rows, one time after the end."""
    end = max(times_of(streams), default=0) + 1
    live = {name: Counter() for name in streams}
    for name, stream in streams.items():
        for row, _, diff in stream:
            live[name][row] += diff
    return {
        name: [*stream, *((row, end, -diff) for row, diff in live[name].items() if diff)]
        for name, stream in streams.items()
    }


def shuffled(streams: Streams, seed: int) -> Streams:
    """Shuffle the updates within each time."""
    order = random.Random(seed)
    return {
        name: sorted(order.sample(list(stream), len(stream)), key=lambda update: update[1])
        for name, stream in streams.items()
    }
