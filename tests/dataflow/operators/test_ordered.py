"""Extreme, top, moving threshold and null row equal their recomputation over long streams, and keep no deleted row."""

from __future__ import annotations

import random
import re
from collections import Counter
from contextlib import closing
from decimal import Decimal

import numpy as np
import pytest
from support.reference.answers import changes
from support.written_plans.thresholds import above, below

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.builder import program
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col, count
from deltamark.dataflow.operators.input import base_inputs
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import LARGEST, code_type, integer
from deltamark.errors import DeltamarkError

ROWS = 1 << 20
WORDS = code_type(("ant", "bee", "cat"))
items = source("items", {"key": integer(0, 4), "value": integer(-50, 50), "word": WORDS}, ROWS)
distant = source("distant", {"key": integer(-(2**40), 2**40), "value": integer(-LARGEST, LARGEST)}, ROWS)
limits = source("limits", {"key": integer(0, 4), "num": integer(-90, 90), "den": integer(1, 3)}, ROWS)
single = source("single", {"num": integer(-LARGEST, LARGEST)}, ROWS)

PLANS = {
    "largest": items.largest("value", by="key"),
    "smallest": items.smallest("value", by=("word", "key")),
    "largest-of-all": items.largest("value"),
    "by-levels": items.largest("value", levels=(16, 4, 1)),
    "smallest-by-levels": items.smallest("word", by="key", levels=(8, 2)),
    "chosen-levels": items.largest("word"),
    "largest-projected": items.largest("value", by="key").select("word"),
    "extreme-far-apart": distant.largest("value", by="key"),
    "extreme-far-apart-by-levels": distant.smallest("key", levels=(64,)),
    "largest-sum": items.aggregate(("key", "word"), sum=col.value.sum()).largest("sum"),
    "top": items.top(7, ["-value", "word"]),
    "top-one": items.top(1, ["value"]),
    "top-many": items.top(150, ["word", "-key"]),
    "top-far-apart": distant.top(20, ["-value"]),
    "top-sums": items.aggregate(("key", "word"), sum=col.value.sum()).top(3, ["-sum"]),
    "above-own-average": above(
        items, items.aggregate("key", mean=col.value.mean()), col.value, "mean.num", "mean.den", on="key"
    ),
    "below-own-average": below(items, items.aggregate(mean=col.value.mean()), col.value, "mean.num", "mean.den"),
    "above-by-key": above(
        items, limits.threshold(1).largest("num", by="key").count("key"), col.value, "count", on="key"
    ),
    "below-far-apart": below(distant, single.aggregate(n=count()), col.value, "n"),
    "above-projected": above(items, items.count(), 3 * col.value, "count").select("word"),
    "or-null": items.or_null(),
    "or-null-of-a-sum": items.where(col.value > 40).aggregate(sum=col.value.sum()).or_null(),
}


def updates(schema, seed, times, live_rows, widest):
    """Return updates of the rows of a small pool: many at each time, in parts, deletions before insertions."""
    draw = random.Random(seed)
    ranges = [(field.type.low, field.type.high) for field in schema.fields]
    pool = [
        tuple(draw.choice([draw.randint(*each), each[0], each[1]]) for each in ranges) for _ in range(3 * live_rows)
    ]
    live, found = Counter(), []
    for time in range(0, 2 * times, 2):
        part = []
        for _ in range(draw.choice([1, 1, 2, widest])):
            grow = sum(live.values()) < live_rows * draw.random() * 2
            row = draw.choice(pool) if grow or not live else draw.choice(list(live))
            target = draw.choice([1, 1, 2, 3]) if grow else 0
            part += [(row, time, diff) for diff in (target - live[row] - 2, 2) if diff]
            live[row] = target
            live = +live
        found += draw.sample(part, len(part))
    return found, live


def inputs_of(collection):
    return {node.name: node.schema for node in base_inputs(collection.node)}


def batch(schema, stream):
    rows = np.array([row for row, _, _ in stream], dtype=np.int64).reshape(len(stream), len(schema.names))
    time, diff = (np.array([update[at] for update in stream], dtype=np.int64) for at in (1, 2))
    return Batch(time, diff, dict(zip(schema.names, rows.T, strict=True)))


