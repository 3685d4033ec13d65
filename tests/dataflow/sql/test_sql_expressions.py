"""Expressions that DuckDB's planner rewrites, or whose rules differ between engines, at every time."""

from __future__ import annotations

import pytest
from fuzz.queries.given import check
from fuzz.queries.tables import FIRST, LAST, ROWS, Table

from deltamark import source, sql
from deltamark.dataflow.plan.terms import Ratio, number
from deltamark.dataflow.scalars.values import TRUE, Value, unified_values
from deltamark.dataflow.types import SHORT, Field, Schema, date_type, integer

NUMBER = integer(-3, 3)
TABLES = [
    Table(
        "t", Schema((Field("a", NUMBER), Field("b", NUMBER.or_null()), Field("d", date_type(FIRST, LAST))), ROWS), ()
    ),
    Table("u", Schema((Field("k", integer(0, 5)), Field("v", NUMBER.or_null())), ROWS), ("k",)),
    Table("w", Schema((Field("a", NUMBER), Field("s", SHORT)), ROWS), ()),
]
QUERIES = {
    "two strict bounds of a sum": "SELECT a FROM t WHERE a + b > 0 AND a + b < 3",
    "a strict and another bound": "SELECT a FROM t WHERE abs(a) > 1 AND abs(a) <= 2",
    "bounds of an aggregate": "SELECT b, count(*) n FROM t GROUP BY b HAVING count(*) >= 1 AND count(*) < 3",
    "bounds of an average": "SELECT b FROM t GROUP BY b HAVING avg(a) > -1 AND avg(a) < 1",
    "bounds of a join": "SELECT t.a, u.k FROM t JOIN u ON t.a + u.k > 0 AND t.a + u.k < 4",
    "bounds in a CASE": "SELECT CASE WHEN a - b > 0 AND a - b < 3 THEN 1 END c FROM t",
    "bounds that are negated": "SELECT a FROM t WHERE NOT (a + b > 0 AND a + b < 3)",
    "quotients rounded towards zero": "SELECT a // nullif(b, 0) q, b // nullif(a, 0) r FROM t",
    "remainders": "SELECT a % nullif(b, 0) q, mod(b, nullif(a, 0)) r FROM t",
    "counted conditions": "SELECT count_if(a > 1) n, count_if(b > 1) FILTER (WHERE a > 0) m FROM t",
    "counted conditions of groups": "SELECT a, count_if(b > 1) n FROM t GROUP BY a",
    "a scalar subquery by a key": "SELECT a, (SELECT v FROM u WHERE u.k = t.a) v FROM t",
    "sums of averages": "SELECT avg(a) + avg(b) s, avg(a) / count(*) q FROM t",
    "a quotient and a number": "SELECT a / b + 2 s, a / b * -2 p, 3 - a / b q FROM t",
    "parts of dates in the plural": "SELECT datetrunc('Months', d)::DATE m, date_part('years', d) y FROM t",
    "joins by a date with an interval": (
        "SELECT x.a FROM t x JOIN t y ON x.d = CAST(y.d - INTERVAL 1 DAY AS DATE) JOIN t z ON z.a = x.a"
    ),
    "a constant with the type of a short text": (
        "SELECT a FROM w WHERE CASE WHEN a IS NOT NULL THEN 'ab' ELSE s END LIKE '%b'"
    ),
    "any number of rows": "SELECT a FROM t ORDER BY a LIMIT ALL OFFSET 1",
    "quotients whose names are taken": 'SELECT avg(a) x, min(b) "y", max(b) "x.num_2" FROM t',
}


@pytest.mark.draws(1, of="name")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_duckdbs_at_every_time(name, seed):
    check(QUERIES[name], TABLES, seed)


def test_columns_of_quotients_get_names_of_their_own():
    relations = {"t": source("t", {"a": integer(0, 9)}, 9)}
    names = sql('SELECT a / 2 AS x, a AS "x.num", a / 3 AS x, a AS "x.den" FROM t', relations).schema.names
    assert names == ("x.num", "x.den", "x.num_2", "x_2.num", "x_2.den", "x.den_2")


def test_values_that_are_all_null_get_one_kind():
    whole, quotient = Value(number(0), TRUE), Value(Ratio(number(0), number(10)), TRUE)
    for values in ([whole, quotient], [quotient, whole]):
        assert len({type(each.term) for each in unified_values(values) or []}) == 1
