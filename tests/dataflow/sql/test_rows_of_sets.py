"""EXCEPT ALL, INTERSECT ALL, rows as values, and series of numbers: the answers of DuckDB."""

from __future__ import annotations

import pytest
from fuzz.queries.given import check
from fuzz.queries.tables import ROWS, Table

from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.types import TEXT, Field, Schema, integer
from deltamark.errors import DeltamarkError

NUMBER = integer(0, 2).or_null()
TABLES = [
    Table("t", Schema((Field("a", NUMBER), Field("b", NUMBER), Field("s", TEXT)), ROWS), ()),
    Table("u", Schema((Field("a", integer(-1, 1)), Field("x", NUMBER), Field("s", TEXT)), ROWS), ()),
]
SIGNS = {"less": "<", "at most": "<=", "greater": ">", "at least": ">=", "equal": "=", "unequal": "<>"}

QUERIES = {
    "EXCEPT ALL": "SELECT a, b FROM t EXCEPT ALL SELECT a, x FROM u",
    "EXCEPT ALL of texts": "SELECT s FROM t EXCEPT ALL SELECT s FROM u",
    "INTERSECT ALL": "SELECT a FROM t INTERSECT ALL SELECT x FROM u",
    "INTERSECT ALL of decimals": "SELECT a + 0.0 AS k, b FROM t INTERSECT ALL SELECT x, a FROM u",
    "ALL with itself": "SELECT a FROM t INTERSECT ALL SELECT b FROM t EXCEPT ALL SELECT x FROM u",
    "EXCEPT ALL of quotients": "SELECT a / 2 AS q FROM t EXCEPT ALL SELECT x / 2 FROM u",
    "joined": "SELECT t.b, q.k FROM t, (SELECT a AS k FROM t INTERSECT ALL SELECT a FROM u) AS q WHERE t.a = q.k",
    "joined with others": "SELECT b, k FROM t, (SELECT a AS k FROM u EXCEPT SELECT a FROM t) AS q WHERE t.a = k + 1",
    "counted": "SELECT count(*) n FROM (SELECT a FROM t EXCEPT ALL SELECT x FROM u)",
    "IN of constant rows": "SELECT a, b FROM t WHERE (a, b) IN ((1, 2), (0, 0), (2, NULL))",
    "NOT IN of constant rows": "SELECT a, b FROM t WHERE (a, b) NOT IN ((1, 2), (0, 0))",
    "IN of rows": "SELECT (a, b) IN ((b, 1), (2, a)) AS x FROM t",
    "IN of a subquery": "SELECT a, b FROM t WHERE (a, b) IN (SELECT a, x FROM u)",
    **{f"{name}": f"SELECT (a, b) {sign} (b, 1) AS x FROM t" for name, sign in SIGNS.items()},
    **{
        f"{name}, in WHERE": f"SELECT t.a, u.x FROM t, u WHERE (t.a, b) {sign} (x, u.a)" for name, sign in SIGNS.items()
    },
    "NULL in a row": "SELECT (a, NULL) = (1, NULL) AS x, (a, NULL) < (1, NULL) AS y, (a, b) IS NULL AS z FROM t",
    "distinct": "SELECT (a, b) IS DISTINCT FROM (1, 2) AS x, (a, b) IS NOT DISTINCT FROM (b, a) AS y FROM t",
    "several": "SELECT (a, b) > (1, 2) x FROM t WHERE (a, b) = (1, 2) OR (a, b) = (2, 1) OR (b, a) > (1, 1)",
    "BETWEEN": "SELECT a, b FROM t WHERE (a, b) BETWEEN (0, 1) AND (b, 2)",
    "nested": "SELECT (a, (b, 1)) <= (1, (2, a)) AS x FROM t",
    "range": "SELECT i, a FROM range(3) AS r(i) JOIN t ON i = a",
    "generate_series": "SELECT i, count(a) n FROM generate_series(5, -2, -3) AS r(i) LEFT JOIN t ON i = a GROUP BY i",
    "long series": "SELECT count(*) n, sum(i) s, min(i) lo, max(i) hi FROM range(7, 700, 3) AS r(i)",
    "no numbers": "SELECT i FROM range(3, 1) AS r(i) UNION ALL SELECT a FROM t",
}


@pytest.mark.draws(2, of="name")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_duckdbs_at_every_time(name, seed, workers):
    check(QUERIES[name], TABLES, seed, workers)


REFUSED = {
    "SELECT (a, b) AS x FROM t": "a row as a value (line 1, column 8)",
    "SELECT i FROM range(9999999) AS r(i)": "a series of 9999999 numbers",
    "SELECT i FROM t, range(t.a) AS r(i)": "the table function range (line 1, column 18)",
}


@pytest.mark.parametrize("text", REFUSED)
def test_others_are_refused_in_one_line(text):
    with pytest.raises(DeltamarkError) as raised:
        sql(text, {each.name: each.collection() for each in TABLES})
    assert REFUSED[text] in str(raised.value)
