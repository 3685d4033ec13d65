"""Each operator takes rows of any number of columns: numbers, texts and NULL."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing

import pytest
from support.engines.chain import Pieces
from support.engines.driving import added, at_once, between, feed, undone
from support.random_plans.seeded_streams import any_value
from support.random_plans.streams import Streams, inputs_of
from support.reference.answers import changes
from support.written_plans.thresholds import below

from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.expr import SumExpr, col
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import NULL, TEXT, Type, integer

WIDTHS = (1, 31, 32, 33, 62, 63, 64, 65, 130)
"""Numbers of columns around the bits of a word, and half of them: rows in order have two words for each text."""

NUMBER = integer(0, 2)
TYPES: dict[str, tuple[Type, ...]] = {
    "numbers": (NUMBER,),
    "texts": (TEXT,),
    "mixed": (NUMBER, TEXT.or_null(), TEXT, NUMBER.or_null()),
}


def relation(name: str, kind: str, width: int) -> Collection:
    """Declare an input with a key and some more columns, the last of which has the last type of the kind."""
    types = TYPES[kind]
    columns = {f"{name}{at}": types[(at - width) % len(types)] for at in range(width)}
    return source(name, {"key": integer(0, 1), **columns}, 1000)


def sums(rows: Collection) -> dict[str, SumExpr]:
    numbers = [each for each in rows.schema.fields if each.type.kind == "int"]
    return {f"sum{at}": SumExpr(col[each.name].coalesce(1)) for at, each in enumerate(numbers)}


def on_all_columns(left: Collection, right: Collection) -> Collection:
    pairs = zip(left.schema.names, right.schema.names, strict=True)
    return left.join(right, on=dict(pairs), null_keys=True)


OPERATORS: dict[str, Callable[[Collection, Collection], Collection]] = {
    "select": lambda rows, _: rows.where(col.key < 1).select(*reversed(rows.schema.names)),
    "concat": lambda rows, _: rows.concat(rows.where(col.key < 1).negate()).consolidate(),
    "distinct": lambda rows, _: rows.distinct(),
    "groups": lambda rows, _: rows.count(by=rows.schema.names),
    "sums": lambda rows, _: rows.aggregate("key", **sums(rows)),
    "join": lambda rows, others: rows.join(others, on="key"),
    "join-on-all-columns": on_all_columns,
    "join-with-groups": lambda rows, others: on_all_columns(rows.distinct(), others),
    "left-join": lambda rows, others: rows.left_join(others.where(col.key < 1), on="key"),
    "antijoin": lambda rows, others: rows.antijoin(others.where(col.key < 1), on="key"),
    "largest": lambda rows, _: rows.largest("key"),
    "largest-of-groups": lambda rows, _: rows.largest("key", by=rows.schema.names[1:], levels=(4, 2)),
    "top": lambda rows, _: rows.top(3, []),
    "top-descending": lambda rows, _: rows.top(4, [f"-{name}" for name in reversed(rows.schema.names)]),
    "below": lambda rows, others: below(rows, others.count(), col.key, "count"),
    "below-of-groups": lambda rows, others: below(
        rows, others.count(by=others.schema.names), col.key, "count",
        on=dict(zip(rows.schema.names, others.schema.names, strict=True)),
    ),
    "or-null": lambda rows, _: rows.or_null(),
    "at-most-one": lambda rows, _: rows.distinct().at_most_one(rows.schema.names),
}  # fmt: skip


def rows_of(collection: Collection) -> Streams:
    """Insert a few rows that differ in their last columns alone, and delete them in another order."""
    order, streams = random.Random(7), {}
    for name, schema in inputs_of(collection).items():
        first = [any_value(order, each.type) for each in schema.fields]
        pool = [first]
        for _ in range(5):
            row = [*order.choice(pool)]
            type_ = schema.fields[at := -order.choice([1, 2, len(row)]) % len(row)].type
            row[at] = NULL if type_.nullable and order.random() < 0.3 else any_value(order, type_)
            pool.append(row)
        streams[name] = [(tuple(row), time, 1) for time in (0, 1, 3) for row in order.sample(pool, 4)]
    return undone(streams)


def plan(name: str, kind: str, width: int) -> Collection:
    return OPERATORS[name](relation("rows", kind, width), relation("others", kind, width))


each_operator = pytest.mark.parametrize("name", OPERATORS)


@pytest.mark.draws(9)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", TYPES)
def test_the_order_of_rows_has_any_number_of_columns(kind, width):
    collection = plan("top-descending", kind, width)
    streams = rows_of(collection)
    assert at_once(collection, streams) == changes(collection.node, streams)


@pytest.mark.draws(17)
@each_operator
@pytest.mark.parametrize(("kind", "width"), [("texts", 33), ("numbers", 65), ("mixed", 130)])
def test_rows_have_any_number_of_columns(name, kind, width):
    collection = plan(name, kind, width)
    streams = rows_of(collection)
    assert at_once(collection, streams) == changes(collection.node, streams)


@pytest.mark.draws(6)
@each_operator
def test_rows_that_workers_exchange_have_more_columns_than_a_word_has_bits(name):
    collection = plan(name, "mixed", 65)
    streams = rows_of(collection)
    with closing(Dataflow(collection, workers=2)) as engine:
        assert feed(engine, collection, streams) == changes(collection.node, streams)


@pytest.mark.draws(6)
@each_operator
def test_rows_that_shards_exchange_have_more_columns_than_a_word_has_bits(name):
    collection = plan(name, "mixed", 65)
    streams = rows_of(collection)
    with closing(Pieces(collection, 2)) as engine:
        parts = [feed(engine, collection, between(streams, {*times})) for times in ([0, 1], [3], [4])]
    assert added(parts) == changes(collection.node, streams)
