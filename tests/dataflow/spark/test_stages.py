"""A plan that is cut into stages makes the changes of the whole, for any number of shards and whatever they forget."""

from __future__ import annotations

import random
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.chain import Chain, Pieces
from support.driving import added, between, feed, undone
from support.laws import HUGE_KEY, OPERATORS, long_stream, with_one_key
from support.plans import cases, cuts
from support.reference import changes
from support.spread import SPREAD, spread_stream
from support.streams import inputs_of, times_of

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.spark.planning.stage_planner import cut
from deltamark.dataflow.types import NULL, TEXT, integer
from deltamark.datagen.feed import Feed
from deltamark.datagen.schema import relation
from deltamark.datagen.workload import workload
from deltamark.harness.check import verify
from deltamark.harness.check.change_csv import ChangeCsv, Digest
from deltamark.harness.engines.inputs import batches
from deltamark.harness.engines.plans import plan_of
from deltamark.harness.measure.cell import Cell
from deltamark.queries.catalogue import QUERIES

SHARDS = (1, 2, 3)


@pytest.fixture(autouse=True)
def _short_logs(monkeypatch):
    """Have logs of two entries put together, and entries of several pieces."""
    monkeypatch.setattr("deltamark.dataflow.spark.state_log.MANY", 2)
    monkeypatch.setattr("deltamark.dataflow.spark.state_log.MOST", 4)
    monkeypatch.setattr("deltamark.dataflow.spark.state_log.MOST_BYTES", 1000)


def staged(collection, streams, feeds, shards, everywhere=()):
    """Run a plan in stages. everywhere: the inputs that all shards have whole."""
    with closing(Pieces(collection, shards, everywhere)) as engine:
        return added(feed(engine, collection, between(streams, set(times))) for times in feeds)


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("name", OPERATORS)
def test_a_feed_of_many_times(name, shards):
    collection = OPERATORS[name]
    streams = undone({each: long_stream(schema, len(each), 40) for each, schema in inputs_of(collection).items()})
    times = times_of(streams)
    feeds = [times[:20], times[20:30], times[30:]]
    assert staged(collection, streams, feeds, shards, ["others", "labels"]) == changes(collection.node, streams)


@pytest.mark.parametrize("shards", SHARDS)
@settings(max_examples=15)
@given(cases(), st.data())
def test_plans_equal_their_recomputation(shards, case, data):
    feeds = data.draw(cuts(case.streams))
    everywhere = data.draw(st.sets(st.sampled_from(sorted(case.streams))))
    assert staged(case.collection, case.streams, feeds, shards, everywhere) == changes(
        case.collection.node, case.streams
    )


@pytest.mark.parametrize("shards", SHARDS)
def test_rows_that_only_cancel_together_meet_what_is_everywhere(shards):
    """Of the same row, one shard has twice too much, and another, which has its key, once too little."""
    rows, few = source("rows", {"a": integer(0, 9), "b": integer(0, 9)}, 1000), source("few", {"c": integer(0, 9)}, 9)
    twice = rows.concat(rows.select(a=col.b, b=col.a))
    plan = twice.concat(twice.distinct().negate()).join(few, on={}).count(by="c")
    order = random.Random(shards)
    given = [((order.randrange(10), order.randrange(10)), time, 1) for time in range(20)]
    streams = undone({"rows": given, "few": [((1,), 0, 1)]})
    assert staged(plan, streams, [range(5), range(5, 25)], shards, ["few"]) == changes(plan.node, streams)


@pytest.mark.parametrize("name", HUGE_KEY)
def test_all_rows_may_have_one_key(name):
    collection = HUGE_KEY[name]
    streams = {each: with_one_key(schema, len(each), 200) for each, schema in inputs_of(collection).items()}
    assert staged(collection, streams, [[0, 1], [2], [5]], 2) == changes(collection.node, streams)


@pytest.mark.parametrize("everywhere", [(), ("left",), ("right",)])
@pytest.mark.parametrize("name", SPREAD)
def test_keys_of_a_wide_range(name, everywhere):
    collection = SPREAD[name]
    streams = undone({each: spread_stream(len(each), 150) for each in inputs_of(collection)})
    times = times_of(streams)
    feeds = [times[:20], times[20:60], times[60:]]
    assert staged(collection, streams, feeds, 3, everywhere) == changes(collection.node, streams)


big = source("big", {"key": integer(0, 1), "value": integer(-(2**62), 2**62)}, rows=8)


