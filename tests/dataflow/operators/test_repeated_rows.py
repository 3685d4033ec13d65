"""Laws of joins above joins over the same rows: no operator passes more changes than one join of these rows makes."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.driving import added, between, feed
from support.engines.explanations import changes_of_parts
from support.engines.laws import check_life
from support.random_plans.case import Case
from support.random_plans.strategies import streams_of
from support.random_plans.streams import times_of
from support.reference.answers import changes

from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.language.windows import rank
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import integer

nodes = source("nodes", {"node": integer(0, 5)}, 100_000)
others = nodes.rename(other="node")


def chain(rows, joins):
    """Join rows with the nodes again and again: a node with n copies has n times as many rows after each join."""
    for _ in range(joins):
        rows = rows.join(others, on={"node": "other"}).select("node")
    return rows


PLANS = {
    "chain": chain(nodes, 4),
    "pairs of a chain": chain(nodes, 2).cross(chain(nodes, 2).rename(other="node")),
    "counted pairs": chain(nodes, 2).cross(others).select("node").cross(others).count(by="other"),
    "triples of a chain": chain(nodes, 2)
    .cross(chain(nodes, 2).rename(a="node").cross(chain(nodes, 2).rename(b="node")))
    .select("node", "a", "b"),
    "chain of an antijoin": chain(
        nodes.join(others, on={"node": "other"}).antijoin(others.where(col.other > 2), on={"node": "other"}), 3
    ),
}
each_plan = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)

STREAMS = {
    "copies": [((0,), 0, 1)] * 8,
    "rows that come and go": [((node % 4,), 0, diff) for node in range(12) for diff in (1, -1)],
    "rows that come again": [((node,), time, diff) for time in range(4) for node in range(3) for diff in (1, -1, 1)],
}


@each_plan
@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_as_many_changes_pass_as_one_join_makes(plan, stream):
    streams = {"nodes": stream}
    with closing(Dataflow(plan)) as worker:
        worker.profile()
        found = added(feed(worker, plan, between(streams, {time})) for time in times_of(streams))
        assert max(changes_of_parts(worker.explain())) <= len(stream) ** 2
    assert found == changes(plan.node, streams)


@each_plan
@settings(max_examples=20)
@given(st.data())
def test_deleted_rows_leave_no_state(plan, data):
    check_life(Case(plan, data.draw(streams_of(plan))), data)


sums = source("sums", {"shop": integer(0, 9), "amount": integer(0, 1000)}, 100)
visits = source("visits", {"place": integer(0, 9), "visit": integer(0, 1000)}, 10_000)
best = sums.window(by="shop", order=["-amount"], limit=1, place=rank())


def test_a_row_that_an_equal_one_replaces_is_not_joined_again():
    plan = best.select("shop").join(visits, on={"shop": "place"}).count(by="visit")
    streams = {
        "visits": [((0, visit), 0, 1) for visit in range(100)],
        "sums": [((0, value), value if diff > 0 else value + 1, diff) for value in range(30) for diff in (1, -1)][:-1],
    }
    streams["sums"].sort(key=lambda update: update[1])
    with closing(Dataflow(plan)) as worker:
        worker.profile()
        assert feed(worker, plan, streams) == changes(plan.node, streams)
        assert max(changes_of_parts(worker.explain())) <= 100
