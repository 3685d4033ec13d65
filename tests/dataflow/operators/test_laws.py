"""Laws of the engine: each operator alone, and random plans of several, have the change streams of the reference.

Neither the cuts into feeds nor the order within a time change a stream, and deleted rows leave no state.
"""

from __future__ import annotations

import random
import re
from contextlib import closing
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.driving import arrays, at_once, feed, maintained
from support.engines.laws import check_life
from support.random_plans.case import Case
from support.random_plans.seeded_streams import any_value, long_stream, with_one_key
from support.random_plans.strategies import cases, streams_of
from support.random_plans.streams import inputs_of
from support.reference.answers import changes
from support.reference.rows import Row, Update
from support.written_plans.operators import HUGE_KEY, OPERATORS, ROWS, each_operator, items, others
from support.written_plans.thresholds import above, below

from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.operators.repeat import Repeat
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import Schema, integer
from deltamark.errors import DeltamarkError


def drawn(data: st.DataObject, name: str) -> Case:
    return Case(OPERATORS[name], data.draw(streams_of(OPERATORS[name])))


@pytest.mark.draws(26)
@each_operator
@settings(max_examples=8)
@given(st.data())
def test_changes_are_the_recomputed_ones_and_deleted_rows_leave_no_state(name, data):
    check_life(drawn(data, name), data)


@pytest.mark.draws(20)
@each_operator
@settings(max_examples=5)
@given(st.data())
def test_all_keys_may_have_ids_in_pages(name, data):
    rule = "deltamark.dataflow.plan.direct_keys"
    with patch(f"{rule}.MIN_PAGED_KEYS", 0), patch(f"{rule}.PAGED_KEYS_PER_EXPECTED_ROW", 0):
        check_life(drawn(data, name), data)


@settings(max_examples=100)
@given(cases(), st.data())
def test_plans_equal_their_recomputation_and_keep_no_deleted_row(case, data):
    check_life(case, data)


@pytest.mark.draws(26)
@each_operator
def test_a_feed_may_hold_hundreds_of_times(name):
    collection = OPERATORS[name]
    streams = {each: long_stream(schema, len(each), 120) for each, schema in inputs_of(collection).items()}
    assert at_once(collection, streams) == changes(collection.node, streams)


@pytest.mark.draws(8)
@pytest.mark.parametrize("feeds", [[[0, 1, 2, 5]], [[0], [1], [2], [5]]], ids=["at-once", "one-by-one"])
@pytest.mark.parametrize("collection", HUGE_KEY.values(), ids=HUGE_KEY.keys())
def test_all_rows_may_have_one_key(collection, feeds):
    streams = {name: with_one_key(schema, len(name), 200) for name, schema in inputs_of(collection).items()}
    assert maintained(collection, streams, feeds) == changes(collection.node, streams)


@each_operator
def test_empty_inputs_have_an_empty_answer(name):
    collection = OPERATORS[name]
    with closing(Dataflow(collection)) as worker:
        first = feed(worker, collection, {})
        assert first == changes(collection.node, {})
        empty = {each: arrays(schema, []) for each, schema in inputs_of(collection).items()}
        assert len(worker.feed(empty).time) == 0
        assert feed(worker, collection, {}) == {}


ROW = (71, 83)
pairs = source("pairs", {"key": integer(0, 99), "value": integer(0, 99)}, ROWS)
pair_limits = source("limits", {"key": integer(0, 99), "limit": integer(0, 99)}, ROWS)
WATCHERS = {
    "threshold": (pairs.threshold(2), ROW),
    "count": (pairs.count(by="key"), ROW[:1]),
    "sum": (pairs.aggregate(by=("key", "value"), sum=col.value.sum()), ROW),
    "largest": (pairs.largest("value", by="key"), ROW),
    "smallest-of-all": (pairs.smallest("value"), ROW),
    "top": (pairs.top(3, ["value"]), ROW),
    "above": (above(pairs, pair_limits, col.value, "limit", on="key"), ROW),
    "below": (below(pairs, pair_limits, col.value, "limit", on="key"), ROW),
    "or-null": (pairs.or_null(), ROW),
    "at-most-one": (pairs.at_most_one("key"), ROW),
    "semijoin": (pair_limits.semijoin(pairs, on="key"), ROW[:1]),
}
TOO_MANY_DELETED = {
    "never-there": [(ROW, 1009, -1)],
    "deleted-twice": [(ROW, 1001, 1), ((1, 2), 1001, 1), (ROW, 1009, -2)],
    "there-again-later": [((1, 2), 1001, 1), (ROW, 1009, -1), (ROW, 1010, 1)],
}