def test_sums_that_are_remembered_may_need_more_than_64_bits():
    collection = big.aggregate("key", sum=col.value.sum())
    values = [2**62, 2**62 - 1, -(2**62), 17, -(2**62), -5]
    streams = {"big": undone({"big": [((1, value), time, 1) for time, value in enumerate(values)]})["big"]}
    feeds = [[time] for time in times_of(streams)]
    assert staged(collection, streams, feeds, 2) == changes(collection.node, streams)


@pytest.mark.parametrize("work", ["insert", "window:50"])
@pytest.mark.parametrize("name", QUERIES)
def test_every_query_in_stages_has_the_stream_of_one_worker(name, work, chunked):
    for variant in QUERIES[name].variants:
        cell = Cell(name, "0.001", work, variant=variant)
        assert digest_in_stages(cell, chunked, 3) == verify.digest_of(cell, chunked)


def digest_in_stages(cell, dataset, shards):
    work, order = workload(dataset, cell.workload), random.Random(cell.query)
    with closing(Chain(plan_of(cell, dataset, work), shards, lambda: order.random() < 0.3)) as chain:
        wanted = {relation(name).name: columns for name, columns in chain.inputs.items()}
        feeds = [Feed(dataset, work, wanted, worker=worker, workers=2) for worker in range(2)]
        lines, digest = ChangeCsv(chain.schema), Digest()
        while not feeds[0].done:
            lines.digest(chain.feed(*(batches(each.take(work.rounds // 4 + 1)) for each in feeds)), digest)
        return str(digest)


def stages(name, dataset, shards, work="insert"):
    return len(cut(plan_of(Cell(name, "0.001", work), dataset, workload(dataset, work)), shards).stages) - 1


def test_a_stage_for_each_exchange_and_one_alone_where_there_is_one_shard(chunked):
    assert [stages(name, chunked, 2) for name in ("q01", "q06", "q04", "q12")] == [1, 1, 2, 2]
    assert {stages(name, chunked, 1) for name in QUERIES} == {1}


def test_only_what_cancels_or_adds_up_is_put_together_in_a_log(monkeypatch):
    monkeypatch.setattr("deltamark.dataflow.spark.state_log.MOST", 1000)
    keys, value = {"key": integer(0, 9)}, integer(0, 9)
    sums = source("ones", {**keys, "value": value}, 100).aggregate("key", sum=col.value.sum())
    plan, lasting = sums.join(source("others", keys, 100), on="key"), 9
    with closing(Chain(plan, 1)) as chain:
        for time in range(lasting + 1):
            chain.feed({
                "ones": Batch(np.full(10, time), np.full(10, 1), {"key": np.arange(10), "value": np.arange(10)}),
                "others": Batch(np.full(10, time), np.full(10, 1 if time < lasting else -1), {"key": np.arange(10)}),
            })  # fmt: skip
            (log,) = chain.logs.values()
            ones, others = (len(each) for each in log.kept().entries.values())
            assert ones < 3
            assert others == (time + 1 if time < lasting else 1)


@pytest.mark.parametrize("weight", [1, 2**30, 2**31, 2**40])
def test_a_shard_remembers_the_sum_of_a_heavy_row(weight):
    heavy = source("heavy", {"a": integer(-(2**62), 2**62)}, 2**43)
    plan = heavy.aggregate(sum=(0 - col.a).sum())
    updates = [((0,), 0, 1), ((3,), 1, weight), ((2**62,), 1, 2**40), ((2**62,), 1, 1 - 2**40), ((0,), 2, -1)]
    with closing(Pieces(plan, 1, (), 1)) as engine:
        found = added(feed(engine, plan, between({"heavy": updates}, {time})) for time in range(3))
    assert found == changes(plan.node, {"heavy": updates})


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("how", ["as-it-is", "distinct", "filtered"])
def test_texts_may_be_missing_in_inputs(how, shards):
    some = source("some", {"a": TEXT.or_null(), "b": integer(-2, 3)}, 1000)
    plan = {"as-it-is": some, "distinct": some.distinct(), "filtered": some.where(~col.a.is_null())}[how]
    rows = [("", 0), (NULL, 1), ("é", 2), (NULL, 2)]
    updates = [(row, time, 1) for time in range(2) for row in rows] + [(rows[1], 2, -2)]
    assert staged(plan, {"some": updates}, [[0], [1], [2]], shards) == changes(plan.node, {"some": updates})
