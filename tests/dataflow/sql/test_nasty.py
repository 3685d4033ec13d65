"""Sixteen queries that simple rewritings of subqueries get wrong, at every time of streams with NULL and duplicates."""

from __future__ import annotations

import pytest
from fuzz.queries.given import check
from fuzz.queries.tables import ROWS, Table

from deltamark.dataflow.types import Field, Schema, integer

QUERIES = {
    "count bug": "select a, b from t where 0 = (select count(*) from u where u.a = t.a)",
    "scalar aggregate": "select a, (select coalesce(sum(c), 0) from u where u.a = t.a) s from t",
    "NOT IN with NULL": "select a, b from t where a not in (select c from u)",
    "correlated NOT IN": "select a, b from t where b not in (select c from u where u.a = t.a)",
    "NOT EXISTS": "select a, b from t where not exists (select 1 from u where u.a = t.a)",
    "NOT EXISTS with <>": "select a, b from t where not exists (select 1 from u where u.a = t.a and u.c <> t.b)",
    "EXISTS without an equality": "select a, b from t where exists (select 1 from u where u.c > t.a)",
    "scalar without an equality": "select a, b, (select max(c) from u where u.c < t.b) from t",
    "IN with a filter": "select a, b from t where a in (select a from u where u.c is not null)",
    "OR EXISTS": "select a, b from t where b = 3 or exists (select 1 from u where u.a = t.a)",
    "> ALL": "select a, b from t where a > all (select c from u where c is not null)",
    "HAVING with a subquery": (
        "select a, count(*) from t group by a having count(*) > (select count(*) from u where u.a = t.a)"
    ),
    "distinct aggregates": "select count(distinct a), (select count(distinct c) from u) from t",
    "left join with a condition": ("select t.a, count(u.c) from t left join u on t.a = u.a and u.c > 1 group by t.a"),
    "two levels": (
        "select a from t where exists (select 1 from u where u.a = t.a"
        " and exists (select 1 from t t2 where t2.a = t.a and t2.b > u.c))"
    ),
    "lateral limit": "select a, (select c from u where u.a = t.a order by c limit 1) from t",
}
NUMBER = integer(0, 4).or_null()


TABLES = [Table(name, Schema((Field("a", NUMBER), Field(other, NUMBER)), ROWS), ()) for name, other in ("tb", "uc")]


@pytest.mark.draws(1, of="name")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_duckdbs_at_every_time(name, seed):
    check(QUERIES[name], TABLES, seed)
