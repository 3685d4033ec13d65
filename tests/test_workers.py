"""Any number of workers makes the changes of one, whatever the slices; and their faults, each caused for real."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import cases, cuts, times_of
from reference import changes
from test_laws import HUGE_KEY, OPERATORS, added, arrays, between, inputs_of, long_stream, undone, with_one_key

from dataflow.embedded import Embedded

WORKERS = (2, 3, 5)


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    """Have several rounds in a feed, and times that are larger than a slice."""
    monkeypatch.setattr("dataflow.program.SLICE_ROWS", 3)


def feed(engine, collection, streams):
    schemas = inputs_of(collection)
    out = engine.feed({name: arrays(schemas[name], stream) for name, stream in streams.items() if stream})
    rows = list(zip(*(out.columns[name].tolist() for name in collection.schema.names), strict=True))
    times, diffs = out.time.tolist(), out.diff.tolist()
    assert times == sorted(times)
    assert 0 not in diffs
    stream = dict(zip(zip(times, rows, strict=True), diffs, strict=True))
    assert len(stream) == len(diffs) == len(rows), "an update for each row and time"
    return stream


def sharded(collection, streams, feeds, workers):
    with closing(Embedded(collection, workers)) as engine:
        return added(feed(engine, collection, between(streams, set(times))) for times in feeds)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("name", OPERATORS)
def test_a_feed_of_many_rounds(name, workers):
    collection = OPERATORS[name]
    streams = undone({each: long_stream(schema, len(each), 40) for each, schema in inputs_of(collection).items()})
    times = times_of(streams)
    assert sharded(collection, streams, [times[:20], times[20:]], workers) == changes(collection.node, streams)


@pytest.mark.parametrize("workers", WORKERS)
@settings(max_examples=25)
@given(cases(), st.data())
def test_plans_equal_their_recomputation(workers, case, data):
    feeds = data.draw(cuts(case.streams))
    assert sharded(case.collection, case.streams, feeds, workers) == changes(case.collection.node, case.streams)


@pytest.mark.parametrize("workers", [2, 5])
@pytest.mark.parametrize("name", HUGE_KEY)
def test_all_rows_may_have_one_key(name, workers):
    collection = HUGE_KEY[name]
    streams = {each: with_one_key(schema, len(each), 200) for each, schema in inputs_of(collection).items()}
    assert sharded(collection, streams, [[0, 1, 2, 5]], workers) == changes(collection.node, streams)
