"""What arrangements have: filters are left to readers, and keys to the side with fewer rows; no answer shows it."""

from __future__ import annotations

from contextlib import closing

from hypothesis import given, settings
from hypothesis import strategies as st
from support.driving import between, stream_of
from support.growth import Case
from support.late import check_late, cuts_of, fed
from support.laws import others, sold
from support.plans import streams_of
from support.reference import changes
from support.streams import inputs_of, times_of

from deltamark.dataflow.codegen.compiler import compile_plans
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.runtime.dataflow import Dataflow

dear, cheap = sold.where(col.value > 0), sold.where((col.value <= 1) & (col.word != "bee"))
PLANS = {
    "all": sold.select("key", "value").join(others, on="key"),
    "dear": dear.select("key", "value").join(others, on="key"),
    "cheap": cheap.select("value", k=col.key).join(others, on={"k": "key"}),
    "most": sold.where(col.value >= 0).select("key", "value").join(others, on="key"),
    "some": dear.select("key", "word").where(col.word == "ant").select("key").semijoin(others, on="key"),
    "both": dear.select("key", "value").join(cheap.select("key", other=col.value), on="key").select("value", "other"),
}
everything = sold.join(others, on="key")


def kept(together: Dataflow) -> int:
    return together.explain().count("arrangement of")


@settings(max_examples=15)
@given(streams_of(everything), st.data())
def test_each_has_the_changes_that_it_has_with_an_arrangement_of_its_own(streams, data):
    times, cut = times_of(streams), data.draw(cuts_of(streams))
    schemas = inputs_of(everything)
    with closing(Dataflow(PLANS)) as together:
        assert kept(together) == 3, "items, others, and those others that are distinct"
        found = [fed(together, schemas, between(streams, set(part))) for part in (times[:cut], times[cut:])]
    for name, plan in PLANS.items():
        told = {change: diff for each in found for change, diff in stream_of(plan, each[name]).items()}
        assert told == changes(plan.node, streams)


@settings(max_examples=20)
@given(streams_of(everything), st.sampled_from(sorted(PLANS)), st.data())
def test_one_that_comes_late_reads_the_rows_that_its_filter_lets_pass(streams, name, data):
    cut = data.draw(cuts_of(streams))
    check_late(Case(PLANS[name], streams), PLANS, cut, stay=data.draw(st.booleans()))


def test_a_filter_that_an_arrangement_tells_needs_no_other_arrangement():
    with closing(Dataflow(PLANS)) as together:
        before = kept(together)
        together.attach("again", dear.select("key").join(others, on="key"))
        assert kept(together) == before
        together.attach("new", sold.where(col.value == 2).join(others, on="key"))
        assert kept(together) == before + 1


def test_explain_says_what_was_weighed():
    with closing(Dataflow(PLANS)) as together:
        (line,) = (each for each in together.explain().splitlines() if "filters" in each)
        assert line.strip().startswith("items, by key: 4 filters left to readers, estimated at ")


def test_filters_that_keep_little_stay_below_their_arrangements():
    few = {place: sold.where(col.value == place).join(others, on="key") for place in (1, 2)}
    with closing(Dataflow({str(place): each for place, each in few.items()})) as together:
        assert kept(together) == 3
        assert "items, by key: 2 with filters of their own, estimated at " in together.explain()


def test_what_only_a_filter_needed_goes_with_the_last_who_reads_it():
    with closing(Dataflow(PLANS)) as together:
        for name in list(PLANS)[1:]:
            together.retire(name)
        assert kept(together) == 2
        together.retire("all")
        assert together.explain() == ""


def test_a_key_that_is_asked_for_is_stored_where_rows_are_fewer():
    kept = compile_plans({"": sold.join(others, on="key").node}).kept
    stored = {each.what[0].params: set(map(str, each.arrangement.stored)) for each in kept}
    assert stored == {"items": {"value", "word"}, "others": {"key", "amount", "day"}}
