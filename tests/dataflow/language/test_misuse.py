"""Misuse of the language is an error of one line, with the next step."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from support.written_plans.relations import items, others, texts

from deltamark.dataflow.language.expr import col, count, when
from deltamark.dataflow.types import code_type, integer
from deltamark.errors import DeltamarkError

MISUSE = {
    "unknown-column": (lambda: items.where(col.prise > 1), "unknown column: prise; did you mean price"),
    "unknown-selected": (lambda: items.select("kee"), "unknown column: kee; did you mean key"),
    "unknown-renamed": (lambda: items.rename(x="zzzzz"), "unknown column: zzzzz; there are key, price, value"),
    "unknown-key": (lambda: items.count(by="kye"), "unknown column: kye; did you mean key"),
    "unknown-join-key": (lambda: items.join(others, on="amount"), "unknown column: amount; there are"),
    "unknown-extreme": (lambda: items.largest("valeu"), "unknown column: valeu; did you mean value"),
    "unknown-order": (lambda: items.top(3, ["-pric"]), "unknown column: pric; did you mean price"),
    "number-among-words": (
        lambda: texts.where(col.mode.is_in([5])),
        "cannot be compared: mode is code, 5 is int in is_in(mode, [5]); ",
    ),
    "float": (lambda: items.where(col.price > 0.5), "not a value of an expression: 0.5 (float); write an int, Dec"),
    "none": (lambda: items.where(col.price == None), "not a value of an expression: None (NoneType)"),  # noqa: E711
    "true": (lambda: items.where(col.price == True), "cannot be compared: price is decimal(2), True is bool"),  # noqa: E712
    "datetime": (
        lambda: others.where(col.day < dt.datetime(1992, 1, 1)),  # noqa: DTZ001
        "not a value of an expression: datetime.datetime(1992, 1, 1, 0, 0) (datetime)",
    ),
    "not-a-number": (lambda: items.where(col.price < Decimal("NaN")), "not a value of an expression: Decimal('NaN')"),
    "half-a-when": (lambda: items.select(x=when(col.key == 1, 2)), "not a value of an expression:"),
    "chained": (
        lambda: items.where(0 < col.value < 3),
        "an expression is neither true nor false: value > 0; write & | ~",
    ),
    "and": (lambda: items.where((col.value > 1) and (col.key > 1)), "an expression is neither true nor false"),
    "in": (
        lambda: col.value in [col.key, col.price],
        "an expression is neither true nor false: key == value; write & | ~",
    ),
    "not-a-condition": (lambda: items.where(col.value + 1), "not a condition: value + 1 is int"),
    "and-of-numbers": (lambda: items.where(col.value & col.key), "not a condition: value is int"),
    "condition-as-number": (lambda: items.select(x=(col.value > 1) + 1), "not of type int: "),
    "condition-and-number": (lambda: items.where((col.value > 1) == 1), "cannot be compared: "),
    "date-and-number": (lambda: others.where(col.day < 8035), "cannot be compared: day is date, 8035 is int"),
    "date-and-text": (
        lambda: others.where(col.day < "1992-01-01"),
        "cannot be compared: day is date, 1992-01-01 is text",
    ),
    "sum-of-dates": (lambda: others.aggregate(x=col.day.sum()), "cannot be summed: x = day (date)"),
    "sum-of-missing": (
        lambda: items.left_join(others, on="key").aggregate(x=col.amount.sum()),
        "cannot be summed: x = amount (int?)",
    ),
    "date-times-number": (lambda: others.select(x=col.day * 2), "not of type int: day is date in day * 2; use a value"),
    "sum-of-two-dates": (
        lambda: others.select(x=col.day + col.day),
        "not supported in an expression: the sum of two d",
    ),
    "year-of-a-number": (
        lambda: others.select(x=col.amount.year()),
        "not of type date: the argument of year is int in year(amount)",
    ),
    "like-on-a-number": (lambda: items.where(col.key.like("1%")), "not of type code or text: key is int in like("),
    "like-with-one-character": (
        lambda: texts.where(col.comment.like("a_b")),
        "a pattern for stored text has % alone: 'a_b' in like(comment, 'a_b'); leave _ out",
    ),
    "like-a-number": (lambda: texts.where(col.comment.like(5)), "not a pattern: 5"),
    "long-substring": (
        lambda: texts.select(x=col.comment.substring(1, 8)),
        "not supported in an expression: substring of none, or of more than 7 characters in substring(",
    ),
    "substring-from-0": (
        lambda: texts.select(x=col.comment.substring(0, 2)),
        "not supported in an expression: substring with a start bel",
    ),
    "member-of-another-type": (
        lambda: items.where(col.key.is_in(["1"])),
        "cannot be compared: key is int, 1 is text in is_in(key, ['1'])",
    ),
    "none-among-operands": (
        lambda: items.select(x=col.key + None),
        "not a value of an expression: None (NoneType); test",
    ),
    "unknown-type-of-a-cast": (
        lambda: col.key.cast("JSON"),
        "unknown type: JSON; there are BIGINT, BOOLEAN, DATE, DECIMAL",
    ),
    "quotient-by-0": (lambda: items.select(x=col.price // col.key), "not supported in an expression: // "),
    "number-among-short-text": (
        lambda: texts.where(col.short.is_in([13])),
        "cannot be compared: short is short, 13 is int in is_in(short, [13])",
    ),
    "members-in-one-text": (lambda: texts.where(col.short.is_in("13")), "not a list of values: '13'"),
    "branches": (
        lambda: others.select(x=when(col.key == 1, col.day).otherwise(0)),
        "results of different types: date and int in when(key == 1, day).otherwise(0); give them one type",
    ),
    "coalesce-to-another-type": (
        lambda: items.left_join(others, on="key").select(x=col.day.coalesce(0)),
        "values of different types: date and int in coalesce(day, 0); give them one type",
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
    "sum-by-a-number": (
        lambda: items.aggregate(x=col.value.sum() / 7),
        "not a sum to divide by: 7; divide by a number",
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
