"""The language of queries: what its words mean, what it refuses, and which plans are one.

The meaning of operators is the reference's; here the reference is held against examples by hand and against DuckDB.
"""

from __future__ import annotations

import datetime as dt
import itertools
import re
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.choices import Drawn
from support.driving import at_once
from support.expressions import condition, number
from support.growth import Case
from support.paths import ROOT
from support.plans import cases, streams_of
from support.reference import NegativeError, TwoLimitsError, answer, changes, consolidated, evaluate
from support.streams import times_of

from deltamark.dataflow.language.collection import average, count, source, total
from deltamark.dataflow.language.expr import Expr, col, when
from deltamark.dataflow.plan.binder import EPOCH, bind
from deltamark.dataflow.plan.nodes import Input, walk
from deltamark.dataflow.types import LARGEST, NULL, SHORT, TEXT, code_type, date_type, integer, pack_short, unpack_short
from deltamark.errors import DeltamarkError

WORDS = ("AIR", "MAIL", "SHIP")
items = source("items", {"key": integer(0, 3), "value": integer(-5, 9), "price": integer(0, 999, scale=2)}, 100)
others = source("others", {"key": integer(0, 3), "amount": integer(-5, 9), "day": date_type(8033, 8040)}, 100)
texts = source("texts", {"mode": code_type(WORDS), "short": SHORT, "comment": TEXT, "day": date_type(8033, 8040)}, 100)
pairs = source("pairs", {"key": integer(0, 9), "value": integer(0, 9)}, 100)
limits = source("limits", {"key": integer(0, 9), "limit": integer(0, 9)}, 100)
COMES = {"pairs": [((1, 5), 1, 2), ((1, 7), 2, 1), ((2, 5), 2, 1), ((1, 5), 4, -2), ((2, 5), 4, -1), ((2, 5), 4, 1)]}


@pytest.mark.parametrize(
    ("collection", "stream"),
    [
        (pairs.where(col.value > 5), {(2, (1, 7)): 1}),
        (pairs.select("value"), {(1, (5,)): 2, (2, (7,)): 1, (2, (5,)): 1, (4, (5,)): -2}),
        (pairs.negate(), {(1, (1, 5)): -2, (2, (1, 7)): -1, (2, (2, 5)): -1, (4, (1, 5)): 2}),
        (pairs.concat(pairs.where(col.key == 1).negate()), {(2, (2, 5)): 1}),
        (
            pairs.aggregate(by="key", n=count(), sum=total(col.value)),
            {(1, (1, 2, 10)): 1, (2, (1, 2, 10)): -1, (2, (1, 3, 17)): 1, (2, (2, 1, 5)): 1}
            | {(4, (1, 3, 17)): -1, (4, (1, 1, 7)): 1},
        ),
        (
            pairs.aggregate(mean=average(col.key)).where(col["mean.den"] < 3),
            {(1, (2, 2)): 1, (2, (2, 2)): -1, (4, (3, 2)): 1},
        ),
        (pairs.threshold(2), {(1, (1, 5)): 1, (4, (1, 5)): -1}),
        (pairs.distinct("value"), {(1, (5,)): 1, (2, (7,)): 1}),
        (
            pairs.join(pairs.count(by="key"), on="key").where(col.key == 1),
            {(1, (1, 5, 2)): 2, (2, (1, 5, 2)): -2, (2, (1, 5, 3)): 2, (2, (1, 7, 3)): 1}
            | {(4, (1, 5, 3)): -2, (4, (1, 7, 3)): -1, (4, (1, 7, 1)): 1},
        ),
        (pairs.antijoin(pairs.where(col.value == 7), on="key"), {(1, (1, 5)): 2, (2, (1, 5)): -2, (2, (2, 5)): 1}),
        (
            pairs.left_join(pairs.where(col.value == 7).rename(seven="value"), on="key").where(col.key == 1),
            {(1, (1, 5, NULL)): 2, (2, (1, 5, NULL)): -2, (2, (1, 5, 7)): 2, (2, (1, 7, 7)): 1, (4, (1, 5, 7)): -2},
        ),
        (pairs.largest("value", by="key"), {(1, (1, 5)): 2, (2, (1, 5)): -2, (2, (1, 7)): 1, (2, (2, 5)): 1}),
        (pairs.smallest("value"), {(1, (1, 5)): 2, (2, (2, 5)): 1, (4, (1, 5)): -2}),
        (pairs.top(1, ["value"]), {(1, (1, 5)): 1, (4, (1, 5)): -1, (4, (2, 5)): 1}),
        (pairs.top(2, ["-value"]), {(1, (1, 5)): 2, (2, (1, 7)): 1, (2, (1, 5)): -1, (4, (1, 5)): -1, (4, (2, 5)): 1}),
        (
            pairs.above(pairs.aggregate(mean=average(col.value)), col.value, "mean.num", "mean.den"),
            {(2, (1, 7)): 1},
        ),
        (pairs.where(col.value == 7).or_null(), {(0, (NULL, NULL)): 1, (2, (NULL, NULL)): -1, (2, (1, 7)): 1}),
        (pairs.where(col.value == 8).count().or_null(), {(0, (NULL,)): 1}),
    ],
    ids=lambda given: given.node.operation if hasattr(given, "node") else "",
)
def test_the_reference_agrees_with_examples_by_hand(collection, stream):
    assert changes(collection.node, COMES) == stream


