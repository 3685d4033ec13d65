"""GROUPING SETS, ROLLUP and CUBE: the answers of DuckDB, and groups that are made of finer ones."""

from __future__ import annotations

import pytest
from fuzz.queries.given import check
from fuzz.queries.tables import FIRST, LAST, ROWS, WORDS, Table

from deltamark.dataflow.operators.input import Input
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.types import BOOL, Field, Schema, code_type, date_type, integer

NUMBER = integer(0, 3)
TABLES = [
    Table(
        "t",
        Schema(
            (
                Field("a", NUMBER.or_null()), Field("b", NUMBER.or_null()), Field("c", code_type(WORDS)),
                Field("v", integer(-5, 5).or_null()), Field("w", integer(0, 5)),
            ),
            ROWS,
        ),
        (),
    ),
    Table("u", Schema((Field("a", NUMBER), Field("d", date_type(FIRST, LAST).or_null()), Field("f", BOOL)), ROWS), ()),
]  # fmt: skip

QUERIES = {
    "rollup": "SELECT a, b, sum(v) s, count(*) n FROM t GROUP BY ROLLUP (a, b)",
    "NULL keys apart": "SELECT a, b, count(v) n, grouping(a) g, grouping(b) h FROM t GROUP BY CUBE (a, b)",
    "bits of grouping": "SELECT grouping(b, a, c) g, grouping_id(a, b) h, count(*) n FROM t GROUP BY CUBE (a, b, c)",
    "averages": "SELECT a, c, avg(v) m, sum(v + 0.5) s FROM t GROUP BY ROLLUP (a, c)",
    "extremes": "SELECT a, b, min(v) lo, max(v) hi, max(c) word FROM t GROUP BY CUBE (a, b)",
    "distinct values": "SELECT a, count(DISTINCT v) n, sum(DISTINCT v) s, max(DISTINCT c) m FROM t GROUP BY CUBE(a, b)",
    "filters": "SELECT a, sum(v) FILTER (c = 'ant') s, max(v) FILTER (v < 0) m FROM t GROUP BY ROLLUP (a, b)",
    "sets without a finest one": "SELECT a, b, c, sum(v) s FROM t GROUP BY GROUPING SETS ((a, b), (b, c), (c), ())",
    "equal sets": "SELECT a, count(*) n, max(v) m FROM t GROUP BY GROUPING SETS ((a), (a), (), ())",
    "a key twice": "SELECT a, count(*) n FROM t GROUP BY ROLLUP (a, a)",
    "a part that all sets have": "SELECT a, b, c, sum(v) s FROM t GROUP BY a, ROLLUP (b, c)",
    "no aggregate": "SELECT a, b FROM t GROUP BY ROLLUP (a, b)",
    "expressions": "SELECT a + 1 AS k, v > 0 AS p, sum(v * 2) s, grouping(k) g FROM t GROUP BY CUBE (k, p)",
    "HAVING": "SELECT a, b, sum(v) s FROM t GROUP BY ROLLUP (a, b) HAVING grouping(b) = 1 OR sum(v) > 3",
    "ORDER BY": "SELECT a, b, count(*) n FROM t GROUP BY ROLLUP (a, b) ORDER BY n, grouping(a, b), a, b LIMIT 3",
    "a condition on a key above": "SELECT * FROM (SELECT a, b, sum(v) s FROM t GROUP BY CUBE (a, b)) WHERE a = 1",
    "joined": "SELECT d, c, sum(v) s, count(*) n FROM t JOIN u ON t.a = u.a GROUP BY ROLLUP (d, c)",
    "left joined": "SELECT t.a, f, count(u.a) n, min(d) lo FROM t LEFT JOIN u ON t.a = u.a GROUP BY CUBE (t.a, f)",
    "of a union": "SELECT k, sum(v) s FROM (SELECT a k, v FROM t UNION ALL SELECT b, v FROM t) GROUP BY ROLLUP (k)",
    "aggregated again": "SELECT count(*) n, sum(s) z FROM (SELECT a, b, sum(v) s FROM t GROUP BY ROLLUP (a, b))",
    "grouping without sets": "SELECT a, grouping(a) g, count(*) n FROM t GROUP BY a",
    "no rows": "SELECT a, count(*) n, sum(v) s, min(v) m FROM t WHERE v > 99 GROUP BY ROLLUP (a)",
}


@pytest.mark.draws(2, of="name")
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_duckdbs_at_every_time(name, seed, workers):
    check(QUERIES[name], TABLES, seed, workers)


@pytest.mark.parametrize("aggregate", ["sum(v)", "avg(v)", "count(*)", "min(w)", "count(DISTINCT w)"])
def test_the_rows_are_read_once(aggregate):
    relations = {each.name: each.collection() for each in TABLES}
    plan = sql(f"SELECT a, b, c, {aggregate} s FROM t GROUP BY ROLLUP (a, b, c)", relations)
    readers = [each for each in walk(plan.node) if any(isinstance(below, Input) for below in each.inputs)]
    assert len(readers) == 1


def test_sums_of_coarser_groups_have_the_bounds_of_finer_ones():
    relations = {each.name: each.collection() for each in TABLES}
    one = sql("SELECT sum(v) s, count(*) n FROM t", relations).schema
    rolled = sql("SELECT a, b, sum(v) s, count(*) n FROM t GROUP BY ROLLUP (a, b)", relations).schema
    assert (rolled["s"], rolled["n"].high) == (one["s"], one["n"].high)
