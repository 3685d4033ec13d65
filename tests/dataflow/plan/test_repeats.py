"""Rows that a join only multiplies are counted, and the changes stay those of the plan as written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.laws import check_life
from support.random_plans.case import Case
from support.random_plans.strategies import streams_of

from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.expr import col, count
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.operators.repeat import Repeat
from deltamark.dataflow.passes.rewrite import rewrite
from deltamark.dataflow.types import integer

weeks = integer(0, 2)
sales = source("sales", {"week": weeks, "shop": integer(0, 2), "price": integer(-2, 3)}, 10_000)
days = source("days", {"week": weeks.or_null(), "day": integer(0, 5)}, 100)
shops = source("shops", {"shop": integer(0, 2), "size": integer(0, 9)}, 100)

totals = sales.aggregate("week", sum=col.price.sum())
of_week = sales.join(days.where(~col.week.is_null()).select("day", week=col.week.coalesce(0)), on="week")
by_day = totals.join(days.select("week"), on="week", null_keys=True)

COUNTED = {
    "rows of which only the key is read": (of_week.select("shop", "price"), 1),
    "totals": (by_day, 1),
    "the left side": (days.join(sales, on="week", null_keys=True).select("shop", "price"), 1),
    "filtered rows": (sales.join(days.where(col.day > 2), on="week", null_keys=True).select("price"), 1),
    "all pairs": (sales.cross(days).select("shop", "price"), 1),
    "summed rows": (of_week.aggregate("shop", sum=col.price.sum(), n=count()), 1),
    "distinct rows": (of_week.select("shop").distinct(), 1),
    "two sides after each other": (of_week.select("shop", "price").join(shops.select("shop"), on="shop"), 2),
    "two joins of totals with each other": (
        by_day.where(col.week < 2).join(by_day.select(other="sum", before=col.week - 1), on={"week": "before"}), 2,
    ),
    "a repeated join with itself": (by_day.join(by_day.rename(other="sum"), on="week", null_keys=True), 2),
    "a projection and a filter between joins": (
        of_week.where(col.price > 0).select("shop", x=2 * col.price).join(shops, on="shop"), 1,
    ),
}  # fmt: skip
"""Plans, and the repeats that they become."""

KEPT = {
    "another column is read": of_week.select("day", "price"),
    "keys are unique": sales.join(days.distinct("week"), on="week", null_keys=True).select("price"),
    "the other side changes less often": shops.join(sales.select("shop"), on="shop"),
    "keys have few rows": sales.join(source("few", {"week": integer(0, 60)}, 100), on="week"),
    "rows that may be negative": sales.join(shops.concat(shops.negate()).select("shop"), on="shop"),
}


def repeats(plan: Collection) -> int:
    return sum(isinstance(node, Repeat) for node in walk(rewrite({"": plan.node})[""]))


@pytest.mark.parametrize("name", COUNTED)
def test_rows_that_a_join_only_multiplies_are_counted(name):
    plan, number = COUNTED[name]
    assert repeats(plan) == number


@pytest.mark.parametrize("name", KEPT)
def test_other_joins_stay(name):
    assert repeats(KEPT[name]) == 0


def test_joins_above_pair_rows_before_they_are_repeated():
    rewritten = rewrite({"": COUNTED["two joins of totals with each other"][0].node})[""]
    joins = [node for node in walk(rewritten) if isinstance(node, Join)]
    assert not any(isinstance(below, Repeat) for join in joins for each in join.inputs for below in walk(each))


@pytest.mark.parametrize("plan", [*(plan for plan, _ in COUNTED.values()), *KEPT.values()])
@settings(max_examples=15)
@given(st.data())
def test_a_rewritten_plan_has_the_changes_of_the_plan_as_written(plan, data):
    check_life(Case(plan, data.draw(streams_of(plan))), data)
