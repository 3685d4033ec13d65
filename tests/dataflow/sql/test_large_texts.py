"""Texts with long lists, and with parts that are read many times: no part is planned more than once."""

from __future__ import annotations

import pytest
from fuzz.queries.given import check
from fuzz.queries.tables import ROWS, Table

from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.operators import interning
from deltamark.dataflow.operators.interning import term_digest
from deltamark.dataflow.operators.linear import Filter, Project
from deltamark.dataflow.operators.node import is_unique, walk
from deltamark.dataflow.plan.selectivity import selectivity
from deltamark.dataflow.plan.terms import (
    Add,
    And,
    Equal,
    Not,
    Or,
    column,
    conjuncts,
    number,
    replaced,
    substituted,
    subterms,
)
from deltamark.dataflow.scalars.values import simplified
from deltamark.dataflow.sql import rows as rows_of_sql
from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.types import Field, Schema, integer

MANY, DEEP = 1200, 40
NESTED = ("OR", "AND of one column")
"""Texts whose conditions DuckDB writes as nested filters, which takes the square of their number."""

NUMBER = integer(0, 4).or_null()
TABLES = [Table("t", Schema((Field("a", NUMBER), Field("b", NUMBER)), ROWS), ())]
RELATIONS = {"t": source("t", {"a": NUMBER, "b": integer(0, 4)}, rows=100)}


def listed(pattern, count, separator=", "):
    """Write a pattern for each number."""
    return separator.join(pattern.format(at, at % 7) for at in range(count))


def self_joins(depth):
    """Join rows with themselves, and the result with itself, and so on."""
    steps = "".join(
        f", c{at + 1} as (select x.a + y.a as a, x.b from c{at} x join c{at} y"
        " on x.a = y.a and x.b is not distinct from y.b)"
        for at in range(depth)
    )
    return f"with c0 as (select distinct a, b from t){steps} select a, b from c{depth}"


def doubled(depth):
    """Add a value to itself, and the sum to itself, and so on."""
    text = "t"
    for _ in range(depth):
        text = f"(select a + a as a, b from {text})"
    return f"select a, b from {text}"


def nested(pattern, depth):
    text = "a"
    for _ in range(depth):
        text = pattern.format(text)
    return f"select {text} as v from t"


FLAT = {
    "IN": lambda count: f"select a, b from t where a + 1 in ({listed('{}', count)})",
    "IN with NULL": lambda count: f"select a, (a + b) in ({listed('{} + 3', count)}, NULL) as v from t",
    "NOT IN": lambda count: f"select a, b from t where a not in ({listed('{}.5', count)}, 3)",
    "NOT IN, one value missing": lambda count: f"select a, b from t where a not in ({listed('{} + 2', count)})",
    "IN of columns": lambda count: f"select a from t where a in (b, {listed('b + {} + 1', count)})",
    "CASE": lambda count: f"select case {listed('when a = {} then {}', count, ' ')} else b end as v from t",
    "CASE without ELSE": lambda count: f"select case {listed('when a > b + {} then {}', count, ' ')} end as v from t",
    "CASE of conditions": lambda count: (
        f"select a from t where case {listed('when a = {} then b = {}', count, ' ')} else a is null end"
    ),
    "OR": lambda count: f"select a, b from t where {listed('a = {0} and b = {0}', count, ' or ')}",
    "AND": lambda count: f"select a, b from t where {listed('a + b <> {} + 3', count, ' and ')}",
    "AND of one column": lambda count: f"select a, b from t where {listed('a <> {} + 3', count, ' and ')}",
}
"""Texts with lists of some length."""


