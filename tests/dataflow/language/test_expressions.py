"""Expressions have the values of their formulas, and their types bound these values."""

from __future__ import annotations

import datetime as dt
import operator
import re
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.driving import at_once
from support.random_plans.choices import Drawn
from support.random_plans.expressions import condition, number
from support.random_plans.strategies import cases
from support.random_plans.streams import times_of
from support.reference.answers import answer
from support.reference.terms import evaluate
from support.written_plans.relations import items, limits, pairs, texts
from support.written_plans.thresholds import above

from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import bind, col, count, when
from deltamark.dataflow.scalars import expressions as tree
from deltamark.dataflow.scalars.expressions import Comparator
from deltamark.dataflow.types import (
    EPOCH,
    LARGEST,
    NULL,
    SHORT,
    code_type,
    date_type,
    integer,
    pack_short,
    unpack_short,
)
from deltamark.errors import DeltamarkError

NUMBERS = source(
    "numbers",
    {
        "a": integer(-(10**4), 10**4),
        "b": integer(0, 10**3, scale=2),
        "c": integer(-5, -2, scale=1),
        "day": date_type(8030, 8040),
        "word": code_type(("ant", "bee", "cat")),
        "short": SHORT,
        "missing": integer(-3, 3).or_null(),
    },
    10,
).schema


@st.composite
def a_row(draw):
    """Draw a row whose numbers are often at their bounds."""
    row = {}
    for field in NUMBERS.fields:
        low, high = field.type.low, field.type.high
        ends = [NULL] if field.type.nullable else [low, high]
        row[field.name] = draw(st.sampled_from(ends) | st.integers(low, high))
    return row | {"short": pack_short(draw(st.sampled_from(["", "a", "ab", "b"])))}


def shown(name, value):
    """Decode a stored value."""
    type_ = NUMBERS[name]
    match type_.kind:
        case "int":
            return None if value == NULL else Fraction(value, 10**type_.scale)
        case "date":
            return EPOCH + dt.timedelta(days=value)
        case "code":
            return type_.words[value]
    return unpack_short(value)


def like(text, pattern):
    return re.fullmatch("".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in pattern), text) is not None


SYMBOLS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "year": lambda day: day.year, "like": like,
    "contains": operator.contains,
}  # fmt: skip
COMPARATORS = {
    Comparator.EQUAL: operator.eq, Comparator.UNEQUAL: operator.ne, Comparator.LESS: operator.lt,
    Comparator.AT_MOST: operator.le, Comparator.GREATER: operator.gt, Comparator.AT_LEAST: operator.ge,
}  # fmt: skip


def meaning(of, row):  # noqa: C901, PLR0911 (a case for each class)
    """Compute an expression from its formula, in exact fractions, words and dates. None of its operands is NULL."""
    parts = [meaning(each, row) for each in of.parts]
    match of:
        case tree.Column():
            return shown(of.key, row[of.key])
        case tree.Constant():
            return stated(of.type, of.value)
        case tree.Call(tree.Function("-"), (_,)):
            return -parts[0]
        case tree.Call():
            return SYMBOLS[of.function.name](*parts)
        case tree.Comparison():
            return COMPARATORS[of.comparator](*parts)
        case tree.And():
            return all(parts)
        case tree.Or():
            return any(parts)
        case tree.Not():
            return not parts[0]
        case tree.IsNull():
            return parts[0] is None
        case tree.In():
            return parts[0] in parts[1:]
        case tree.Case():
            test, value, otherwise = parts
            return value if test else otherwise
        case tree.Coalesce():
            return next(each for each in parts if each is not None)
    raise AssertionError(of)


def stated(type_, value):
    match type_.name:
        case "DECIMAL":
            return Fraction(value, 10**type_.scale)
        case "DATE":
            return EPOCH + dt.timedelta(days=value)
    return value


@settings(max_examples=200)
@given(st.data(), a_row())
def test_a_number_has_the_value_of_its_formula_within_its_bounds(data, row):
    expr = number(Drawn(data.draw), NUMBERS, 3)
    term = bind(expr, NUMBERS)
    value = evaluate(term, row)
    assert Fraction(value, 10**term.type.scale) == meaning(expr.node, row)
    assert term.type.low <= value <= term.type.high


@settings(max_examples=200)
@given(st.data(), a_row())
def test_a_condition_has_the_value_of_its_formula(data, row):
    expr = condition(Drawn(data.draw), NUMBERS, 3)
    assert evaluate(bind(expr, NUMBERS), row) == meaning(expr.node, row)


@given(cases(), st.data())
def test_answers_keep_to_the_bounds_of_their_schema(case, data):
    time = data.draw(st.sampled_from([0, *times_of(case.streams)]))
    for row in answer(case.collection.node, case.streams, time):
        for field, value in zip(case.collection.schema.fields, row, strict=True):
            bounded = isinstance(value, str) or field.type.low <= value <= field.type.high
            assert bounded or (field.type.nullable and value == NULL)


def test_a_sum_of_signed_rows_keeps_to_its_bounds():
    node = pairs.concat(limits.rename(value="limit").negate()).aggregate(x=col.value.sum()).node
    ((value,),) = answer(node, {"pairs": [((1, 1), 0, 2)], "limits": [((1, 9), 0, 1)]}, 0)
    assert value == -7
    assert node.schema["x"].low <= value


