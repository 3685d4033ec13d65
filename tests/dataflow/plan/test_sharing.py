"""Shared arrangements: filters become residual, keys are stored on the smaller side, and no answer depends on it."""

from __future__ import annotations

from contextlib import closing

from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.driving import between, stream_of
from support.engines.explanations import parts
from support.engines.late import check_late, cuts_of, fed, numbers_of_workers
from support.random_plans.case import Case
from support.random_plans.strategies import streams_of
from support.random_plans.streams import inputs_of, times_of
from support.reference.answers import changes
from support.written_plans.operators import others, sold

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
    return len(parts(together.explain(), "arrangement"))


@settings(max_examples=15)
@given(streams_of(everything), st.data())
def test_a_plan_that_shares_arrangements_has_the_changes_of_its_own(streams, data):
    times, cut = times_of(streams), data.draw(cuts_of(streams))
    schemas = inputs_of(everything)
    with closing(Dataflow(PLANS)) as together:
        assert kept(together) == 3, "items, others, and the distinct others"
        found = [fed(together, schemas, between(streams, set(part))) for part in (times[:cut], times[cut:])]
    for name, plan in PLANS.items():
        added = {change: diff for each in found for change, diff in stream_of(plan, each[name]).items()}
        assert added == changes(plan.node, streams)


@settings(max_examples=20)
@given(streams_of(everything), st.sampled_from(sorted(PLANS)), st.data())
def test_a_plan_attached_late_reads_the_rows_that_pass_its_filter(streams, name, data):
    cut = data.draw(cuts_of(streams))
    check_late(
        Case(PLANS[name], streams), PLANS, cut, stay=data.draw(st.booleans()), workers=data.draw(numbers_of_workers)
    )


def test_a_filter_with_a_bitmap_needs_no_other_arrangement():
    with closing(Dataflow(PLANS)) as together:
        before = kept(together)
        together.attach("again", dear.select("key").join(others, on="key"))
        assert kept(together) == before
        together.attach("new", sold.where(col.value == 2).join(others, on="key"))
        assert kept(together) == before + 1


def test_explain_names_the_alternatives():
    with closing(Dataflow(PLANS)) as together:
        (line,) = (each for each in together.explain().splitlines() if "residual filters" in each)
        assert line.strip().startswith("items, by key: 4 residual filters, one shared arrangement ")


def test_selective_filters_stay_below_their_arrangements():
    few = {place: sold.where(col.value == place).join(others, on="key") for place in (1, 2)}
    with closing(Dataflow({str(place): each for place, each in few.items()})) as together:
        assert kept(together) == 3
        assert "items, by key: 2 separate arrangements " in together.explain()


def test_an_arrangement_is_removed_with_its_last_reader():
    with closing(Dataflow(PLANS)) as together:
        for name in list(PLANS)[1:]:
            together.retire(name)
        assert kept(together) == 2
        together.retire("all")
        assert together.explain() == ""


def test_a_required_key_is_stored_on_the_side_with_fewer_rows():
    kept = compile_plans({"": sold.join(others, on="key").node}).arrangements
    stored = {each.key.node.name: set(map(str, each.arrangement.stored)) for each in kept}
    assert stored == {"items": {"value", "word"}, "others": {"key", "amount", "day"}}
