"""Rewritten plans have the changes of the original plans."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.laws import check_life
from support.random_plans.case import Case
from support.random_plans.strategies import streams_of
from support.written_plans.relations import items, others

from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col, count
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.linear import Project
from deltamark.dataflow.operators.moving_threshold import MovingThreshold
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.passes.rewrite import rewrite
from deltamark.dataflow.types import DOUBLE, integer

means = items.aggregate("key", mean=col.value.mean())
sums = others.aggregate("key", limit=col.amount.sum())
pairs = items.join(means, on="key")
ITEMS = items.schema.names
measured = source("measured", {"key": integer(0, 2), "x": DOUBLE, "y": DOUBLE}, 100)
measured_pairs = measured.join(measured.aggregate("key", limit=col.y.sum()), on="key")

COMPARED = {
    "less than a mean": pairs.where(col.value < col.mean),
    "at most a mean": pairs.where(col.value <= col.mean),
    "above a mean": pairs.where(col.value > col.mean),
    "at least a mean": pairs.where(col.mean <= col.value),
    "less than a share of a mean": pairs.where(col.value < Decimal("0.2") * col.mean),
    "a multiple above a sum": items.join(sums, on="key").where(2 * col.value > col.limit),
    "above a sum with a margin": items.join(sums, on="key").where(col.value > col.limit + 3),
    "limits on the left": sums.join(items, on="key").where(col.value >= col.limit),
    "above the sum of all": items.cross(others.aggregate(limit=col.amount.sum())).where(col.value > col.limit),
    "above the first": items.cross(others.select("amount").top(1, ["amount"])).where(col.value > col.amount),
    "and other conditions": pairs.where((col.value < col.mean) & (col.price > 1) & (col["mean.den"] > 1)),
    "less than a double": measured_pairs.where(col.x < col.limit),
    "at most a double": measured_pairs.where(col.x <= 2 * col.limit),
    "above a double": measured_pairs.where(col.x + Decimal("0.5") > col.limit),
    "at least a double": measured_pairs.where(col.limit / 3 <= col.x),
    "at most the double of all": measured.cross(measured.aggregate(limit=col.x.sum())).where(col.x <= col.limit),
    "a number at most a double": items.join(measured.aggregate("key", limit=col.y.sum()), on="key").where(
        col.value <= col.limit
    ),
    "without partners": items.antijoin(others, on="key").join(means, on="key").where(col.value < col.mean),
}
COMPARED = {
    name: plan.select(*(ITEMS if "value" in plan.schema.names else measured.schema.names))
    for name, plan in COMPARED.items()
}

KEPT = {
    "the limit is part of the result": pairs.where(col.value < col.mean),
    "a key may have several limits": items.join(others, on="key").where(col.value < col.amount).select(*ITEMS),
    "a key has one row on both sides": means.join(sums, on="key").where(col["mean.num"] < col.limit).select("key"),
    "the comparison is no order": pairs.where(col.value == col.mean).select(*ITEMS),
    "two comparisons": pairs.where((col.value < col.mean) & (2 * col.price > col.mean)).select(*ITEMS),
    "a sum of both sides": items.join(sums, on="key").where(col.value + col.limit < 9).select(*ITEMS),
    "rows that may be negative": items.concat(items.negate()).join(sums, "key").where(col.value < col.limit)
    .select(*ITEMS),
}  # fmt: skip

product = col.value * (7 - col.price)
EARLY = {
    "in a sum": items.join(others, on="key").aggregate("day", x=product.sum()),
    "in a projection": items.join(others, on="key").select("day", x=product),
    "with a factor of the other side": items.join(others, on="key").aggregate("day", x=(product * col.amount).sum()),
    "on the right side": others.join(items, on="key").aggregate("day", x=product.sum()),
    "below a filter": items.join(others, on="key").where(col.amount > 3).aggregate("day", x=product.sum()),
    "below two joins": items.join(others, on="key")
    .join(means.rename(other="key"), on={"value": "other"})
    .aggregate("day", x=product.sum(), n=count()),
}


def kinds(plan):
    return {type(node) for node in walk(rewrite({"": plan.node})[""])}


@pytest.mark.parametrize("name", COMPARED)
def test_a_comparison_with_the_only_limit_of_a_key_becomes_a_moving_threshold(name):
    assert MovingThreshold in kinds(COMPARED[name])


@pytest.mark.parametrize("name", KEPT)
def test_other_comparisons_stay_joins(name):
    assert MovingThreshold not in kinds(KEPT[name])
    assert Join in kinds(KEPT[name])


@pytest.mark.parametrize("name", EARLY)
def test_arithmetic_on_one_side_is_computed_below_the_join(name):
    before = {node for node in walk(EARLY[name].node) if isinstance(node, Project)}
    computed = [node for node in walk(rewrite({"": EARLY[name].node})[""]) if isinstance(node, Project)]
    assert any(str(term).startswith("multiply(value") for node in computed for _, term in node.columns)
    assert len(computed) > len(before)


def test_a_term_stays_where_its_columns_are_stored_anyway():
    plan = items.join(others, on="key").select("day", "value", "price", x=product)
    assert rewrite({"": plan.node})[""] is plan.node


@pytest.mark.parametrize("plan", [*COMPARED.values(), *KEPT.values(), *EARLY.values()])
@settings(max_examples=10)
@given(st.data())
def test_a_rewritten_plan_has_the_changes_of_the_plan_as_written(plan, data):
    check_life(Case(plan, data.draw(streams_of(plan))), data)