@pytest.mark.draws(4)
@pytest.mark.parametrize("text", FLAT)
def test_a_long_list_is_planned(text):
    sql(FLAT[text](MANY // 4 if text in NESTED else MANY), RELATIONS)


@pytest.mark.draws(8)
@pytest.mark.parametrize("count", [40, 100])
@pytest.mark.parametrize("text", FLAT)
def test_the_answer_of_a_long_list_is_duckdbs(text, count):
    check(FLAT[text](count), TABLES, seed=count)


@pytest.mark.parametrize("text", [
    self_joins(3), doubled(DEEP), nested("nullif({}, b)", 6), nested("coalesce(nullif(greatest({}, b), 3), a)", 5),
])  # fmt: skip
def test_the_answer_of_repeated_parts_is_duckdbs(text):
    check(text, TABLES, seed=1)


def test_rows_with_few_columns_give_the_same_answer(monkeypatch):
    monkeypatch.setattr(rows_of_sql, "MAX_UNREAD_COLUMNS", 0)
    check(self_joins(3), TABLES, seed=1)


@pytest.mark.parametrize("text", [self_joins(DEEP), doubled(DEEP)])
def test_parts_that_are_read_twice_are_planned_once(text):
    plan = sql(text, RELATIONS)
    assert len(list(walk(plan.node))) < 10 * DEEP
    assert "a" in plan.explain()


def test_a_chain_of_self_joins_has_as_few_columns_as_one_join():
    plan = sql(self_joins(DEEP), RELATIONS)
    assert max(len(each.schema.names) for each in walk(plan.node)) < 2 * 64 + 10


def test_the_conditions_of_a_table_make_one_filter(monkeypatch):
    made = []
    monkeypatch.setattr(rows_of_sql, "selected", lambda *args: made.append(args) or args[0])
    sql(f"select a, b from t where {listed('a <> {}', 400, ' and ')}", RELATIONS)
    assert len(made) == 1


def test_long_conditions_are_balanced():
    wide = {"t": source("t", {"a": integer(0, MANY).or_null(), "b": integer(0, MANY)}, rows=100)}
    plan = sql(FLAT["AND"](MANY), wide)
    (condition,) = (each.condition for each in walk(plan.node) if isinstance(each, Filter))
    assert len(conjuncts(condition)) >= MANY - 1
    assert depth(condition) < 50


def depth(term):
    return 1 + max(map(depth, term.args), default=0)


def test_a_list_of_constants_is_one_lookup():
    plan = sql(FLAT["NOT IN"](MANY), RELATIONS)
    (condition,) = (each.condition for each in walk(plan.node) if isinstance(each, Filter))
    assert len(list(subterms(condition))) < 10


def shared_terms():
    """Return a number and a condition of few parts, each of which is a part twice."""
    one = column("a", integer(0, 1))
    either = Equal(one, number(1))
    for _ in range(DEEP):
        one = Add(one, one, integer(0, 2 * one.type.high))
        either = Or(And(either, either), Not(either))
    return one, either


def test_the_parts_of_a_term_are_visited_once(monkeypatch):
    digests = []
    digest = interning._digest
    monkeypatch.setattr(interning, "_digest", lambda content: digests.append(content) or digest(content))
    for term in shared_terms():
        assert term.columns == {"a"}
        assert term.operations > 2**DEEP
        by = column("b", integer(0, 1))
        other = substituted(term, {"a": by})
        assert other.columns == {"b"}
        assert replaced(term, {column("a", integer(0, 1)): by}) is other
        assert simplified(term, {column("a", integer(0, 1)): by}).columns == {"b"}
        assert term_digest(term) != term_digest(other)
        assert len(str(term)) < 100
    assert len(digests) <= 2 * len({part for term in shared_terms() for part in subterms(term)})
    assert 0 <= selectivity(shared_terms()[1]) <= 1


def test_a_projection_of_a_shared_term_is_explained():
    term, _ = shared_terms()
    below = source("t", {"a": integer(0, 1)}, rows=10).node
    schema = Schema((Field("v", term.type),), 10)
    assert "add(...)" in Collection(Project(below, (("v", term),), schema=schema)).explain()


def test_the_key_of_repeated_joins_is_found_once():
    rows = source("t", {"a": integer(0, 9), "b": integer(0, 9)}, rows=10, key="a")
    for _ in range(DEEP):
        rows = rows.join(rows.select("a"), on="a")
    assert is_unique(rows.node, ["a"])
    assert not is_unique(rows.node, ["b"])