@pytest.mark.parametrize("updates", TOO_MANY_DELETED.values(), ids=TOO_MANY_DELETED.keys())
@pytest.mark.parametrize(("collection", "row"), WATCHERS.values(), ids=WATCHERS.keys())
def test_a_negative_multiplicity_is_an_error_that_names_row_and_time(collection, row, updates):
    with closing(Dataflow(collection)) as worker, pytest.raises(DeltamarkError) as error:
        feed(worker, collection, {"pairs": updates})
    assert {*row, 1009} <= set(map(int, re.findall(r"-?\d+", str(error.value))))


@pytest.mark.parametrize(
    ("collection", "updates"),
    [
        (pairs.where(col.value > 0), {"pairs": [(ROW, 3, -2)]}),
        (pairs.select("key"), {"pairs": [(ROW, 3, -2)]}),
        (pairs.concat(pairs), {"pairs": [(ROW, 3, -2)]}),
        (pairs.negate().negate(), {"pairs": [(ROW, 3, -2)]}),
        (Collection(Repeat.of(pairs.select("key", times=col.value + 1).node, "times")), {"pairs": [(ROW, 3, -2)]}),
    ],
    ids=["where", "select", "concat", "negate", "repeat"],
)
def test_stateless_operators_are_linear_in_any_weights(collection, updates):
    assert at_once(collection, updates) == changes(collection.node, updates)


def test_a_sum_beyond_64_bits_is_an_error():
    big = source("big", {"value": integer(0, 2**62)}, 100)
    collection = big.aggregate(sum=col.value.sum())
    with pytest.raises(DeltamarkError):
        at_once(collection, {"big": [((2**62,), 0, 3)]})


def test_a_weight_beyond_64_bits_is_an_error():
    collection = pairs.join(pair_limits, on="key")
    with pytest.raises(DeltamarkError):
        at_once(collection, {"pairs": [(ROW, 0, 2**40)], "limits": [(ROW, 0, 2**40)]})


def test_a_value_outside_its_bounds_is_an_error_that_names_it():
    with pytest.raises(DeltamarkError, match=r"pairs.*value.*100"):
        at_once(pairs.distinct(), {"pairs": [((1, 100), 0, 1)]})


heavy = source("heavy", {"key": integer(0, 2), "value": integer(0, 1)}, 2**62)
doubled = heavy.join(items.select("key").rename(twice="key"), on={"key": "twice"}).select("key")


@pytest.mark.parametrize(
    "collection",
    [
        doubled.consolidate(),
        doubled,
        doubled.distinct(),
        doubled.top(1, []),
        doubled.largest("key", levels=[2]),
        doubled.or_null(),
    ],
    ids=lambda collection: collection.node.operation,
)
def test_a_weight_of_more_than_64_bits_is_an_error(collection):
    streams = {"heavy": [((1, 0), 0, 2**61), ((1, 1), 0, 2**61)], "items": [((1, 0, 0), 0, 2)]}
    with pytest.raises(DeltamarkError, match="a weight needs more than 64 bits"):
        at_once(collection, streams)


def churned(schema: Schema, seed: int, times: int) -> list[Update]:
    """Return updates that insert rows, nearly all with one key and some twice, and delete them in any order."""
    order = random.Random(seed)
    live: list[Row] = []
    updates: list[Update] = []
    for time in range(times):
        for _ in range(order.randrange(40)):
            if live and order.random() < 0.45:
                place = order.randrange(len(live))
                live[place], live[-1] = live[-1], live[place]
                updates.append((live.pop(), time, -1))
            else:
                row = (int(order.random() < 0.9), *(any_value(order, each.type) for each in schema.fields[1:]))
                times_here = order.choice([1, 1, 2])
                live += [row] * times_here
                updates.append((row, time, times_here))
    return updates


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_a_huge_key_may_go_in_any_order(seed):
    joined = items.join(others, on="key")
    schemas = inputs_of(joined)
    streams = {
        "items": churned(schemas["items"], seed, 60),
        "others": [((key, 1, 8034), 9 * key, 1) for key in range(3)],
    }
    feeds = [[time for time in range(60) if time // 7 == part] for part in range(9)]
    assert maintained(joined, streams, feeds) == changes(joined.node, streams)
