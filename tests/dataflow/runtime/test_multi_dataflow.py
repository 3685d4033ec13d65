"""Laws of several plans in one dataflow: each has the changes that it has alone, and shared state is kept once."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.driving import arrays, maintained, stream_of
from support.engines.explanations import parts
from support.random_plans.strategies import cases
from support.random_plans.streams import inputs_of, times_of
from support.written_plans.operators import items, others

from deltamark.dataflow.language.expr import col
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.runtime.dataflow import Dataflow


@pytest.mark.parametrize("workers", [1, 2])
@settings(max_examples=30)
@given(cases(), st.data())
def test_each_of_several_plans_has_the_changes_that_it_has_alone(workers, case, data):
    whole = case.collection
    parts = [type(whole)(node) for node in walk(whole.node)]
    chosen = data.draw(st.lists(st.sampled_from(parts), min_size=1, max_size=3))
    collections = {str(place): each for place, each in enumerate([whole, *chosen])}
    schemas = inputs_of(whole)
    with closing(Dataflow(collections, workers=workers)) as together:
        batches = {name: arrays(schemas[name], stream) for name, stream in case.streams.items() if stream}
        out = together.feed({name: batch for name, batch in batches.items() if name in together.inputs})
    for name, each in collections.items():
        stream = stream_of(each, out[name])
        assert stream == maintained(each, {key: case.streams[key] for key in inputs_of(each)}, [times_of(case.streams)])


def test_joins_of_the_same_rows_share_an_arrangement_for_any_columns():
    by_value = items.select("key", "value").join(others.select("key", "amount"), on="key")
    by_word = items.select("word", k=col.key).join(others.select("key", "day"), on={"k": "key"})
    with closing(Dataflow({"value": by_value, "word": by_word})) as together:
        assert len(parts(together.explain(), "arrangement")) == 2


def test_joins_may_compute_columns_from_one_arrangement():
    doubled = items.select("key", double=col.value * 2).join(others.select("key", "amount"), on="key")
    plain = items.select("key", "value").join(others.select("key", "day"), on="key")
    with closing(Dataflow({"doubled": doubled, "plain": plain})) as together:
        assert len(parts(together.explain(), "arrangement")) == 2
        assert all(names == ["doubled", "plain"] for _, names, _, _ in together.sharing())
