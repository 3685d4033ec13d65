"""Any number of workers makes the changes of one worker, for any slices."""

from __future__ import annotations

import random
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.driving import arrays, between, maintained, stream_of, undone
from support.engines.explanations import parts
from support.random_plans.seeded_streams import long_stream, spread_stream, with_one_key
from support.random_plans.strategies import cases, cuts
from support.random_plans.streams import inputs_of, times_of
from support.reference.answers import changes
from support.written_plans.operators import HUGE_KEY, OPERATORS
from support.written_plans.spread import SPREAD, left, right
from support.written_plans.thresholds import below

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col, count
from deltamark.dataflow.operators.aggregate import Groups
from deltamark.dataflow.operators.distribution import SLICED
from deltamark.dataflow.passes.partition import Partitioner
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import TEXT, integer
from deltamark.errors import DeltamarkError

WORKERS = (2, 5)


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    """Make slices so small that a feed has several rounds, and a time several slices."""
    monkeypatch.setattr("deltamark.dataflow.builder.program.SLICE_ROWS", 3)
    monkeypatch.setattr("deltamark.dataflow.builder.program.WORKERS_SLICE_FACTOR", 1)
    monkeypatch.setattr("deltamark.dataflow.operators.exchange.MIN_DIVIDED_ROWS", 1)


@pytest.mark.draws(26)
@pytest.mark.parametrize("name", OPERATORS)
def test_a_feed_may_have_many_rounds(name):
    collection = OPERATORS[name]
    streams = undone({each: long_stream(schema, len(each), 40) for each, schema in inputs_of(collection).items()})
    times = times_of(streams)
    assert maintained(collection, streams, [times[:20], times[20:]], 3) == changes(collection.node, streams)


@pytest.mark.parametrize("workers", WORKERS)
@settings(max_examples=15)
@given(cases(), st.data())
def test_plans_equal_their_recomputation(workers, case, data):
    feeds = data.draw(cuts(case.streams))
    assert maintained(case.collection, case.streams, feeds, workers) == changes(case.collection.node, case.streams)


@pytest.mark.parametrize("workers", [2, 3, 8])
@settings(max_examples=10)
@given(cases(), st.data(), st.integers(1, 2**40))
def test_the_changes_do_not_depend_on_the_timing_of_the_workers(workers, case, data, seed):
    feeds = data.draw(cuts(case.streams))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deltamark.dataflow.builder.program.DELAY_SEED", seed)
        found = maintained(case.collection, case.streams, feeds, workers)
    assert found == changes(case.collection.node, case.streams)


def choose_at_random(patch, seed):
    """Choose by lot which nodes every worker computes, and which rows are exchanged although they could be dealt."""

    def lot(node, question):
        return random.Random(f"{seed} {question} {node.digest.hex()}").random() < 0.5

    patch.setattr(Partitioner, "is_small", lambda _, node: lot(node, "small"))
    patch.setattr(
        Partitioner, "is_selective", lambda self, node: lot(node, "selective") and self.can_have(node, SLICED)
    )


@settings(max_examples=30)
@given(cases(), st.data(), st.sampled_from([2, 3]), st.integers(0, 2**16))
def test_the_changes_do_not_depend_on_the_nodes_that_every_worker_computes(case, data, workers, seed):
    feeds = data.draw(cuts(case.streams))
    with pytest.MonkeyPatch.context() as patch:
        choose_at_random(patch, seed)
        found = maintained(case.collection, case.streams, feeds, workers)
    assert found == changes(case.collection.node, case.streams)


@pytest.mark.draws(26)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_do_not_depend_on_the_nodes_that_every_worker_computes(name, monkeypatch):
    collection = OPERATORS[name]
    streams = undone({each: long_stream(schema, len(each), 20) for each, schema in inputs_of(collection).items()})
    times = times_of(streams)
    choose_at_random(monkeypatch, name)
    assert maintained(collection, streams, [times[:9], times[9:]], 2) == changes(collection.node, streams)


@pytest.mark.draws(8)
@pytest.mark.parametrize("workers", [2, 5])
@pytest.mark.parametrize("name", HUGE_KEY)
def test_all_rows_may_have_one_key(name, workers):
    collection = HUGE_KEY[name]
    streams = {each: with_one_key(schema, len(each), 200) for each, schema in inputs_of(collection).items()}
    assert maintained(collection, streams, [[0, 1, 2, 5]], workers) == changes(collection.node, streams)


