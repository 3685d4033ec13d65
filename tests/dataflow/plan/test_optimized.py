"""Optimized plans have the answers of the plans as they are written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.driving import at_once
from support.random_plans.strategies import cases, streams_of
from support.reference.answers import changes
from support.written_plans.operators import OPERATORS, each_operator

from deltamark import col, source, sql_tables
from deltamark.dataflow.operators.derived import Derived
from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.types import integer

REWRITES = Path(__file__).parent.parent / "sql" / "rewrites"
BY_HAND = sorted(REWRITES.glob("*.by_hand.txt"))


@settings(max_examples=100)
@given(cases())
def test_random_plans_keep_their_changes(case):
    assert at_once(case.collection.optimized(), case.streams) == changes(case.collection.node, case.streams)


@pytest.mark.draws(8)
@settings(max_examples=4)
@each_operator
@given(st.data())
def test_each_operator_keeps_its_changes(name, data):
    streams = data.draw(streams_of(OPERATORS[name]))
    assert at_once(OPERATORS[name].optimized(), streams) == changes(OPERATORS[name].node, streams)


@pytest.mark.draws(8)
@pytest.mark.parametrize("file", BY_HAND, ids=lambda file: file.stem)
@settings(max_examples=25)
@given(st.data())
def test_rewritten_plans_keep_their_changes(file, data):
    _, tables, text, *_ = file.read_text(encoding="utf-8").split("\n---\n")
    written = eval(text, {"col": col, **sql_tables(tables, rows=1000)})
    streams = data.draw(streams_of(written))
    for each in walk(written.node):
        if isinstance(each, Input) and each.key:
            streams = {**streams, each.name: with_one_row_a_key(streams[each.name], each)}
    assert at_once(written.optimized(), streams) == changes(written.node, streams)


def with_one_row_a_key(stream, of):
    """Keep the first insertion of each key, which is a promise that drawn streams do not keep."""
    places = [of.schema.names.index(name) for name in of.key]
    first = {}
    for row, time, diff in stream:
        if diff > 0:
            first.setdefault(tuple(row[at] for at in places), (row, time, 1))
    return list(first.values())


def test_an_optimized_plan_has_no_derived_operators_and_the_columns_of_the_written_one():
    number = integer(0, 99)
    sales = source("sales", {"shop": number, "item": number, "price": number})
    shops = source("shops", {"shop": number, "region": number}, key="shop")
    written = sales.join(shops, on="shop").semijoin(shops.where(col.region == 1), on="region").rename(cost="price")
    plan = written.optimized()
    assert plan.schema.names == written.schema.names
    assert not any(isinstance(each, Derived) for each in walk(plan.node))


@settings(max_examples=20)
@given(st.data())
def test_extremes_may_be_joined_by_a_computed_column(data):
    items = source("items", {"key": integer(0, 3), "value": integer(0, 4)}, 1000)
    best = items.largest("value", by="key").select("key", "value").distinct()
    next_key = best.select("key", next_key=col.key + 1, best=col.value)
    written = items.join(next_key, on={"key": "next_key", "value": "best"})
    streams = data.draw(streams_of(written))
    assert at_once(written.optimized(), streams) == changes(written.node, streams)


def test_a_plan_without_joins_stays_as_it_is():
    sales = source("sales", {"shop": integer(0, 9), "price": integer(0, 99)})
    written = sales.where(col.price > 3).aggregate("shop", total=col.price.sum())
    assert written.optimized().node is written.node


def test_a_long_plan_is_optimized():
    sales = source("sales", {"shop": integer(0, 9), "price": integer(0, 99)})
    written = sales
    for each in range(500):
        written = written.where(col.price != each % 7).distinct()
    assert written.optimized().schema == written.schema


def test_rows_that_two_joins_read_are_joined_once():
    number = integer(0, 99)
    a, b = (source(name, {"x": number, name: number}) for name in "ab")
    both = a.join(b, on="x")
    written = both.rename(y="a", left="b").join(both.rename(y="a", right="b", z="x"), on="y")
    kinds = [type(each) for each in walk(written.optimized().node)]
    assert kinds.count(Join) == len([each for each in walk(written.node) if isinstance(each, Join)])