def test_the_rows_of_a_join_keep_to_the_bound_of_its_schema():
    few = {name: source(name, {"key": integer(0, 9), name: integer(0, 9)}, 10) for name in ("a", "b")}
    joined = few["a"].join(few["b"], on="key")
    streams = {name: [((1, each), 0, 1) for each in range(10)] for name in few}
    assert sum(answer(joined.node, streams, 0).values()) <= joined.schema.rows


@pytest.mark.parametrize(
    ("expr", "scale", "value"),
    [
        (col.price + 1, 2, 350),
        (1 - col.price, 2, -150),
        (col.price * col.price, 4, 62500),
        (col.price * Decimal("0.05"), 4, 1250),
        (col.price + Decimal("0.005"), 3, 2505),
        (-col.price, 2, -250),
        (when(col.price > 1, col.price).otherwise(0), 2, 250),
        (when(col.price > Decimal("2.505"), Decimal("0.125")).otherwise(col.price), 3, 2500),
    ],
    ids=str,
)
def test_scales_align_exactly(expr, scale, value):
    term = bind(expr, items.schema)
    assert (term.type.scale, evaluate(term, {"price": 250})) == (scale, value)


def test_a_value_and_its_limit_align():
    """3 is above 2.50."""
    node = above(items, items.aggregate(x=col.price.sum()), col.value, "x").node
    row = (1, 3, 250)
    assert answer(node, {"items": [(row, 0, 1)]}, 0) == {row: 1}


@pytest.mark.parametrize(
    ("expr", "low", "high"),
    [
        (col.value + col.key, -5, 12),
        (col.value - col.key, -8, 9),
        (col.value * col.value, -45, 81),
        (col.value * -2, -18, 10),
        (-col.value, -9, 5),
        (when(col.key == 1, col.value).otherwise(100), -5, 100),
        (col.price - Decimal("0.5"), -50, 949),
    ],
    ids=str,
)
def test_bounds_are_those_of_intervals(expr, low, high):
    term = bind(expr, items.schema)
    assert (term.type.low, term.type.high) == (low, high)


def test_a_sum_is_bounded_by_the_rows():
    summed = items.aggregate(x=col.value.sum(), y=col.price.sum(), n=count()).schema
    assert [max(-each.type.low, each.type.high) for each in summed.fields] == [900, 99900, 100]
    huge = source("huge", {"x": integer(-LARGEST, LARGEST)}, 2).aggregate(x=col.x.sum()).schema["x"]
    assert (huge.low, huge.high) == (-LARGEST, LARGEST)


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        (col.comment == "a b", {"a b"}),
        (col.comment.like("a%"), {"a b", "a", "a.b\nc"}),
        (col.comment.like("%b"), {"a b"}),
        (col.comment.like("a%b%c"), {"a.b\nc"}),
        (col.comment.like("%a%a%"), {"xaxa"}),
        (col.comment.contains("."), {"a.b\nc"}),
        (col.comment != "a", {"", "a b", "a.b\nc", "xaxa"}),
        (col.comment.substring(2, 3) == " b", {"a b"}),
        (col.comment.substring(9, 1) == "", {"", "a b", "a", "a.b\nc", "xaxa"}),
    ],
    ids=lambda each: str(sorted(each) if isinstance(each, set) else each),
)
def test_texts_are_matched_as_in_sql(predicate, kept):
    term = texts.where(predicate).node.condition
    assert {text for text in ("", "a b", "a", "a.b\nc", "xaxa") if evaluate(term, {"comment": text})} == kept


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=7).filter(lambda text: len(text.encode()) <= 7)))
def test_short_texts_are_packed_in_the_order_of_their_bytes(words):
    packed = [pack_short(word) for word in words]
    assert [unpack_short(each) for each in packed] == words
    assert [unpack_short(each) for each in sorted(packed)] == sorted(words, key=str.encode)


EDGES = {
    "more than the most": (col.x > LARGEST, []),
    "less than the least": (col.x < -LARGEST, []),
    "at least the most": (col.x >= LARGEST, [LARGEST]),
    "at most the least": (col.x <= -LARGEST, [-LARGEST]),
    "not less than the most": (~(col.x < LARGEST), [LARGEST]),
    "more than the most, and little": ((col.x > LARGEST) & (col.x < 5), []),
    "between the wrong ends": (col.x.between(LARGEST, -LARGEST), []),
}


@pytest.mark.parametrize("name", EDGES)
def test_a_filter_may_compare_with_the_ends_of_64_bits(name):
    test, kept = EDGES[name]
    ends = source("ends", {"x": integer(-LARGEST, LARGEST)}, 100)
    rows = [((value,), 0, 1) for value in (-LARGEST, -1, 0, 1, LARGEST)]
    assert at_once(ends.where(test), {"ends": rows}) == {(0, (value,)): 1 for value in kept}


@pytest.mark.parametrize(("low", "high"), [(-719163, 0), (0, 2932897), (-(2**31), 2**31 - 1)])
def test_a_year_outside_the_calendar_is_an_error(low, high):
    days = source("days", {"day": date_type(low, high)}, 10)
    with pytest.raises(
        DeltamarkError, match=rf"a function of dates between the days {low} and {high} since 1970 in year"
    ):
        days.select(y=col.day.year())