@pytest.mark.draws(12)
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", SPREAD)
def test_keys_of_a_wide_range_are_dealt_in_blocks(name, workers):
    collection = SPREAD[name]
    streams = undone({each: spread_stream(len(each), 150) for each in inputs_of(collection)})
    times = times_of(streams)
    assert maintained(collection, streams, [times[:20], times[20:]], workers) == changes(collection.node, streams)


FAR = [
    (0, 9), (0, 65535), (-(2**40), -(2**40) + 65535), (2**62, 2**63 - 1), (-(2**40), 2**40), (2**63 - 65536, 2**63 - 1),
]  # fmt: skip


@pytest.mark.draws(14)
@pytest.mark.parametrize("ends", FAR, ids=str)
@pytest.mark.parametrize("how", ["join", "semijoin", "antijoin", "left_join", "below", "concat", "concat-null"])
def test_key_ranges_may_lie_far_apart(how, ends):
    """Blocks of keys are dealt from the low end of both sides, or not at all."""
    low, high = ends
    near = source("near", {"a": integer(0, 9), "v": integer(0, 9)}, 1000)
    far = source("far", {"k": integer(low, high), "x": integer(0, 9)}, 1000)
    unmatched = near.select(b=col.a + 20).left_join(far, on={"b": "k"}).select(k=col.x)
    plan = {
        "below": lambda: below(near, far.aggregate("k", limit=col.x.sum()), col.v, "limit", on={"a": "k"}),
        "concat-null": lambda: far.distinct("k").concat(unmatched).count(by="k"),
        "concat": lambda: near.distinct("a").concat(far.distinct("k").select(a=col.k)).count(by="a"),
    }.get(how, lambda: getattr(near, how)(far, on={"a": "k"}))()
    keys = [low, high, *(min(max(key, low), high) for key in range(10))]
    streams = {
        "near": [((key, key), time, 1) for time in range(2) for key in range(10)],
        "far": [((key, place % 10), time, 1) for time in range(2) for place, key in enumerate(keys)],
    }
    assert maintained(plan, streams, [[0], [1]], 2) == changes(plan.node, streams)


@pytest.mark.draws(12)
@pytest.mark.parametrize("known", FAR, ids=str)
@pytest.mark.parametrize("ends", FAR, ids=str)
def test_rows_outside_the_range_of_the_other_side_have_an_owner(ends, known):
    """Some rows are joined with keys that are owned already, and read beside the join."""
    rows = source("rows", {"k": integer(*ends), "v": integer(0, 9)}, 1000).where(col.v < 9)
    keys = source("keys", {"k": integer(*known), "v": integer(0, 9)}, 1000)
    plan = rows.left_join(keys.distinct("k").select(k=col.k, one=1), on="k")
    streams = {
        name: [((key, 1), time, 1) for time in range(2) for key in range(max(low, min(high - 5, 0)), high)[:5]]
        for name, (low, high) in (("rows", ends), ("keys", known))
    }
    assert maintained(plan, streams, [[0], [1]], 2) == changes(plan.node, streams)


@pytest.mark.parametrize(("low", "moves"), [(0, 0), (10**5, 1)])
def test_rows_with_keys_below_the_dealt_ones_are_exchanged(low, moves):
    near = source("near", {"a": integer(0, 9)}, 1000)
    far = source("far", {"k": integer(low, 2 * 10**5), "x": integer(0, 9)}, 1000)
    with closing(Dataflow(near.semijoin(far, on={"a": "k"}), workers=2)) as engine:
        assert parts(engine.explain(), "deal") == ["deal by a", "deal by k"]
        assert parts(engine.explain(), "exchange") == ["exchange by k"] * moves