def test_the_reference_refuses_two_limits_for_one_key():
    with pytest.raises(TwoLimitsError):
        changes(pairs.above(pairs.distinct("value").rename(limit="value"), col.value, "limit").node, COMES)


@pytest.mark.parametrize(
    "collection",
    [
        pairs.threshold(1),
        pairs.count(by=("key", "value")),
        pairs.largest("value"),
        pairs.top(1, []),
        pairs.or_null(),
        pairs.above(limits, col.value, "limit", on="key"),
    ],
    ids=lambda collection: collection.node.operation,
)
def test_the_reference_names_a_row_that_is_there_less_than_zero_times(collection):
    with pytest.raises(NegativeError) as error:
        changes(collection.node, {"pairs": [((1, 2), 3, 1), ((1, 2), 4, -2)]})
    assert (error.value.row, error.value.time) == ((1, 2), 4)


SQL = {
    "where": (items.where((col.value > 2) | (col.price < Decimal("3.5"))), "FROM items WHERE value > 2 OR price < 350"),
    "select": (
        items.select("key", x=when(col.value < 0, -col.value).otherwise(2 * col.value), y=col.price * (1 - col.price)),
        "SELECT key, CASE WHEN value < 0 THEN -value ELSE 2 * value END, price * (100 - price) FROM items",
    ),
    "year": (others.select(y=col.day.year()), "SELECT year(DATE '1970-01-01' + day::INTEGER) FROM others"),
    "concat": (
        items.select(x=col.value).concat(others.select(x=col.amount)),
        "SELECT value FROM items UNION ALL SELECT amount FROM others",
    ),
    "difference": (items.concat(items.where(col.value > 2).negate()), "FROM items WHERE value <= 2"),
    "aggregate": (
        items.aggregate("key", n=count(), sum=total(col.value * col.price), mean=average(col.value)),
        "SELECT key, count(*), sum(value * price), sum(value), count(*) FROM items GROUP BY key",
    ),
    "aggregate-of-all": (items.aggregate(sum=total(col.value)).or_null(), "SELECT sum(value) FROM items"),
    "distinct": (items.distinct("key", "value"), "SELECT DISTINCT key, value FROM items"),
    "threshold": (items.threshold(2), "FROM items GROUP BY ALL HAVING count(*) >= 2"),
    "join": (
        items.join(others, on="key"),
        "SELECT items.*, amount, day FROM items JOIN others USING (key)",
    ),
    "join-on-two-columns": (
        items.join(others.rename(n="key"), on={"key": "n", "value": "amount"}),
        "SELECT items.*, day FROM items JOIN others ON items.key = others.key AND value = amount",
    ),
    "cross": (items.cross(others.select("day")), "SELECT items.*, day FROM items, others"),
    "semijoin": (items.semijoin(others, on="key"), "FROM items WHERE key IN (SELECT key FROM others)"),
    "antijoin": (items.antijoin(others, on="key"), "FROM items WHERE key NOT IN (SELECT key FROM others)"),
    "left-join": (
        items.left_join(others, on="key"),
        "SELECT items.*, amount, day FROM items LEFT JOIN others USING (key)",
    ),
    "left-join-count": (
        items.left_join(others, on="key")
        .select("key", n=when(col.amount.is_null(), 0).otherwise(1))
        .aggregate("key", n=total(col.n)),
        "SELECT key, count(amount) FROM items LEFT JOIN others USING (key) GROUP BY key",
    ),
    "coalesce": (
        items.left_join(others, on="key").select(x=col.amount.coalesce(3)),
        "SELECT coalesce(amount, 3) FROM items LEFT JOIN others USING (key)",
    ),
    "largest": (
        items.largest("price", by="key"),
        "SELECT * FROM items WHERE (key, price) IN (SELECT (key, max(price)) FROM items GROUP BY key)",
    ),
    "smallest-of-all": (items.smallest("value"), "FROM items WHERE value = (SELECT min(value) FROM items)"),
    "top": (items.top(3, ["-value"]), "FROM items ORDER BY value DESC, key, price LIMIT 3"),
    "above-the-average": (
        items.above(items.aggregate("key", mean=average(col.value)), 2 * col.value, "mean.num", "mean.den", on="key"),
        "FROM items AS i WHERE 2 * value > (SELECT avg(value) FROM items WHERE key = i.key)",
    ),
    "below-a-sum": (
        items.below(others.aggregate(sum=total(col.amount)), col.value, "sum"),
        "FROM items WHERE value < (SELECT sum(amount) FROM others)",
    ),
}


