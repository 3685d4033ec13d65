"""Laws of loops: their changes are those of the recomputed fixpoints, for any feeds, attached late or at the start."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.engines.driving import arrays, at_once, between, feed, maintained, stream_of
from support.engines.explanations import parts, readers
from support.engines.inside import worker_of
from support.engines.late import check_late, cuts_of, fed, numbers_of_workers
from support.engines.laws import check_life, check_recomputation
from support.random_plans.loop_laws import drawn, each_loop
from support.random_plans.seeded_streams import long_stream
from support.random_plans.strategies import cuts, streams_of
from support.random_plans.streams import inputs_of, times_of
from support.reference.answers import changes
from support.written_plans.loops import LOOPS, ROWS, distances, edges, roots

from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.operators.input import base_inputs
from deltamark.dataflow.operators.loop import LoopJoinState, LoopReduction
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import integer

few = settings(max_examples=5)


@pytest.mark.draws(7)
@each_loop
@settings(max_examples=8)
@given(data=st.data())
def test_a_loop_is_its_recomputed_fixpoint_and_keeps_no_deleted_row(name, data):
    check_life(drawn(data, name), data)


@each_loop
@settings(max_examples=4)
@given(data=st.data(), rows=st.integers(1, 3))
def test_a_time_of_a_loop_may_be_longer_than_a_slice(name, data, rows):
    case = drawn(data, name)
    with patch("deltamark.dataflow.builder.program.SLICE_ROWS", rows):
        check_recomputation(case, data.draw(cuts(case.streams)))


def test_a_slice_that_only_later_iterations_join_is_joined_once():
    """The edge from 1 is in a slice of its own, in which no remembered row can join it yet."""
    plan = LOOPS["reach-by-a-way-that-opens-later"]
    streams = {"roots": [((0,), 0, 1)], "edges": [((0, 1, 0), 1, 1), ((1, 2, 2), 1, 1), ((1, 2, 2), 2, -1)]}
    with patch("deltamark.dataflow.builder.program.SLICE_ROWS", 1):
        assert at_once(plan, streams) == changes(plan.node, streams)


@pytest.mark.draws(7)
@each_loop
@few
@given(data=st.data())
def test_a_loop_attached_late_has_its_changes_from_the_beginning(name, data):
    case = drawn(data, name)
    others = {"index": LOOPS["reach"], "same": case.collection}
    residents = {each: others[each] for each in data.draw(st.sets(st.sampled_from(sorted(others))))}
    residents |= {each.name: Collection(each) for each in base_inputs(case.collection.node)}
    check_late(
        case,
        residents,
        data.draw(cuts_of(case.streams)),
        stay=data.draw(st.booleans()),
        workers=data.draw(numbers_of_workers),
    )


@pytest.mark.draws(7)
@each_loop
def test_a_feed_may_hold_hundreds_of_epochs(name):
    collection = LOOPS[name]
    streams = {each: long_stream(schema, len(each), 120) for each, schema in inputs_of(collection).items()}
    assert at_once(collection, streams) == changes(collection.node, streams)


def remembered(worker: Dataflow) -> list[int]:
    """Count the rows that each operator of a loop keeps."""
    states = worker_of(worker).compiled.program.states.values()
    return [each.rows() for each in states if isinstance(each, LoopReduction | LoopJoinState)]


@pytest.mark.parametrize("name", ["distances", "components", "reach-by-two-steps"])
@settings(max_examples=12)
@given(data=st.data())
def test_the_state_of_a_loop_follows_the_live_rows(name, data):
    """After many epochs a loop keeps as many rows as one that begins with the live rows."""
    collection, streams = LOOPS[name], data.draw(streams_of(LOOPS[name]))
    live = {each: Counter() for each in streams}
    for each, stream in streams.items():
        for row, _, diff in stream:
            live[each][row] += diff
    now = {each: [(row, 0, diff) for row, diff in rows.items() if diff] for each, rows in live.items()}
    with closing(Dataflow(collection)) as old, closing(Dataflow(collection)) as young:
        for time in times_of(streams):
            feed(old, collection, between(streams, {time}))
        feed(young, collection, now)
        assert remembered(old) == remembered(young)


def test_a_cycle_that_is_cut_off_leaves_the_answer():
    around = [((0, 1, 0), 0, 1), ((1, 2, 0), 0, 1), ((2, 3, 0), 0, 1), ((3, 1, 0), 0, 1)]
    streams = {"edges": [*around, ((0, 1, 0), 1, -1)], "roots": [((0,), 0, 1)]}
    found = at_once(LOOPS["distances"], streams)
    assert {row: diff for (time, row), diff in found.items() if time == 1} == {(1, 1): -1, (2, 2): -1, (3, 3): -1}


def test_a_loop_uses_an_existing_arrangement():
    """The loop neither copies the arrangement nor scans it: the rows that it adds do not depend on the other edges."""
    index = roots.rename(at="node").join(edges.select("src", "dst", "cost"), on={"at": "src"})
    many = [((src, dst, 0), 0, 1) for src in range(3) for dst in range(3) for _ in range(500)]
    with closing(Dataflow({"index": index})) as together:
        schemas = inputs_of(LOOPS["distances"])
        fed(together, schemas, {"edges": [*many, ((4, 5, 0), 0, 1)], "roots": [((4,), 0, 1)]})
        before = together.state_rows()
        late = together.attach("late", LOOPS["distances"])
        assert stream_of(LOOPS["distances"], late) == {(0, (4, 0)): 1, (0, (5, 1)): 1}
        assert together.state_rows() - before == 4, "two nodes, kept by the join and by the reduction"
        (shared,) = parts(together.explain(), "arrangement by src")
        assert readers(together.explain(), shared) == 2


def test_retiring_a_loop_releases_its_state():
    index = roots.rename(at="node").join(edges, on={"at": "src"})
    with closing(Dataflow({"index": index})) as together:
        fed(together, inputs_of(LOOPS["distances"]), {"edges": [((0, 1, 1), 0, 1)], "roots": [((0,), 0, 1)]})
        memory = worker_of(together).compiled.program.memory
        before = together.state_rows(), together.explain(), len(memory.reservations())
        for _ in range(3):
            together.attach("late", LOOPS["distances"])
            assert together.state_rows() > before[0]
            together.retire("late")
            assert (together.state_rows(), together.explain(), len(memory.reservations())) == before


def test_explain_shows_the_body():
    with closing(Dataflow(distances())) as worker:
        (loop,) = parts(worker.explain(), "iterate")
        (rows,) = parts(worker.explain(), "rows of the")
    assert (loop, rows) == ("iterate loop 0", "rows of the loop 0")


def test_a_long_path_is_walked():
    length = 3000
    places = integer(0, length)
    graph = source("edges", {"src": places, "dst": places}, ROWS)
    begin = source("roots", {"node": places}, ROWS).select("node", dist=0)
    path = begin.iterate(
        lambda found: (
            found.join(graph, on={"node": "src"})
            .select(node=col.dst, dist=col.dist + 1)
            .concat(begin)
            .smallest("dist", by="node")
            .distinct()
        )
    )
    with closing(Dataflow(path)) as worker:
        chain = arrays(graph.schema, [((at, at + 1), 0, 1) for at in range(length)])
        out = worker.feed({"edges": chain, "roots": arrays(roots.schema, [((0,), 0, 1)])})
        assert sorted(out.columns["dist"].tolist()) == list(range(length + 1))
        cut_off = worker.feed({"edges": arrays(graph.schema, [((length - 2, length - 1), 1, -1)])})
        assert sorted(cut_off.columns["dist"].tolist()) == [length - 1, length]
        assert np.all(cut_off.diff == -1)


@pytest.fixture
def summed(monkeypatch):
    """Use running sums from the second evaluation of a key on, and compare rows from the first iteration on."""
    monkeypatch.setattr("deltamark.dataflow.operators.loop.MIN_SUMMED_ROWS", 0)
    monkeypatch.setattr("deltamark.dataflow.operators.loop.MIN_CYCLE_ITERATIONS", 1)


@pytest.mark.draws(7)
@each_loop
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_loop_that_adds_up_its_keys_equals_its_recomputation(name, summed, data):  # noqa: ARG001
    case = drawn(data, name)
    check_recomputation(case, data.draw(cuts(case.streams)))


def countdown(which: str, least: int) -> Collection:
    """Return a loop that moves one value of each key by one step in each iteration, to a least value."""
    begin = tracks.select("key", "at")

    def body(found: Collection) -> Collection:
        on, there = found.where(col.at > least).select("key", at=col.at - 1), found.where(col.at <= least)
        if which == "distinct":
            return on.concat(there, begin.where(col.at <= least)).distinct()
        return on.concat(there, begin).smallest("at", by="key").distinct()

    return begin.iterate(body)


tracks = source("tracks", {"key": integer(0, 2), "at": integer(0, 400)}, ROWS)


@pytest.mark.parametrize("which", ["smallest", "distinct"])
@pytest.mark.parametrize("seed", range(4))
def test_a_key_may_change_in_hundreds_of_iterations(which, seed):
    order = random.Random(seed)
    live, updates = Counter(), []
    for time in range(6):
        for _ in range(3):
            row = order.randrange(3), order.choice([150, 151, 200, 201, 400])
            diff = -1 if live[row] and order.random() < 0.6 else 1
            live[row] += diff
            updates.append((row, time, diff))
    plan, streams = countdown(which, 100), {"tracks": updates}
    assert maintained(plan, streams, [[0], [1, 2], [3, 4, 5]]) == changes(plan.node, streams)
