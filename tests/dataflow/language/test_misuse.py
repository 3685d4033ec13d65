"""Misuse of the language is an error of one line, with the next step."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from support.written_plans.relations import items, others, texts

from deltamark.dataflow.language.collection import source
from deltamark.dataflow.language.expr import col, count, when
from deltamark.dataflow.types import BOOL, code_type, integer
from deltamark.errors import DeltamarkError

flags = source("flags", {"late": BOOL.or_null()}, 9)

MISUSE = {
    "unknown-column": (lambda: items.where(col.prise > 1), "unknown column: prise; did you mean price"),
    "unknown-selected": (lambda: items.select("kee"), "unknown column: kee; did you mean key"),
    "unknown-renamed": (lambda: items.rename(x="zzzzz"), "unknown column: zzzzz; there are key, price, value"),
    "unknown-key": (lambda: items.count(by="kye"), "unknown column: kye; did you mean key"),
    "unknown-join-key": (lambda: items.join(others, on="amount"), "unknown column: amount; there are"),
    "unknown-extreme": (lambda: items.largest("valeu"), "unknown column: valeu; did you mean value"),
    "unknown-order": (lambda: items.top(3, ["-pric"]), "unknown column: pric; did you mean price"),
    "number-among-words": (lambda: texts.where(col.mode.is_in([5])), "cannot be one of these: mode (code): 5; use its"),
    "float": (lambda: items.where(col.price > 0.5), "not a value of an expression: 0.5 (float); write an int, Dec"),
    "none": (lambda: items.where(col.price == None), "not a value of an expression: None (NoneType)"),  # noqa: E711
    "true": (lambda: items.where(col.price == True), "cannot be compared: price is decimal(2), True is bool"),  # noqa: E712
    "datetime": (
        lambda: others.where(col.day < dt.datetime(1992, 1, 1)),  # noqa: DTZ001
        "not a value of an expression: datetime.datetime(1992, 1, 1, 0, 0) (datetime)",
    ),
    "not-a-number": (lambda: items.where(col.price < Decimal("NaN")), "not a value of an expression: Decimal('NaN')"),
    "half-a-when": (lambda: items.select(x=when(col.key == 1, 2)), "not a value of an expression:"),
    "chained": (lambda: items.where(0 < col.value < 3), "an expression is neither true nor false: less(0, value)"),
    "and": (lambda: items.where((col.value > 1) and (col.key > 1)), "an expression is neither true nor false"),
    "in": (lambda: col.value in [col.key, col.price], "an expression is neither true nor false: equal(key, value)"),
    "not-a-condition": (lambda: items.where(col.value + 1), "not a condition: add(value, 1) is int"),
    "and-of-numbers": (lambda: items.where(col.value & col.key), "not a condition: value is int"),
    "condition-as-number": (lambda: items.select(x=(col.value > 1) + 1), "not of type int: "),
    "missing-condition": (lambda: flags.where(col.late), "a value that may be missing: late in late; give it a value"),
    "condition-and-number": (lambda: items.where((col.value > 1) == 1), "cannot be compared: "),
    "date-and-number": (lambda: others.where(col.day < 8035), "cannot be compared: day is date, 8035 is int"),
    "date-and-text": (lambda: others.where(col.day < "1992-01-01"), "cannot be compared: day (date) with '1992-01-01'"),
    "sum-of-dates": (lambda: others.aggregate(x=col.day.sum()), "cannot be summed: x = day (date)"),
    "sum-of-missing": (
        lambda: items.left_join(others, on="key").aggregate(x=col.amount.sum()),
        "cannot be summed: x = amount (int?)",
    ),
    "date-plus-number": (lambda: others.select(x=col.day + 1), "not of type int: day is date in add(day, 1)"),
    "year-of-a-number": (lambda: others.select(x=col.amount.year()), "not of type date: amount is int in year(amount)"),
    "like-on-a-number": (lambda: items.where(col.key.like("1%")), "not of type code or text: key is int in like("),
    "like-with-one-character": (
        lambda: texts.where(col.comment.like("a_b")),
        "a pattern for stored text has % alone: 'a_b'; leave _ out",
    ),
    "like-a-number": (lambda: texts.where(col.comment.like(5)), "not a pattern: 5"),
    "long-substring": (
        lambda: texts.select(x=col.comment.substring(1, 8)),
        "no such substring: 1, 8; start at 1, take",
    ),
    "substring-from-0": (lambda: texts.select(x=col.comment.substring(0, 2)), "no such substring: 0, 2; start at 1"),
    "member-of-another-type": (lambda: items.where(col.key.is_in(["1"])), "cannot be one of these: key (int): 1"),
    "member-of-finer-scale": (
        lambda: items.where(col.key.is_in([Decimal("0.5")])),
        "cannot be one of these: key (int)",
    ),
    "number-among-short-text": (
        lambda: texts.where(col.short.is_in([13])),
        "cannot be one of these: short (short): 13",
    ),
    "members-in-one-text": (lambda: texts.where(col.short.is_in("13")), "not a list of values: '13'"),
    "branches": (
        lambda: others.select(x=when(col.key == 1, col.day).otherwise(0)),
        "the branches of when(...) have different types: date and int in when(",
    ),
    "missing-branch-of-another-scale": (
        lambda: items.left_join(others, on="key").select(x=when(col.key == 1, col.amount).otherwise(Decimal("0.5"))),
        "a value that may be missing: amount",
    ),
    "missing-in-arithmetic": (
        lambda: items.left_join(others, on="key").select(x=col.amount + 1),
        "a value that may be missing: amount in add(amount, 1); give it a value by .coalesce(...)",
    ),
    "coalesce-to-another-type": (
        lambda: items.left_join(others, on="key").select(x=col.day.coalesce(0)),
        "the default of coalesce has another type: 0 (int) for day (date?)",
    ),
    "column-given-twice": (lambda: items.select("key", key=col.value), "a column given twice: key; give each a name"),
    "column-named-twice": (lambda: items.select("key", "key"), "a column given twice: key; give each a name"),
    "aggregate-given-twice": (lambda: items.aggregate("key", key=count()), "a column given twice: "),
    "renamed-onto-another": (lambda: items.rename(key="value"), "a column given twice: key; give each a name"),
    "renamed-twice": (lambda: items.rename(a="key", b="key"), "a column given twice: key"),
    "aggregate-of-a-bare-column": (
        lambda: items.aggregate("key", x=col.value),
        "not an aggregate: x = value; write col.x.sum(), col.x.mean()",
    ),
    "join-of-different-types": (
        lambda: items.join(others, on={"value": "day"}),
        "keys of different types: value: int and date; declare both with the same type",
    ),
    "join-of-different-scales": (
        lambda: items.join(others, on={"price": "amount"}),
        "keys of different types: price: decimal(2) and int",
    ),
    "join-on-missing": (
        lambda: items.left_join(others, on="key").join(others.select(n=col.amount), on={"amount": "n"}),
        "a key that may be missing: amount",
    ),
    "join-with-a-column-on-both-sides": (
        lambda: items.join(items, on="key").join(items, on="key"),
        "a column on both sides of a join: items.value; rename one of them first",
    ),
    "semijoin-on-nothing": (lambda: items.semijoin(others, on=()), "a semijoin needs a key: (); "),
    "concat-of-different-columns": (lambda: items.concat(others), "different columns: ('key', 'value', 'price') and"),
    "concat-of-different-scales": (
        lambda: items.select(x=col.value).concat(items.select(x=col.price)),
        "columns of different types: x: int and dec",
    ),
    "threshold-0": (lambda: items.threshold(0), "no such multiplicity: 0; give at least 1"),
    "top-0": (lambda: items.top(0, []), "no such number of rows: 0; give at least 1"),
    "top-of-half-a-row": (lambda: items.top(1.5, []), "no such number of rows: 1.5; give"),
    "sum-of-a-ratio": (
        lambda: items.select(x=col.value / 7).aggregate(y=col.x.sum()),
        "a ratio is not a number here: x; multiply, divide, compare or select it",
    ),
    "ratio-by-a-sum": (
        lambda: items.aggregate(x=col.value.sum() / col.price.sum()).where(col.x > 1),
        "a denominator that may be zero or negative: x.den >= 0 in less(1, x); compare the products instead",
    ),
    "sum-by-a-number": (
        lambda: items.aggregate(x=col.value.sum() / 7),
        "not a sum to divide by: 7; divide by a number",
    ),
    "overflow-of-a-product": (
        lambda: items.select(x=col.price * (2**60)),
        "a value may not fit in 64 bits: 0..1151",
    ),
    "overflow-of-a-scale": (
        lambda: items.where(col.value > Decimal("0." + 18 * "0" + "1")),
        "a value may not fit in 64 bits: ",
    ),
    "overflow-of-a-constant": (lambda: items.where(col.value < 2**63), "a value may not fit in 64 bits: 9223372036854"),
    "bounds-upside-down": (lambda: integer(3, 2), "a value may not fit in 64 bits: 3..2"),
    "unsorted-words": (lambda: code_type(("b", "a")), "the words of a code are not sorted and distinct: ('b', 'a')"),
}


@pytest.mark.parametrize(("build", "message"), MISUSE.values(), ids=MISUSE.keys())
def test_misuse_is_an_error_of_one_line(build, message):
    with pytest.raises(DeltamarkError) as error:
        build()
    said = str(error.value)
    assert said.startswith(message)
    assert "\n" not in said
    assert "; " in said
