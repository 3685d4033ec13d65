"""Scalar subqueries that may have several rows: an answer while they have at most one, and else an error."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import pytest
from fuzz.queries.given import TIMES, check
from fuzz.queries.tables import ROWS, Table, changing, live
from support.engines.driving import arrays, stream_of
from support.random_plans.choices import Seeded

from deltamark.dataflow.language.collection import source
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.types import NULL, Field, Schema, integer
from deltamark.errors import DeltamarkError

NUMBER = integer(0, 9)
RELATIONS = {
    "t": source("t", {"a": NUMBER, "b": NUMBER}, 100),
    "u": source("u", {"a": NUMBER.or_null(), "x": NUMBER.or_null()}, 100),
}
OF_ALL = "SELECT a, (SELECT x FROM u WHERE x < 8) AS x FROM t"
OF_EACH = "SELECT a, (SELECT x FROM u WHERE u.a = t.a) AS x FROM t"
IN_WHERE = "SELECT a FROM t WHERE b > (SELECT DISTINCT x FROM u WHERE u.a IS NOT NULL)"
IN_EXISTS = "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND 8 > (SELECT x FROM u WHERE a < 9))"

each_number_of_workers = pytest.mark.parametrize("workers", [1, 2])


def fed(text, workers, *feeds):
    """Return the rows of the answer after some feeds, each of changes (relation, row, time, diff)."""
    collection = sql(text, RELATIONS)
    found: dict[tuple, int] = {}
    with closing(Dataflow(collection, workers=workers)) as dataflow:
        for changes in feeds:
            of = {
                name: arrays(each.schema, [change for relation, *change in changes if relation == name])
                for name, each in RELATIONS.items()
            }
            batch = dataflow.feed({name: each for name, each in of.items() if len(each.time)})
            for (_, row), diff in stream_of(collection, batch).items():
                found[row] = found.get(row, 0) + diff
    return {row: diff for row, diff in found.items() if diff}


T = [("t", (1, 5), 0, 1), ("t", (2, 6), 0, 2)]


@each_number_of_workers
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (OF_ALL, [{(1, NULL): 1, (2, NULL): 2}, {(1, 3): 1, (2, 3): 2}, {(1, 4): 1, (2, 4): 2}]),
        (OF_EACH, [{(1, NULL): 1, (2, NULL): 2}, {(1, NULL): 1, (2, 3): 2}, {(1, 4): 1, (2, NULL): 2}]),
        (IN_WHERE, [{}, {(1,): 1, (2,): 2}, {(1,): 1, (2,): 2}]),
        (IN_EXISTS, [{(1,): 1, (2,): 2}, {(1,): 1}, {(2,): 2}]),
    ],
    ids=["of all rows", "of each row", "in WHERE", "in NOT EXISTS"],
)
def test_one_row_may_take_the_place_of_another_at_a_time(text, rows, workers):
    feeds = [T, [("u", (2, 3), 1, 1), ("u", (NULL, 9), 1, 1)], [("u", (1, 4), 2, 1), ("u", (2, 3), 2, -1)]]
    for count, wanted in enumerate(rows, 1):
        assert fed(text, workers, *feeds[:count]) == wanted


@each_number_of_workers
@pytest.mark.parametrize("text", [OF_ALL, OF_EACH, IN_WHERE, IN_EXISTS])
def test_several_rows_are_an_error_of_the_feed_that_names_the_time(text, workers):
    feeds = [T, [("u", (2, 3), 1, 1)], [("u", (2, 4), 5, 1), ("u", (2, 4), 6, -1)]]
    with pytest.raises(
        DeltamarkError, match=r"more than one row where one is allowed: .* at time 5; aggregate"
    ) as raised:
        fed(text, workers, *feeds)
    assert raised.value.time == 5


def test_a_row_that_occurs_twice_is_two_rows():
    with pytest.raises(DeltamarkError, match="more than one row where one is allowed"):
        fed(OF_ALL, 1, T, [("u", (2, 3), 1, 2)])
    assert fed(IN_WHERE, 1, T, [("u", (2, 3), 1, 2)]) == {(1,): 1, (2,): 2}


@each_number_of_workers
def test_rows_without_a_row_of_the_query_around_may_be_several(workers):
    feeds = [T, [("u", (7, 3), 1, 1), ("u", (7, 4), 1, 1), ("u", (NULL, 5), 1, 2)]]
    assert fed(OF_EACH, workers, *feeds) == {(1, NULL): 1, (2, NULL): 2}
    with pytest.raises(DeltamarkError, match="at time 3"):
        fed(OF_EACH, workers, *feeds, [("t", (7, 0), 3, 1)])


def test_after_the_error_the_dataflow_is_no_more_of_use():
    collection = sql(OF_ALL, RELATIONS)
    with closing(Dataflow(collection)) as dataflow:
        several = {"u": arrays(RELATIONS["u"].schema, [((1, 2), 0, 2)])}
        with pytest.raises(DeltamarkError, match="more than one row where one is allowed"):
            dataflow.feed(several)
        with pytest.raises(DeltamarkError, match="an earlier call was stopped halfway"):
            dataflow.feed({"u": arrays(RELATIONS["u"].schema, [((1, 2), 1, -1)])})


TABLES = [
    Table("t", Schema((Field("a", integer(0, 40)), Field("b", NUMBER)), ROWS), ()),
    Table("u", Schema((Field("a", integer(0, 40).or_null()), Field("x", NUMBER.or_null())), ROWS), ()),
]


def first_error(t, u):
    """Return the first time at which a row of t has several partners in u; None if there is none."""
    for time in TIMES:
        partners = Counter({})
        for (a, _), count in live(u.stream, time).items():
            partners[a] += count
        if any(partners[a] > 1 for (a, _), count in live(t.stream, time).items() if count):
            return time
    return None


@pytest.mark.parametrize("seed", range(20))
def test_the_first_time_with_several_rows_is_an_error(seed):
    choices = Seeded(seed)
    t, u = (changing(choices, each, TIMES) for each in TABLES)
    wanted = first_error(t, u)
    if wanted is None:
        check(OF_EACH, TABLES, seed)
        return
    collection = sql(OF_EACH, {"t": t.collection(), "u": u.collection()})
    with closing(Dataflow(collection)) as dataflow:
        before = [time for time in TIMES if time < wanted]
        if before:
            dataflow.feed({each.name: each.batch(set(before)) for each in (t, u)})
        with pytest.raises(DeltamarkError, match="more than one row where one is allowed") as raised:
            dataflow.feed({each.name: each.batch(set(TIMES) - set(before)) for each in (t, u)})
        assert raised.value.time == wanted