@pytest.fixture(scope="module")
def database():
    with duckdb.connect() as connection:
        yield connection


def in_duckdb(database, collection, streams, time, sql):
    for node in walk(collection.node):
        if isinstance(node, Input):
            columns = ", ".join(f"{name} BIGINT" for name in node.schema.names)
            database.execute(f"CREATE OR REPLACE TABLE {node.name} ({columns})")
            live = consolidated((row, diff) for row, at, diff in streams[node.name] if at <= time)
            rows = [row for row, diff in live.items() for _ in range(diff)]
            if rows:
                marks = ", ".join("?" for _ in node.schema.names)
                database.executemany(f"INSERT INTO {node.name} VALUES ({marks})", rows)
    found = Counter(database.execute(sql).fetchall())
    return {tuple(NULL if value is None else value for value in row): number for row, number in found.items()}


@pytest.mark.parametrize(("collection", "sql"), SQL.values(), ids=SQL.keys())
@settings(max_examples=3)
@given(st.data())
def test_the_reference_agrees_with_duckdb(database, collection, sql, data):
    streams = data.draw(streams_of(collection))
    times = times_of(streams)
    for time in {-1, *times[:: max(len(times) // 3, 1)], *times[-1:]}:
        assert answer(collection.node, streams, time) == in_duckdb(database, collection, streams, time, sql)


@given(cases())
def test_what_is_renamed_and_consolidated_means_the_same(case: Case):
    there = case.collection.rename(**{f"new_{name}": name for name in case.collection.schema.names}).consolidate()
    assert changes(there.node, case.streams) == changes(case.collection.node, case.streams)


MISUSE = {
    "unknown-column": (lambda: items.where(col.prise > 1), "unknown column: prise; did you mean price"),
    "unknown-selected": (lambda: items.select("kee"), "unknown column: kee; did you mean key"),
    "unknown-renamed": (lambda: items.rename(x="zzzzz"), "unknown column: zzzzz; there are key, price, value"),
    "unknown-key": (lambda: items.count(by="kye"), "unknown column: kye; did you mean key"),
    "unknown-join-key": (lambda: items.join(others, on="amount"), "unknown column: amount; there are"),
    "unknown-extreme": (lambda: items.largest("valeu"), "unknown column: valeu; did you mean value"),
    "unknown-order": (lambda: items.top(3, ["-pric"]), "unknown column: pric; did you mean price"),
    "unknown-limit": (lambda: items.above(others, col.value, "amuont"), "unknown column: amuont; did you mean amount"),
    "number-among-words": (lambda: texts.where(col.mode.is_in([5])), "cannot be one of these: mode (code): 5; use its"),
    "float": (lambda: items.where(col.price > 0.5), "not a value of an expression: 0.5 (float); write an int, Dec"),
    "none": (lambda: items.where(col.price == None), "not a value of an expression: None (NoneType)"),  # noqa: E711
    "true": (lambda: items.where(col.price == True), "not a value of an expression: True (bool)"),  # noqa: E712
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
    "condition-as-column": (lambda: items.select(x=col.value > 1), "cannot be a column: x = less("),
    "date-and-number": (lambda: others.where(col.day < 8035), "cannot be compared: day is date, 8035 is int"),
    "date-and-text": (lambda: others.where(col.day < "1992-01-01"), "cannot be compared: day (date) with '1992-01-01'"),
    "sum-of-dates": (lambda: others.aggregate(x=total(col.day)), "cannot be summed: x = day (date)"),
    "sum-of-missing": (
        lambda: items.left_join(others, on="key").aggregate(x=total(col.amount)),
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
    "text-as-a-constant": (lambda: texts.select(x="AIR"), "cannot be a column: x = AIR (text)"),
    "less-than-on-text": (lambda: texts.where(col.comment < "a"), "cannot be compared: comment (text) with 'a'"),
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
        "the branches differ: date and int in when(",
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
        "no value for the missing ones: 0 for day (date?)",
    ),
    "column-given-twice": (lambda: items.select("key", key=col.value), "a column given twice: key; give each a name"),
    "column-named-twice": (lambda: items.select("key", "key"), "a column given twice: key; give each a name"),
    "aggregate-given-twice": (lambda: items.aggregate("key", key=count()), "a column given twice: "),
    "renamed-onto-another": (lambda: items.rename(key="value"), "a column given twice: key; give each a name"),
    "renamed-twice": (lambda: items.rename(a="key", b="key"), "a column given twice: key"),
    "aggregate-of-a-bare-column": (
        lambda: items.aggregate("key", x=col.value),
        "not an aggregate: x = value; write total(...), average(...)",
    ),
    "join-of-different-types": (
        lambda: items.join(others, on={"value": "day"}),
        "keys of different types: value: int and date; convert one",
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
        lambda: items.join(items, on="key"),
        "a column on both sides of a join: value; rename one of them first",
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
    "limit-that-is-no-number": (lambda: items.above(others, col.value, "day"), "no number to compare by: date"),
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
def test_misuse_is_said_in_one_line(build, message):
    with pytest.raises(DeltamarkError) as error:
        build()
    said = str(error.value)
    assert said.startswith(message)
    assert "\n" not in said
    assert "; " in said


@pytest.mark.parametrize(
    "build",
    [
        lambda: source("r", {"a": integer(0, 9)}, 5),
        lambda: items.where((col.price * (1 - col.price) > Decimal("0.05")) & (col.key == 1)),
        lambda: texts.where(col.mode.is_in(["AIR", "SHIP"]) & ~col.comment.contains("special")),
        lambda: items.semijoin(others.where(col.day.between(dt.date(1992, 1, 1), dt.date(1992, 1, 3))), on="key"),
        lambda: items.left_join(others, on="key").count(by="amount").top(3, ["-count"]),
        lambda: items.above(
            items.aggregate("key", mean=average(col.value)), col.value, "mean.num", "mean.den", on="key"
        ),
        lambda: items.aggregate(x=total(col.price)).or_null().consolidate(),
    ],
    ids=["source", "where", "texts", "semijoin", "left-join", "above", "or-null"],
)
def test_equal_plans_are_one_node(build):
    kept, again = build(), build()
    assert kept.node is again.node
    assert kept == again


DIFFERENT = {
    "constant": [items.where(col.value < each) for each in (0, 1, 2)],
    "operation": [items.where(each) for each in (col.value < 1, 1 < col.value, col.value == 1, col.value <= 1)],  # noqa: SIM300
    "text-and-number": [texts.where(col.short == "1"), items.where(col.key == 1)],
    "text": [texts.where(col.comment == each) for each in ("1", "1%", "", " ")],
    "pattern": [texts.where(col.comment.like(each)) for each in ("a%b", "a%%b", "%a%b", "ab", "a%,b", "a','b")],
    "sides": [items.select(x=each) for each in (col.key - col.value, col.value - col.key)],
    "scale": [items.select(x=each) for each in (col.key, col.key + Decimal("0.0"), col.key + Decimal("0.00"))],
    "name": [items.select(x=col.key), items.select(y=col.key)],
    "order": [items.select("key", "value"), items.select("value", "key")],
    "keys": [items.count(by=each) for each in ((), "key", ("key", "value"), ("value", "key"))],
    "k": [items.top(1, []), items.top(2, []), items.top(1, ["-key"])],
    "least": [items.threshold(1), items.threshold(2)],
    "levels": [items.largest("value"), items.largest("value", levels=(4,)), items.smallest("value")],
    "bound": [items.above(pairs, col.key, "value"), items.below(pairs, col.key, "value")],
    "source": [source("a", {"x": integer(0, 1)}, 5), source("b", {"x": integer(0, 1)}, 5)],
    "bounds": [source("a", {"x": integer(0, high)}, rows) for high in (1, 2) for rows in (5, 6)],
    "one-input-or-two": [items.concat(items), items.concat(items, items), items.concat()],
}


@pytest.mark.parametrize("collections", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_different_plans_are_different_nodes(collections):
    for one, other in itertools.combinations(collections, 2):
        assert one.node is not other.node
        assert one.node.digest != other.node.digest


@given(cases())
def test_random_plans_have_a_node_for_each_digest(case):
    nodes = list(walk(case.collection.node))
    assert len({node.digest for node in nodes}) == len(nodes)


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
    """Draw a row, its numbers often at their bounds."""
    row = {}
    for field in NUMBERS.fields:
        low, high = field.type.low, field.type.high
        ends = [NULL] if field.type.nullable else [low, high]
        row[field.name] = draw(st.sampled_from(ends) | st.integers(low, high))
    return row | {"short": pack_short(draw(st.sampled_from(["", "a", "ab", "b"])))}


def shown(name, value):
    """Read a stored value as what it stands for."""
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


MEANING = {
    "add": lambda left, right: left + right,
    "subtract": lambda left, right: left - right,
    "multiply": lambda left, right: left * right,
    "equal": lambda left, right: left == right,
    "less": lambda left, right: left < right,
    "and": lambda left, right: left and right,
    "or": lambda left, right: left or right,
    "not": lambda test: not test,
    "when": lambda test, value, otherwise: value if test else otherwise,
    "is_null": lambda value: value is None,
    "coalesce": lambda value, otherwise: otherwise if value is None else value,
    "year": lambda day: day.year,
    "is_in": lambda value, values: value in values,
    "like": like,
}


def meaning(expr, row):
    """Compute an expression as it was written, in exact fractions, words and dates."""
    if not isinstance(expr, Expr):
        return Fraction(expr) if isinstance(expr, Decimal) else expr
    if expr.op == "column":
        return shown(expr.args[0], row[expr.args[0]])
    return MEANING[expr.op](*(meaning(arg, row) for arg in expr.args))


@settings(max_examples=200)
@given(st.data(), a_row())
def test_a_number_means_what_was_written_and_keeps_to_its_bounds(data, row):
    expr = number(Drawn(data.draw), NUMBERS, 3)
    term = bind(expr, NUMBERS)
    value = evaluate(term, row)
    assert Fraction(value, 10**term.type.scale) == meaning(expr, row)
    assert term.type.low <= value <= term.type.high


@settings(max_examples=200)
@given(st.data(), a_row())
def test_a_condition_means_what_was_written(data, row):
    expr = condition(Drawn(data.draw), NUMBERS, 3)
    assert evaluate(bind(expr, NUMBERS), row) == meaning(expr, row)


@given(cases(), st.data())
def test_answers_keep_to_the_bounds_of_their_schema(case, data):
    time = data.draw(st.sampled_from([0, *times_of(case.streams)]))
    for row in answer(case.collection.node, case.streams, time):
        for field, value in zip(case.collection.schema.fields, row, strict=True):
            bounded = isinstance(value, str) or field.type.low <= value <= field.type.high
            assert bounded or (field.type.nullable and value == NULL)


def test_a_sum_of_signed_rows_keeps_to_its_bounds():
    node = pairs.concat(limits.rename(value="limit").negate()).aggregate(x=total(col.value)).node
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
    node = items.above(items.aggregate(x=total(col.price)), col.value, "x").node
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
    summed = items.aggregate(x=total(col.value), y=total(col.price), n=count()).schema
    assert [max(-each.type.low, each.type.high) for each in summed.fields] == [900, 99900, 100]
    huge = source("huge", {"x": integer(-LARGEST, LARGEST)}, 2).aggregate(x=total(col.x)).schema["x"]
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
def test_a_filter_may_stand_at_the_ends_of_64_bits(name):
    test, kept = EDGES[name]
    ends = source("ends", {"x": integer(-LARGEST, LARGEST)}, 100)
    rows = [((value,), 0, 1) for value in (-LARGEST, -1, 0, 1, LARGEST)]
    assert at_once(ends.where(test), {"ends": rows}) == {(0, (value,)): 1 for value in kept}


@pytest.mark.parametrize(("low", "high"), [(-719163, 0), (0, 2932897), (-(2**31), 2**31 - 1)])
def test_a_year_outside_the_calendar_is_an_error(low, high):
    days = source("days", {"day": date_type(low, high)}, 10)
    with pytest.raises(DeltamarkError, match=rf"a year outside 1 to 9999: day: days {low}\.\.{high} since 1970"):
        days.select(y=col.day.year())


SCRIPT = """
from test_language import items, others, texts, SQL
print("\\n".join(each.node.digest.hex() for each, _ in SQL.values()))
"""


def test_digests_are_the_same_in_another_process():
    here = Path(__file__).parent
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={"PYTHONPATH": f"{ROOT}:{ROOT}/tests:{here}", "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == [each.node.digest.hex() for each, _ in SQL.values()]
