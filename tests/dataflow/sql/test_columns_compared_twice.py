"""Joins that compare a column with several: it is a key of the join once, and the others are conditions."""

from __future__ import annotations

import itertools

import pytest
from fuzz.queries.given import check
from fuzz.queries.tables import ROWS, Table

from deltamark.dataflow.types import Field, Schema, integer

NUMBER = integer(0, 2)
TABLES = [
    Table("t", Schema((Field("a", NUMBER), Field("b", NUMBER.or_null())), ROWS), ()),
    Table("u", Schema((Field("c", NUMBER), Field("d", NUMBER.or_null())), ROWS), ()),
]
EQUALITIES = [f"t.{mine} = u.{theirs}" for mine in "ab" for theirs in "cd"]
CONDITIONS = [" AND ".join(each) for each in itertools.permutations(EQUALITIES, 3)]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_equality_of_a_join_holds(condition):
    check(f"SELECT t.a, t.b, u.c, u.d FROM t JOIN u ON {condition}", TABLES, seed=1)


@pytest.mark.parametrize("columns", list(itertools.permutations("abcd", 2)))
def test_every_equality_with_a_nested_subquery_holds(columns):
    one, other = columns
    inner = f"SELECT sum(i.c) FROM u AS i WHERE i.c = p.{one} AND i.c = p.{other}"
    outer = f"SELECT count(*) FROM u AS o WHERE o.c = p.{other} AND 0 <= ({inner})"
    check(f"SELECT p.* FROM (SELECT * FROM t, u) AS p WHERE 0 < ({outer})", TABLES, seed=1)
