"""Distances and components over random graphs are right after every change, and the suite measures them."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing

import numpy as np
import pytest

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import source
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import integer
from deltamark.harness.cli.main import main
from deltamark.harness.suites import loops
from deltamark.queries.graph.reach import components, distances

NODES = 60
places = integer(0, NODES - 1)
edges = source("edges", {"src": places, "dst": places}, 10_000)
roots = source("roots", {"node": places}, 10_000)


def far(graph: set, live_roots: set) -> dict[int, int]:
    found, front, dist = {}, live_roots, 0
    while front:
        found |= dict.fromkeys(front, dist)
        front, dist = {dst for src, dst in graph if src in front} - found.keys(), dist + 1
    return found


def labels(graph: set, live_roots: set) -> dict[int, int]:
    found = {node: node for node in live_roots}
    while True:
        after = dict(found)
        for src, dst in [*graph, *((dst, src) for src, dst in graph)]:
            if src in after:
                after[dst] = min(after[src], after.get(dst, after[src]))
        if after == found:
            return found
        found = after


def batch(time: int, changes: list, names: tuple[str, ...]) -> Batch:
    columns = {name: np.array([row[place] for row, _ in changes], np.int64) for place, name in enumerate(names)}
    return Batch(np.full(len(changes), time), np.array([diff for _, diff in changes], np.int64), columns)


def toggled(random: np.random.Generator, live: set, rows: np.ndarray) -> list:
    """Delete some live rows, and insert some others."""
    gone = [row for row in sorted(live) if random.random() < 0.04]
    came = sorted({tuple(row) for row in rows.tolist()} - live)
    live.difference_update(gone)
    live.update(came)
    return [*((row, -1) for row in gone), *((row, 1) for row in came)]


def changed(worker: Dataflow, time: int, moved: list, turned: list, column: str) -> Counter:
    """Feed changes of edges and of roots; return those of the answer."""
    fed = {"edges": batch(time, moved, ("src", "dst")), "roots": batch(time, turned, ("node",))}
    out = worker.feed({name: each for name, each in fed.items() if len(each.time)})
    found: Counter = Counter()
    for *row, diff in zip(out.columns["node"].tolist(), out.columns[column].tolist(), out.diff.tolist(), strict=True):
        found[tuple(row)] += diff
    return found


each_plan = pytest.mark.parametrize(("plan", "column", "expected"), [
    pytest.param(distances, "dist", far, id="distances"), pytest.param(components, "label", labels, id="components"),
])  # fmt: skip


@each_plan
def test_answers_are_right_after_every_change(plan, column, expected):
    random, graph, live_roots, found = np.random.default_rng(5), set(), set(), Counter()
    with closing(Dataflow(plan(edges, roots))) as worker:
        for time in range(150):
            moved = toggled(random, graph, random.integers(0, NODES, (4, 2)))
            turned = toggled(random, live_roots, random.integers(0, NODES, (1, 1)))
            found.update(changed(worker, time, moved, turned, column))
            assert set(found.values()) <= {0, 1}
            assert dict(+found) == dict.fromkeys(expected(graph, {node for (node,) in live_roots}).items(), 1)


@each_plan
def test_an_epoch_may_be_larger_than_a_slice(plan, column, expected):
    random, size = np.random.default_rng(6), 6000
    wide = integer(0, size - 1)
    graph = sorted({tuple(row) for row in random.integers(0, size, (9000, 2)).tolist()})
    live_roots = sorted({(node,) for node in random.integers(0, size, 5 * size).tolist()})
    collection = plan(source("edges", {"src": wide, "dst": wide}, 10**5), source("roots", {"node": wide}, 10**5))
    with closing(Dataflow(collection)) as worker:
        come = [[(row, 1) for row in rows] for rows in (graph, live_roots)]
        found = changed(worker, 0, *come, column)
        assert found == Counter(expected(set(graph), {node for (node,) in live_roots}).items())
        gone = [[(row, -1) for row in rows] for rows in (graph[5000:], live_roots[10:])]
        found.update(changed(worker, 1, *gone, column))
        assert +found == Counter(expected(set(graph[:5000]), {node for (node,) in live_roots[:10]}).items())


ASKED = ("bench", "SUITE=loops", "NODES=1K", "EDGES=5K", "ROOTS=2", "CHANGES=200", "BATCHES=1,50")


def test_the_suite_prints_its_tables(capsys, tmp_path):
    assert main([*ASKED, f"RESULTS={tmp_path}"]) == 0
    out = capsys.readouterr().out
    for text in ("checked numpy", "from scratch", "10.1 s", "attachment", "bytes per node", "changes per time"):
        assert text in out
    assert re.search(r"^50 +4 ", out, re.MULTILINE)


def test_a_wrong_answer_is_reported(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(loops, "levels", lambda *_: {0: (1, 1)})
    assert main([*ASKED, f"RESULTS={tmp_path}"]) == 2
    assert "from scratch, at distance 0" in capsys.readouterr().err


def test_a_graph_must_have_the_edges_that_are_deleted(capsys, tmp_path):
    assert main([*ASKED, "EDGES=199", f"RESULTS={tmp_path}"]) == 2
    assert "more deletions than edges: 200; give EDGES=200, or fewer CHANGES" in capsys.readouterr().err
