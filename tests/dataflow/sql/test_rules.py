"""The rules of the SQL planner: where each applies, where it must not, and the answers of both."""

from __future__ import annotations

from collections import Counter

import pytest
from fuzz.queries.given import check
from fuzz.queries.tables import ROWS, Table

from deltamark.dataflow.operators.extreme import Extreme
from deltamark.dataflow.operators.join import Join
from deltamark.dataflow.operators.moving_threshold import MovingThreshold
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.operators.threshold import Threshold
from deltamark.dataflow.passes.rewrite import rewrite
from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.types import Field, Schema, integer

NUMBER = integer(0, 4)
TABLES = [
    Table("t", Schema((Field("a", NUMBER), Field("b", NUMBER.or_null())), ROWS), ("a",)),
    Table("u", Schema((Field("a", NUMBER.or_null()), Field("c", NUMBER.or_null())), ROWS), ()),
    Table("v", Schema((Field("c", NUMBER.or_null()), Field("d", NUMBER)), ROWS), ()),
]
BIG = "IN (SELECT a FROM u GROUP BY a HAVING sum(c) > 2)"

OF_T_AND_U = f"FROM t JOIN u ON u.a = t.a WHERE t.a {BIG} GROUP BY t.a"

APPLIED = {
    "the groups of a semijoin are summed rows": (
        f"SELECT t.a, t.b, sum(u.c) s, count(*) n, avg(c + 1) m {OF_T_AND_U}, t.b", {Join: 1},
    ),
    "groups beside another semijoin": (
        f"SELECT t.a, avg(u.c) s {OF_T_AND_U.replace('WHERE', 'WHERE b IN (SELECT c FROM v) AND')}", {Join: 2},
    ),
    "groups of keys that are not NULL, because the semijoin has none": (
        f"SELECT t.a, sum(u.c) s FROM t JOIN u ON u.a IS NOT DISTINCT FROM t.b WHERE t.b {BIG} GROUP BY t.a", {Join: 1},
    ),
    "rows with the largest value of their group": (
        "SELECT a, c FROM u WHERE c = (SELECT max(c) FROM u o WHERE o.a = u.a)", {Extreme: 1, Join: 0},
    ),
    "the largest values of some groups": (
        "SELECT a, c FROM u WHERE c = (SELECT min(c) FROM u o WHERE o.a = u.a) AND a < 3", {Extreme: 1, Join: 0},
    ),
    "sums of a left join by its key": (
        "SELECT t.a, count(u.c) n, sum(c) s FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.a", {Join: 0},
    ),
    "distinct rows of a key": ("SELECT DISTINCT a, b FROM t", {Threshold: 0}),
}  # fmt: skip

KEPT = {
    "groups of several rows": (f"SELECT t.b, sum(u.c) s {OF_T_AND_U}".replace("BY t.a", "BY t.b"), {Join: 2}),
    "sums of some rows": (f"SELECT t.a, sum(u.c) s {OF_T_AND_U.replace('WHERE', 'WHERE c < 4 AND')}", {Join: 2}),
    "sums of other rows": (f"SELECT t.a, sum(t.a) s {OF_T_AND_U}", {Join: 2}),
    "rows joined by another column": (
        f"SELECT t.a, sum(u.c) s {OF_T_AND_U.replace('u.a = t.a', 'u.c = t.a')}", {Join: 2},
    ),
    "rows that another condition reads": (
        f"SELECT t.a, sum(u.c) s {OF_T_AND_U.replace('WHERE', 'WHERE t.b < u.c AND')}", {Join: 2},
    ),
    "a semijoin with other rows": (
        f"SELECT t.a, sum(u.c) s {OF_T_AND_U.replace('FROM u', 'FROM (SELECT c AS a, d AS c FROM v)')}", {Join: 2},
    ),
    "a semijoin that compares nothing": (
        "SELECT 0 AS k FROM t SEMI JOIN (FROM v WHERE d > 2) ON TRUE GROUP BY GROUPING SETS ((k), ())", {Join: 1},
    ),
    "an antijoin": (f"SELECT t.a, sum(u.c) s {OF_T_AND_U.replace(' IN ', ' NOT IN ')}", {}),
    "the largest value of another group": (
        "SELECT a, c FROM u WHERE c = (SELECT max(c) FROM u o WHERE o.a = u.c)", {Join: 1},
    ),
    "the largest value of some rows": (
        "SELECT a, c FROM u WHERE c = (SELECT max(c) FROM u o WHERE o.a = u.a AND o.c < 3)", {Join: 1},
    ),
    "some rows with the largest value of all": (
        "SELECT a, c FROM u WHERE c = (SELECT max(c) FROM u o WHERE o.a = u.a) AND c < 3", {},
    ),
    "a left join by another column": ("SELECT t.b, sum(u.c) n FROM t LEFT JOIN u ON u.a = t.a GROUP BY t.b", {}),
    "distinct rows without their key": ("SELECT DISTINCT b FROM t", {Threshold: 1}),
}  # fmt: skip
QUERIES = {**APPLIED, **KEPT}

