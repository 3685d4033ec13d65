"""Closed handles say so, whatever is called, and reach no memory; open ones are not copied."""

from __future__ import annotations

import copy
import pickle
from contextlib import closing

import pytest
from support.engines.chain import Chain
from support.engines.closed import HOLD_USES, USES
from support.engines.driving import arrays
from support.random_plans.streams import inputs_of
from support.written_plans.operators import items, notes, others

from deltamark import Batch, Dataflow, DeltamarkError, Hold, integer, source

CLOSED = "^the (dataflow|shard|stage) is closed: its memory was released; open another one$"

sales = source("sales", {"shop": integer(0, 9)}, rows=1_000_000)
by_shop = sales.count(by="shop")


def sold(time, *shops):
    return {"sales": Batch([time] * len(shops), [1] * len(shops), {"shop": list(shops)})}


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_closed_dataflow_says_so(workers):
    assert public(Dataflow) == {*USES, "close", "restore"}
    dataflow = Dataflow({"shops": by_shop}, workers=workers)
    dataflow.feed(sold(0, 1))
    dataflow.close()
    dataflow.close()
    assert repr(dataflow) == "Dataflow, closed"
    for use in USES.values():
        with pytest.raises(DeltamarkError, match=CLOSED):
            use(dataflow, sales.count())


def test_a_hold_of_a_closed_dataflow_says_so():
    assert public(Hold) == {*HOLD_USES, "time"}
    with closing(Dataflow({"shops": by_shop})) as dataflow:
        dataflow.feed(sold(0, 1))
        hold = dataflow.hold()
    assert hold.time == 0
    for use in HOLD_USES.values():
        with pytest.raises(DeltamarkError, match=CLOSED):
            use(hold)


def test_a_closed_dataflow_does_not_reach_another():
    """The memory of the second may have the addresses that the first one had."""
    with Dataflow(by_shop) as first:
        first.feed(sold(0, 1))
    with Dataflow(by_shop) as second:
        second.feed(sold(0, 2))
        with pytest.raises(DeltamarkError, match=CLOSED):
            first.feed(sold(1, 2, 2, 2))
        assert second.feed(sold(1, 2)).columns["count"].tolist() == [1, 2]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_answer_outlives_its_dataflow(workers):
    batch = {"notes": Batch([0, 0], [1, 1], {"key": [1, 2], "text": ["a long text", "b"], "other": ["", ""]})}
    with Dataflow(notes.distinct("text"), workers=workers) as dataflow:
        answer = dataflow.feed(batch)
    before = repr(answer)
    with Dataflow(by_shop) as other:
        other.feed(sold(0, *range(10)))
    assert repr(answer) == before
    assert sorted(answer.columns["text"]) == ["a long text", "b"]


def test_closed_shards_say_so():
    joined = items.join(others, on="key").count(by="value")
    with closing(Chain(joined, 2)) as chain:
        chain.feed({name: arrays(schema, []) for name, schema in inputs_of(joined).items()})
        shards, zeros = list(chain.live.values()), chain.zeros
    for each in (*shards, *zeros):
        each.close()
    assert shards
    assert zeros
    for use in (
        *(each.feed for each in shards),
        *(lambda pieces, each=each: list(each.process(pieces)) for each in zeros),
    ):
        with pytest.raises(DeltamarkError, match=CLOSED):
            use({})


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_handles_are_neither_copied_nor_pickled(duplicate):
    with Dataflow({"shops": by_shop}) as dataflow:
        dataflow.feed({})
        for each in (dataflow, dataflow.hold()):
            name = type(each).__name__
            with pytest.raises(
                DeltamarkError, match=f"^neither copied nor pickled: a {name}; make another one instead$"
            ):
                duplicate(each)
        assert dataflow.feed(sold(1, 1))["shops"].columns["count"].tolist() == [1]
