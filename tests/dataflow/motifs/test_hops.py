"""K hops over a changing graph, as k joins with one index of its edges; queries are inserted and deleted."""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.driving import arrays
from support.engines.explanations import parts, readers

from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import integer

NODES = integer(0, 9)
edges = source("edges", {"src": NODES, "dst": NODES}, 1000)
queries = source("queries", {"origin": NODES, "at": NODES}, 1000)


def hops(count: int) -> Collection:
    """Return the ends of the walks of this length from the vertex of each query, with the query's origin."""
    found = queries
    for _ in range(count):
        found = found.join(edges, on={"at": "src"}).select("origin", at=col.dst)
    return found


def walked(ends: Counter, graph: Counter, count: int) -> Counter:
    """Compute hops(count) from scratch."""
    for _ in range(count):
        further: Counter = Counter()
        for (origin, at), weight in ends.items():
            for (src, dst), times in graph.items():
                if src == at:
                    further[origin, dst] += weight * times
        ends = further
    return Counter({row: weight for row, weight in ends.items() if weight})


pairs = st.tuples(st.integers(0, 9), st.integers(0, 9))
changes = st.lists(st.tuples(st.lists(pairs, max_size=6), st.lists(pairs, max_size=3)), min_size=1, max_size=6)


def toggled(live: Counter, rows: list, time: int) -> list:
    """Insert the rows that are absent, and delete those that are live."""
    updates = []
    for row in dict.fromkeys(rows):
        diff = -1 if live[row] else 1
        live[row] += diff
        updates.append((row, time, diff))
    return updates


@settings(max_examples=30)
@given(changes, st.integers(1, 3))
def test_hops_follow_insertions_and_deletions_of_edges_and_queries(steps, count):
    graph, live_queries, found = Counter(), Counter(), Counter()
    with closing(Dataflow(hops(count))) as worker:
        for time, (moved, wanted) in enumerate(steps):
            streams = {"edges": toggled(graph, moved, time), "queries": toggled(live_queries, wanted, time)}
            schemas = {"edges": edges.schema, "queries": queries.schema}
            out = worker.feed({name: arrays(schemas[name], each) for name, each in streams.items() if each})
            rows = zip(out.columns["origin"].tolist(), out.columns["at"].tolist(), strict=True)
            for row, diff in zip(rows, out.diff.tolist(), strict=True):
                found[row] += diff
            assert +found == walked(+live_queries, +graph, count)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_all_hops_use_one_index_of_the_edges(count):
    with closing(Dataflow(hops(count))) as worker:
        plan = worker.explain()
    (index,) = parts(plan, "arrangement by src")
    assert readers(plan, index) == count


@pytest.mark.parametrize("count", [1, 2, 4])
def test_several_workers_deal_the_edges_once(count):
    with closing(Dataflow(hops(count), workers=2)) as engine:
        out = engine.feed(
            {"edges": arrays(edges.schema, [((1, 2), 0, 1)]), "queries": arrays(queries.schema, [((1, 1), 0, 1)])}
        )
        plan = engine.explain()
    assert len(parts(plan, "deal by src")) == 1
    assert len(parts(plan, "arrangement by src")) == 1
    assert len(out.time) == (count == 1)


def test_a_query_adds_only_its_own_rows():
    """Joins seek on both sides: a query among many edges adds no row to the index, and one to the queries."""
    many = [((src, (src + 1) % 10), 0, 1) for src in range(10)]
    with closing(Dataflow(hops(1))) as worker:
        worker.feed({"edges": arrays(edges.schema, many)})
        rows = worker.state_rows()
        out = worker.feed({"queries": arrays(queries.schema, [((3, 3), 1, 1)])})
        assert (worker.state_rows() - rows, out.columns["at"].tolist()) == (1, [4])
        worker.feed({"queries": arrays(queries.schema, [((3, 3), 2, -1)])})
        assert worker.state_rows() == rows