ABOVE_AVERAGE = """WITH w AS (SELECT avg(m) m FROM (SELECT c AS m FROM u UNION ALL SELECT c FROM v))
SELECT a, sum(c) s FROM u GROUP BY a HAVING sum(c) > (SELECT m FROM w)"""


@pytest.mark.parametrize("name", QUERIES)
def test_the_plan_has_the_operators_that_the_rules_leave(name):
    text, wanted = QUERIES[name]
    plan = sql(text, {each.name: each.collection() for each in TABLES})
    kinds = Counter(type(node) for node in walk(plan.node))
    assert {kind: kinds[kind] for kind in wanted} == wanted


@pytest.mark.draws(1, of="name")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_duckdbs_at_every_time(name, seed):
    check(QUERIES[name][0], TABLES, seed)


def test_sums_are_compared_with_an_average_that_is_one_row_by_a_moving_threshold():
    plan = sql(ABOVE_AVERAGE, {each.name: each.collection() for each in TABLES})
    kinds = Counter(type(node) for node in walk(rewrite({"": plan.node})[""]))
    assert (kinds[MovingThreshold], kinds[Join]) == (1, 0)


@pytest.mark.draws(19)
@pytest.mark.parametrize("seed", range(3))
def test_sums_above_an_average_are_duckdbs_at_every_time(seed):
    check(ABOVE_AVERAGE, TABLES, seed)


SMALL, LARGE = (
    Table("w", Schema((Field("a", NUMBER.or_null()), Field("b", NUMBER), Field("c", value.or_null())), ROWS), ())
    for value in (NUMBER, integer(0, 10**15))
)
"""The same table with values whose sums can be multiplied by numbers of rows, and with values that need doubles."""

BELOW_AVERAGE = """WITH g AS (SELECT a, b, sum(c) AS s FROM w GROUP BY a, b),
m AS (SELECT a, avg(s) AS m FROM g GROUP BY a)
SELECT v.d, g.b, g.s FROM v, g, m WHERE v.c = g.a AND g.a = m.a AND g.s <= 0.5 * m.m"""


@pytest.mark.parametrize("values", [SMALL, LARGE], ids=["exact", "doubles"])
def test_sums_are_compared_with_the_average_of_their_group_by_a_moving_threshold(values):
    plan = sql(BELOW_AVERAGE, {each.name: each.collection() for each in [*TABLES, values]})
    nodes = list(walk(rewrite({"": plan.node})[""]))
    (threshold,) = [node for node in nodes if isinstance(node, MovingThreshold)]
    assert not any(isinstance(node, Join) for node in walk(threshold))


@pytest.mark.draws(1, of="values")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("values", [SMALL, LARGE], ids=["exact", "doubles"])
def test_sums_below_the_average_of_their_group_are_duckdbs_at_every_time(values, seed):
    check(BELOW_AVERAGE, [*TABLES, values], seed)