def feed(worker, collection, streams):
    schemas = inputs_of(collection)
    out = worker.feed({name: batch(schemas[name], stream) for name, stream in streams.items() if stream})
    columns = [out.columns[name].tolist() for name in collection.schema.names]
    found = dict(zip(zip(out.time.tolist(), zip(*columns, strict=True), strict=True), out.diff.tolist(), strict=True))
    assert len(found) == len(out.time)
    assert sorted(out.time.tolist()) == out.time.tolist()
    assert 0 not in found.values()
    return found


def drawn(collection, seed, times=120, live_rows=60, widest=20):
    made = {
        name: updates(schema, seed + len(name), times, live_rows, widest)
        for name, schema in inputs_of(collection).items()
    }
    return {name: stream for name, (stream, _) in made.items()}, {name: live for name, (_, live) in made.items()}


@pytest.mark.parametrize("slice_rows", [3, 4096])
@pytest.mark.parametrize("feeds", [1, 7])
@pytest.mark.parametrize("collection", PLANS.values(), ids=PLANS.keys())
def test_changes_equal_the_recomputation(collection, feeds, slice_rows, monkeypatch):
    monkeypatch.setattr(program, "SLICE_ROWS", slice_rows)
    streams, _ = drawn(collection, feeds + slice_rows)
    found = {}
    with closing(Dataflow(collection)) as worker:
        for part in range(feeds):
            between = {
                name: [each for each in stream if each[1] * feeds // 240 == part] for name, stream in streams.items()
            }
            found |= feed(worker, collection, between)
    assert found == changes(collection.node, streams)


@pytest.mark.parametrize("collection", PLANS.values(), ids=PLANS.keys())
def test_deleted_rows_leave_no_state(collection):
    with closing(Dataflow(collection)) as worker:
        feed(worker, collection, {})
        nothing = worker.state_rows()
    streams, live = drawn(collection, 5)
    with closing(Dataflow(collection)) as worker:
        feed(worker, collection, streams)
        feed(worker, collection, {name: [(row, 999, -n) for row, n in rows.items()] for name, rows in live.items()})
        assert worker.state_rows() == nothing


wide = source("wide", {"key": integer(0, 10**9), "value": integer(0, 10**6)}, ROWS)
wide_limit = source("limit", {"num": integer(0, 10**6)}, 10)


def test_an_order_of_many_rows_grows_and_shrinks():
    """The order grows to several levels and shrinks again, from its first, last and random rows."""
    draw = random.Random(3)
    rows = [(key, draw.randint(0, 10**6)) for key in range(6000)]
    collection = wide.top(5, ["-value"])
    for leaving in (
        sorted(rows, key=lambda row: row[1]),
        sorted(rows, key=lambda row: -row[1]),
        draw.sample(rows, 6000),
    ):
        streams = [(row, at, 1) for at, row in enumerate(rows)] + [
            (row, 6000 + at, -1) for at, row in enumerate(leaving)
        ]
        live, shown, found = set(), [], {}
        for row, time, diff in streams:
            (live.add if diff > 0 else live.remove)(row)
            if time % 500 == 499:
                first = sorted(live, key=lambda row: (-row[1], row[0]))[:5]
                found |= {time: first}
        with closing(Dataflow(collection)) as worker:
            out = feed(worker, collection, {"wide": streams})
            assert worker.state_rows() == 0
        for time, first in found.items():
            shown = Counter()
            for (at, row), diff in out.items():
                if at <= time:
                    shown[row] += diff
            assert +shown == Counter(first)


def test_a_limit_moves_over_many_rows():
    draw = random.Random(4)
    rows = [(key, draw.randint(0, 10**6)) for key in range(3000)]
    moves = [draw.randint(0, 10**6) for _ in range(40)]
    stream = [(row, 0, 1) for row in rows] + [(row, 41, -1) for row in rows]
    bounds = [((moves[0],), 0, 1)]
    for at in range(1, 40):
        bounds += [((moves[at - 1],), at, -1), ((moves[at],), at, 1)]
    collection = above(wide, wide_limit, col.value, "num")
    with closing(Dataflow(collection)) as worker:
        assert feed(worker, collection, {"wide": stream, "limit": bounds}) == changes(
            collection.node, {"wide": stream, "limit": bounds}
        )
        assert worker.state_rows() == 1


@pytest.mark.parametrize("which", [above, below])
@pytest.mark.parametrize("limit", [-LARGEST, -LARGEST + 1, -1, 0, 1, LARGEST - 1, LARGEST])
def test_limits_are_exact_at_the_ends_of_64_bits(which, limit):
    values = [-LARGEST, -LARGEST + 1, -1, 0, 1, LARGEST - 1, LARGEST]
    streams = {"distant": [((0, value), 0, 1) for value in values], "single": [((limit,), 1, 1)]}
    collection = which(distant, single, col.value, "num")
    with closing(Dataflow(collection)) as worker:
        assert feed(worker, collection, streams) == changes(collection.node, streams)


def test_a_fraction_is_compared_exactly():
    streams = {"items": [((0, value, 0), 0, 1) for value in range(-50, 51)]}
    for collection in (
        above(items, limits, col.value, "num", "den", on="key"),
        below(items, limits, col.value, "num", "den", on="key"),
    ):
        for num in range(-9, 10):
            for den in (1, 2, 3):
                found = {**streams, "limits": [((0, num, den), 0, 1)]}
                with closing(Dataflow(collection)) as worker:
                    assert feed(worker, collection, found) == changes(collection.node, found)


prices = source("prices", {"price": integer(0, 999, scale=2)}, ROWS)
amounts = source("amounts", {"amount": integer(0, 99)}, ROWS)


def test_scales_are_aligned():
    """The value 1.50 is above 1, and 3 is above 2.99."""
    dear = above(prices, amounts.aggregate(sum=col.amount.sum()), col.price, "sum")
    many = above(amounts, prices.aggregate(sum=col.price.sum()), col.amount, "sum")
    fed = {"prices": [((150,), 0, 1), ((100,), 0, 1)], "amounts": [((1,), 0, 1)]}
    with closing(Dataflow(dear)) as worker:
        assert feed(worker, dear, fed) == {(0, (150,)): 1}
    with closing(Dataflow(many)) as worker:
        assert feed(worker, many, {"prices": [((299,), 0, 1)], "amounts": [((3,), 0, 1), ((2,), 0, 1)]}) == {
            (0, (3,)): 1
        }
    assert above(prices, limits.aggregate(sum=col.num.sum()), col.price * Decimal("0.2"), "sum").schema == prices.schema


def test_two_limits_are_an_error():
    collection = above(items, limits, col.value, "num", on="key")
    fine = [((1, 5, 1), 3, 1), ((1, 6, 1), 4, 1), ((1, 5, 1), 4, -1)]
    with closing(Dataflow(collection)) as worker:
        feed(worker, collection, {"limits": fine})
        with pytest.raises(DeltamarkError, match=r"more than one limit: num=7, key=1 at time 9"):
            feed(worker, collection, {"limits": [((1, 7, 1), 9, 1)]})
    with closing(Dataflow(collection)) as worker, pytest.raises(DeltamarkError, match=r"num=5.*time 3"):
        feed(worker, collection, {"limits": [((1, 5, 1), 3, 2)]})


@pytest.mark.parametrize("name", ["largest", "smallest-by-levels", "top", "below-own-average", "or-null"])
def test_a_negative_multiplicity_names_row_and_time(name):
    with closing(Dataflow(PLANS[name])) as worker, pytest.raises(DeltamarkError) as error:
        feed(
            worker,
            PLANS[name],
            {"items": [((3, 44, 2), 7, 1), ((3, 43, 2), 8, 1), ((3, 44, 2), 77, -2), ((3, 44, 2), 78, 1)]},
        )
    assert {"3", "44", "'cat'", "77"} <= set(re.findall(r"-?\d+|'\w+'", str(error.value)))
