"""Laws of past times: a plan can be attached as of a held time, and released history is merged."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.driving import added, arrays, between, stream_of
from support.engines.late import fed, live
from support.engines.past_times import Feeds, check_incremental, check_since
from support.random_plans.case import Case
from support.random_plans.loop_laws import drawn, each_loop
from support.random_plans.strategies import cases, streams_of
from support.random_plans.streams import inputs_of
from support.reference.answers import changes
from support.written_plans.loops import LOOPS
from support.written_plans.operators import OPERATORS, each_operator, items, others

from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import integer
from deltamark.errors import DeltamarkError

few = settings(max_examples=2)
many = settings(max_examples=20)

BOTH = {"items": [((0, 1, 0), 0, 1), ((0, 2, 0), 2, 1)], "others": [((0, 2, 8034), 1, 1), ((1, 1, 8034), 3, 1)]}
JOINED = items.join(others, on="key")


@pytest.mark.draws(26)
@each_operator
@few
@given(data=st.data())
def test_an_operator_since_a_time_has_its_changes_from_the_beginning(name, data):
    check_since(Case(OPERATORS[name], data.draw(streams_of(OPERATORS[name]))), data)


@many
@given(cases(), st.data())
def test_a_plan_since_a_time_has_its_changes_from_the_beginning(case, data):
    check_since(case, data)


@pytest.mark.draws(26)
@each_operator
@few
@given(data=st.data())
def test_an_operator_attached_incrementally_has_the_same_changes(name, data):
    check_incremental(Case(OPERATORS[name], data.draw(streams_of(OPERATORS[name]))), data)


@many
@given(cases(), st.data())
def test_a_plan_attached_incrementally_has_the_same_changes(case, data):
    check_incremental(case, data)


@pytest.mark.draws(7)
@each_loop
@few
@given(data=st.data())
def test_a_loop_since_a_time_has_its_changes_from_the_beginning(name, data):
    data.draw(st.sampled_from([check_since, check_incremental]))(drawn(data, name), data)


def coming_and_going(together: Dataflow, times: range) -> None:
    """Feed rows, each of which is deleted at the next time."""
    for time in times:
        stream = [((0, 1, 0), time, 1), ((1, 1, 0), time, 1)] if time % 2 == 0 else []
        stream = stream or [((0, 1, 0), time, -1), ((1, 1, 0), time, -1)]
        fed(together, inputs_of(JOINED), {"items": stream})


def test_the_slowest_hold_bounds_the_history():
    with closing(Dataflow({"joined": JOINED})) as together:
        coming_and_going(together, range(2))
        empty = together.state_rows()
        slow = together.hold()
        coming_and_going(together, range(2, 4))
        fast = together.hold()
        coming_and_going(together, range(4, 6))
        assert together.state_rows() == empty + 8, "all history is kept"
        fast.advance(5)
        assert together.state_rows() == empty + 8, "the slower one needs it"
        slow.advance(3)
        assert together.state_rows() == empty + 4, "history before the slower one is merged"
        slow.release()
        assert together.state_rows() == empty, "the faster one needs no history"
        fast.release()
        assert together.state_rows() == empty


def test_a_hold_that_advances_for_ever_keeps_bounded_history():
    with closing(Dataflow({"joined": JOINED})) as together:
        coming_and_going(together, range(2))
        hold, sizes = together.hold(), set()
        for step in range(1, 301):
            coming_and_going(together, range(2 * step, 2 * step + 2))
            hold.advance(2 * step)
            if step % 100 == 0:
                sizes.add((together.state_rows(), together.state_bytes()))
        assert len(sizes) == 1


def test_a_negative_multiplicity_is_an_error_when_it_is_settled():
    with closing(Dataflow({"joined": JOINED})) as together:
        with pytest.raises(DeltamarkError, match="no time to hold"):
            together.hold()
        fed(together, inputs_of(JOINED), BOTH)
        hold = together.hold()
        fed(together, inputs_of(JOINED), {"items": [((1, 2, 1), 4, -1)]})
        with pytest.raises(DeltamarkError, match=r"a negative multiplicity: .* at time 4"):
            hold.release()


def test_a_time_that_is_held_no_more_is_an_error():
    with closing(Dataflow({"joined": JOINED})) as together:
        fed(together, inputs_of(JOINED), between(BOTH, {0}))
        hold = together.hold()
        fed(together, inputs_of(JOINED), between(BOTH, {1, 2}))
        hold.advance(1)
        with pytest.raises(DeltamarkError, match="a hold cannot move back: 0, held 1"):
            hold.advance(0)
        hold.release()
        with pytest.raises(DeltamarkError, match="not a hold of this dataflow, or released: time 1"):
            together.attach("late", JOINED.count(), since=hold)
        assert list(together.schemas) == ["joined"], "the failed plan is retired"


def test_one_plan_at_a_time_is_attached_incrementally():
    with closing(Dataflow({"joined": JOINED})) as together:
        fed(together, inputs_of(JOINED), BOTH)
        with pytest.raises(DeltamarkError, match="too little fuel: 1"):
            together.attach("late", JOINED.count(), fuel=1)
        together.attach("late", JOINED.count(), fuel=2)
        for begin in (together.hold, lambda: together.attach("other", JOINED)):
            with pytest.raises(DeltamarkError, match="another plan is being attached: late"):
                begin()
        together.retire("late")
        together.hold().release()
        assert fed(together, inputs_of(JOINED), {}).keys() == {"joined"}


LONG_TIMES = {
    "join": JOINED,
    "join-with-itself": items.join(items.rename(other="value", more="word"), on="key"),
    "semijoin": items.semijoin(others, on="key"),
    "left-join": items.left_join(others, on="key"),
    "count": JOINED.count(by="value"),
    "top": JOINED.top(3, ["-amount"]),
    "loop": LOOPS["distances"],
}


@pytest.mark.parametrize("slice_rows", [1, 2, 7])
@pytest.mark.parametrize("how", ["hold", "fuel"])
@pytest.mark.parametrize("name", LONG_TIMES)
def test_residents_are_right_while_a_time_is_held(name, how, slice_rows, monkeypatch):
    """Times are longer than slices, so rows of earlier slices of a time lie behind those that are settled."""
    monkeypatch.setattr("deltamark.dataflow.builder.program.SLICE_ROWS", slice_rows)
    plan, order = LONG_TIMES[name], Random(slice_rows)
    streams = {each: churn(schema, order) for each, schema in inputs_of(plan).items()}
    said = []
    with closing(Dataflow({"plan": plan, "other": JOINED.count()})) as together:
        for time in range(5):
            if time == 2 and how == "hold":
                together.hold()
            if time == 2 and how == "fuel":
                together.attach("late", JOINED.count(by="key"), fuel=2)
            out = fed(together, inputs_of(JOINED) | inputs_of(plan), between(streams, {time}))
            said.append(stream_of(plan, out["plan"]))
    assert added(said) == changes(plan.node, streams)


@pytest.mark.parametrize("slice_rows", [1, 2, 7])
@pytest.mark.parametrize("name", LONG_TIMES)
def test_a_past_of_long_times_is_replayed(name, slice_rows, monkeypatch):
    """The log already has the rows of all slices of a time when the first slice is replayed."""
    monkeypatch.setattr("deltamark.dataflow.builder.program.SLICE_ROWS", slice_rows)
    plan, order = LONG_TIMES[name], Random(slice_rows)
    streams = {each: churn(schema, order) for each, schema in inputs_of(plan).items()}
    run = Feeds(Case(plan, streams), {"plan": plan, "other": JOINED.count()})
    with closing(run.together) as together:
        run.feed([0, 1])
        hold = together.hold()
        run.feed([2, 3])
        run.hear(together.attach("late", plan, history=run.history(1), since=hold))
        run.feed([4])
        assert run.said == run.expected(1)


def churn(schema, order: Random) -> list:
    """Return updates that insert a dozen rows of few values at each time, and delete most live rows, in any order."""
    live, updates = Counter(), []
    for time in range(5):
        rows = [tuple(order.randint(each.type.low, min(each.type.high, each.type.low + 2)) for each in schema.fields)
                for _ in range(12)]  # fmt: skip
        now = [(row, 1) for row in rows] + [(row, -n) for row, n in live.items() if n and order.random() < 0.7]
        order.shuffle(now)
        for row, diff in now:
            live[row] += diff
        updates += [(row, time, diff) for row, diff in now]
    return updates


def test_a_sum_stays_a_sum_while_feeds_come_between_pieces():
    """After a feed without rows the columns of the inputs are empty when the sum ends the time of its history."""
    keys = others.select("key").concat(items.select("key"), items.select("key").negate())
    summed = keys.join(items.aggregate(whole=col.value.sum()), on={})
    streams = {"items": [((0, 2, 1), 0, 3), ((1, 2, 1), 0, 1)], "others": [((1, 0, 8034), 0, 1)]}
    schemas = inputs_of(summed)
    with closing(Dataflow({"items": items, "others": others})) as together:
        fed(together, schemas, streams)
        history = {name: [live(schemas[name], stream)] for name, stream in streams.items()}
        together.attach("late", summed, history=history, fuel=2)
        said = {}
        while together.pending:
            said = fed(together, {}, {})
        assert stream_of(summed, said["late"]) == {(0, (1, 8)): 1}


def test_rows_that_have_left_since_a_time_do_not_count_as_live_when_history_is_read(monkeypatch):
    monkeypatch.setattr("deltamark.dataflow.runtime.backfill.BATCH_ROWS", 2)
    rows = source("rows", {"a": integer(0, 100)}, 20)

    def batch(time, first, diff):
        return {"rows": arrays(rows.schema, [((first + at,), time, diff) for at in range(20)])}

    with closing(Dataflow({"pairs": rows.join(rows.rename(b="a"), on={})})) as together:
        together.feed(batch(0, 0, 1))
        together.hold()
        together.feed(batch(1, 0, -1))
        together.feed(batch(2, 50, 1))
        assert together.attach("late", rows.count(), since=together.hold()).columns["count"].tolist() == [20]


def test_an_arrangement_is_kept_while_a_plan_that_reads_its_rows_is_attached(monkeypatch):
    monkeypatch.setattr("deltamark.dataflow.runtime.backfill.BATCH_ROWS", 2)
    rows = source("rows", {"a": integer(0, 100)}, 20)
    resident = {"pairs": rows.join(rows.rename(b="a"), on={}), "sum": rows.aggregate(total=col.a.sum())}
    with closing(Dataflow(resident)) as together:
        together.feed({"rows": arrays(rows.schema, [((at,), 0, 1) for at in range(20)])})
        kept = together.state_rows()
        together.attach("late", rows.count(), fuel=2)
        together.retire("pairs")
        assert together.state_rows() == kept
        while together.pending:
            out = together.feed({})
        assert out["late"].columns["count"].tolist() == [20]
        assert together.state_rows() == 2
        together.retire("late")
        assert together.state_rows() == 1


def test_changes_of_a_key_since_a_time_are_not_skipped():
    before = {"items": [((0, 1, 0), 0, 1)], "others": [((0, 2, 8034), 0, 1)]}
    change = {"others": [((0, 2, 8034), 1, -1), ((0, 1, 8034), 1, 1)]}
    with closing(Dataflow({"joined": JOINED})) as together:
        fed(together, inputs_of(JOINED), before)
        hold = together.hold()
        fed(together, inputs_of(JOINED), change)
        late = JOINED.aggregate(by=JOINED.schema.names)
        found = stream_of(late, together.attach("late", late, since=hold))
    streams = {name: before.get(name, []) + change.get(name, []) for name in before}
    assert found == changes(late.node, streams)
