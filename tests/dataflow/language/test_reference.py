"""The reference, with which the engine is compared, agrees with examples by hand and with DuckDB."""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.duckdb_tables import insert
from support.random_plans.case import Case
from support.random_plans.strategies import cases, streams_of
from support.random_plans.streams import times_of
from support.reference.answers import Recomputed, answer, changes
from support.reference.errors import NegativeError, TwoLimitsError
from support.reference.rows import consolidated
from support.written_plans.relations import SQL, limits, pairs
from support.written_plans.thresholds import above

from deltamark.dataflow.language.expr import col, count
from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.types import NULL

COMES = {"pairs": [((1, 5), 1, 2), ((1, 7), 2, 1), ((2, 5), 2, 1), ((1, 5), 4, -2), ((2, 5), 4, -1), ((2, 5), 4, 1)]}


@pytest.mark.parametrize(
    ("collection", "stream"),
    [
        (pairs.where(col.value > 5), {(2, (1, 7)): 1}),
        (pairs.select("value"), {(1, (5,)): 2, (2, (7,)): 1, (2, (5,)): 1, (4, (5,)): -2}),
        (pairs.negate(), {(1, (1, 5)): -2, (2, (1, 7)): -1, (2, (2, 5)): -1, (4, (1, 5)): 2}),
        (pairs.concat(pairs.where(col.key == 1).negate()), {(2, (2, 5)): 1}),
        (
            pairs.aggregate(by="key", n=count(), sum=col.value.sum()),
            {(1, (1, 2, 10)): 1, (2, (1, 2, 10)): -1, (2, (1, 3, 17)): 1, (2, (2, 1, 5)): 1}
            | {(4, (1, 3, 17)): -1, (4, (1, 1, 7)): 1},
        ),
        (
            pairs.aggregate(mean=col.key.mean()).where(col["mean.den"] < 3),
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
            above(pairs, pairs.aggregate(mean=col.value.mean()), col.value, "mean.num", "mean.den"),
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
        changes(above(pairs, pairs.distinct("value").rename(limit="value"), col.value, "limit").node, COMES)


@pytest.mark.parametrize(
    "collection",
    [
        pairs.threshold(1),
        pairs.count(by=("key", "value")),
        pairs.largest("value"),
        pairs.top(1, []),
        pairs.or_null(),
        above(pairs, limits, col.value, "limit", on="key"),
    ],
    ids=lambda collection: collection.node.operation,
)
def test_the_reference_names_a_row_of_negative_weight(collection):
    with pytest.raises(NegativeError) as error:
        changes(collection.node, {"pairs": [((1, 2), 3, 1), ((1, 2), 4, -2)]})
    assert (error.value.row, error.value.time) == ((1, 2), 4)


def test_the_reference_names_all_errors_of_an_operator_at_its_first_failing_time():
    collection = above(pairs, limits, col.value, "limit", on="key")
    streams = {"pairs": [((1, 2), 4, -1)], "limits": [((1, 7), 4, 2), ((2, 7), 4, -1), ((3, 7), 5, 2)]}
    recomputed = Recomputed(collection.node, streams)
    recomputed.move(4)
    recomputed.move(5)
    assert [(each.cause, each.row, each.time) for each in recomputed.errors] == [
        (NegativeError.cause, (2, 7), 4), (TwoLimitsError.cause, {(1, 7): 2}, 4), (NegativeError.cause, (1, 2), 4),
    ]  # fmt: skip


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
            insert(database, node.name, [row for row, diff in live.items() for _ in range(diff)])
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
def test_renaming_and_consolidating_do_not_change_the_answer(case: Case):
    there = case.collection.rename(**{f"new_{name}": name for name in case.collection.schema.names}).consolidate()
    assert changes(there.node, case.streams) == changes(case.collection.node, case.streams)
