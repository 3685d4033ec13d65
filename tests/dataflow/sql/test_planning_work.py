"""The work of planning a text is bounded by a power of its length. It is counted in calls and estimates."""

from __future__ import annotations

import cProfile
import gc
import itertools
import weakref

import pytest

from deltamark.dataflow.language.collection import source
from deltamark.dataflow.operators import node
from deltamark.dataflow.passes import join_order
from deltamark.dataflow.passes.join_order import MOST_PARTS, JoinGraph
from deltamark.dataflow.sql.query import sql
from deltamark.dataflow.types import integer

bounds = itertools.count(10**6)


def new_relations():
    """Return relations whose bounds no earlier ones have, so that no node or term of a column exists before.

    Equal nodes are one object, and nodes in reference cycles live until the next garbage collection: planning the
    same text again would take fewer calls, by an amount that depends on what ran before.
    """
    number = integer(0, next(bounds))
    return {
        "t": source("t", {"a": number, "b": number.or_null()}, rows=1000),
        "k": source("k", {"a": number, "b": number}, rows=1000, key="a"),
        "w": source("w", {f"c{at}": number for at in range(50)}, rows=1000),
    }


def listed(pattern, count, separator=", "):
    """Write a pattern for each number, and the number after it."""
    return separator.join(pattern.format(at, at + 1) for at in range(count))


def each_twice(select, count):
    """Write common table expressions, of which each reads the one before twice."""
    steps = "".join(f", c{at + 1} as ({select.format(f'c{at}')})" for at in range(count))
    return f"with c0 as (select a, b from t){steps} select a, b from c{count}"


LISTS = {
    "numbers": lambda count: f"select a from t where a + b in ({listed('{}', 10 * count)})",
    "conditions in OR": lambda count: f"select a from t where {listed('a = {} and b = {}', count, ' or ')}",
    "conditions in AND": lambda count: f"select a from t where {listed('a + b <> {}', count, ' and ')}",
    "branches of CASE": lambda count: f"select case {listed('when a = {} then {}', count, ' ')} end as v from t",
    "columns": lambda count: f"select {listed('c{} + 1 as d{}', count)} from w",
    "sums": lambda count: f"select c0, {listed('sum(c{})', count)} from w group by c0",
    "parts of UNION ALL": lambda count: listed("select a, b from t where a = {}", count, " union all "),
    "rows of VALUES": lambda count: f"select * from (values {listed('({}, {})', count)}) as v(y, z)",
    "nested queries": lambda count: f"select a from {'(select a from ' * count}t{') as q' * count}",
    "parentheses": lambda count: f"select {'(' * count}a{' + 1 - 1)' * count} as v from t",
    "joins of CTEs with themselves": lambda count: each_twice(
        "select x.a, y.b from {0} as x join {0} as y on x.a = y.a", count
    ),
    "unions of CTEs with themselves": lambda count: each_twice(
        "select * from {0} union all select b, a from {0}", count
    ),
    "CTEs in scalar subqueries": lambda count: each_twice(
        "select a, b from {0} as x where b > (select max(b) - 1 from {0} as y where y.a = x.a)", count
    ),
}  # fmt: skip
"""Texts with lists, or of a depth, of which each part takes about the same work."""

JOINS = {
    "a chain": lambda count: (
        f"select t0.a from {listed('k as t{}', count + 1)} where {listed('t{}.b = t{}.a', count, ' and ')}"
    ),
    "a star": lambda count: (
        f"select c0 from w, {listed('k as t{}', count)} where {listed('c{0} = t{0}.a', count, ' and ')}"
    ),
    "one key": lambda count: f"select x.a from t as x {listed('join t as t{} using (a)', count, ' ')}",
    "comparisons": lambda count: (
        f"select t0.a from {listed('t as t{}', count + 1)} where {listed('t{}.a < t{}.b', count, ' and ')}"
    ),
    "scalar subqueries": lambda count: f"select {listed('(select max(b) from t where a = {}) as v{}', count)} from t",
    "semijoins": lambda count: (
        f"select a from t where {listed('b in (select a from k where b <> {})', count, ' and ')}"
    ),
}
"""Texts with joins of one element more than their number."""


@pytest.fixture(scope="module", autouse=True)
def imported():
    """Import everything that planning needs, which takes calls, too."""
    sql("select a from t", new_relations())


def calls(text):
    """Return the number of calls of functions while a text is planned."""
    profile, relations = cProfile.Profile(), new_relations()
    gc.disable()  # a collection within the call would remove nodes, which it then makes again
    try:
        profile.runcall(sql, text, relations)
    finally:
        gc.enable()
    return sum(each.callcount for each in profile.getstats())


@pytest.mark.parametrize("name", LISTS)
def test_the_work_of_a_list_grows_with_its_length(name):
    text = LISTS[name]
    assert calls(text(16)) < 2.3 * calls(text(8))


@pytest.mark.parametrize("name", JOINS)
def test_many_joins_are_ordered_by_at_most_the_square_of_their_number_of_estimates(name, monkeypatch):
    estimated = JoinGraph._joined_size
    count, elements = 0, 2 * MOST_PARTS

    def estimate(*args):
        nonlocal count
        count += 1
        assert count <= 2 * elements**2
        return estimated(*args)

    monkeypatch.setattr(JoinGraph, "_joined_size", estimate)
    sql(JOINS[name](elements - 1), new_relations())
    assert count > elements


def test_the_rows_of_a_node_are_estimated_once(monkeypatch):
    nodes = []

    class Estimates(weakref.WeakKeyDictionary):
        def __setitem__(self, of, rows):
            nodes.append(of)
            super().__setitem__(of, rows)

    monkeypatch.setattr(node, "_expected", Estimates())
    sql(LISTS["CTEs in scalar subqueries"](8), new_relations())
    assert nodes
    assert len(nodes) == len(set(nodes))


def test_a_planned_join_leaves_nothing_behind(monkeypatch):
    graphs = []

    def graph(*args):
        made = made_graph(*args)
        graphs.append(weakref.ref(made))
        return made

    made_graph = JoinGraph
    monkeypatch.setattr(join_order, "JoinGraph", graph)
    sql(JOINS["a chain"](3), new_relations())
    gc.collect()
    assert graphs
    assert not any(each() for each in graphs)