words = source("words", {"a": integer(0, 2**33), "x": TEXT}, 10**6)
lowest = words.smallest("a", by="a")
SHARED = {
    "less-some": lowest.concat(words.negate()),
    "less-and-more": lowest.concat(words.negate(), words),
    "distinct-less-all": words.distinct().concat(words.negate()),
    "all-less-lowest": words.concat(lowest.negate()),
    "joined": words.join(words.count(by="a"), on="a"),
    "counted": words.count(by="x"),
}


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("name", SHARED)
def test_a_text_is_kept_while_any_row_has_it(name, workers, monkeypatch):
    """Rows of both signs share texts, and some only pass through a worker."""
    monkeypatch.setattr("deltamark.dataflow.builder.sweeps.MIN_SWEPT_NUMBERS", 0)
    order, live, updates = random.Random(workers), {}, []
    for now in range(4):
        changed = [(row, -n) for row, n in live.items() if n and order.random() < 0.6]
        changed += [((order.randrange(10) * 10**8, f"text {order.randrange(12)}"), 1) for _ in range(60)]
        for row, diff in changed:
            live[row] = live.get(row, 0) + diff
        order.shuffle(changed)
        updates += [(row, now, diff) for row, diff in changed]
    plan = SHARED[name]
    assert maintained(plan, {"words": updates}, [[0], [1], [2], [3]], workers) == changes(plan.node, {"words": updates})


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("name", ["join", "sum", "distinct", "top"])
def test_a_retired_plan_leaves_no_state_at_any_worker(name, workers):
    kept, retired = left.count(by="value"), SPREAD[name]
    streams = {each: spread_stream(len(each), 150) for each in inputs_of(retired)}
    times = times_of(streams)
    before, after = between(streams, set(times[:20])), between(streams, set(times[20:]))
    with closing(Dataflow({"kept": kept, "retired": retired}, workers=workers)) as engine:
        engine.push({each: arrays(inputs_of(retired)[each], stream) for each, stream in before.items()})
        rows, size = engine.state_rows(), engine.state_bytes()
        engine.retire("retired")
        assert (list(engine.schemas), list(engine.inputs)) == (["kept"], ["left"])
        assert engine.state_rows() < rows
        assert engine.state_bytes() < size
        found = engine.feed({"left": arrays(left.schema, after["left"])})["kept"]
        expected = changes(kept.node, {"left": streams["left"]})
        assert stream_of(kept, found) == {each: diff for each, diff in expected.items() if each[0] > times[19]}
        with closing(Dataflow({"kept": kept}, workers=workers)) as alone:
            alone.push({"left": arrays(left.schema, streams["left"])})
            assert engine.state_rows() == alone.state_rows()


def test_the_arrangements_have_the_rows_of_all_workers():
    streams = {"left": spread_stream(len("left"), 150), "right": spread_stream(len("right"), 150)}
    for workers in (1, 2, 3):
        with closing(Dataflow({"joined": SPREAD["join"]}, workers=workers)) as engine:
            engine.push({name: arrays(each.schema, streams[name]) for name, each in (("left", left), ("right", right))})
            assert sum(rows for _, _, rows, _ in engine.sharing()) == engine.state_rows() > 0


def test_workers_are_at_least_one():
    with pytest.raises(DeltamarkError, match="no such number of workers: 0; give from 1 to 64"):
        Dataflow(left, workers=0)


def test_counts_are_divided_however_close_together_they_lie():
    sales = source("sales", {"shop": integer(0, 1 << 20), "sale": integer(0, 1 << 20)}, rows=1 << 20)
    counts = sales.aggregate(by="shop", sales=count()).count(by="sales")
    shops = np.repeat(np.arange(12), np.arange(1, 13))
    with closing(Dataflow(counts, workers=2)) as engine:
        batch = Batch(np.zeros_like(shops), np.ones_like(shops), {"shop": shops, "sale": np.arange(len(shops))})
        changed = engine.feed({"sales": batch})
        assert sorted(changed.columns["sales"]) == list(range(1, 13))
        _, first, _, second = engine.states(Groups)  # the shops and the counts of a worker, then of the other
        assert min(first, second) > 0


def test_explain_shows_what_is_dealt_and_exchanged():
    collection = left.join(right, on="id").count(by="value").top(3, ["-count"])
    with closing(Dataflow(collection, workers=2)) as engine:
        assert parts(engine.explain(), "deal") == ["deal by id"] * 2
        assert parts(engine.explain(), "exchange") == ["exchange by value"]
        assert "one worker among the selected rows" in engine.explain()
    with closing(Dataflow(left.count(by="value"), workers=2)) as engine:
        assert "each worker sums its slices and sends sums instead of rows" in engine.explain()
        assert "exchange" not in engine.explain()
