"""Measurements of distances over a random graph: from scratch, attached to an index of its edges, and maintained.

Answers are compared with levels that numpy computes edge by edge, without an index. Everything runs in this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import integer
from deltamark.harness.check.answers import WrongAnswerError
from deltamark.harness.measure.client import CellReply
from deltamark.harness.system.clock import Stopwatch, timed
from deltamark.queries.graph.reach import by_distance

LOAD_BATCH_EDGES = 10_000_000
"""Edges per batch, and per logical time, while the graph is loaded."""

DISTANCES = "distances"

Levels = dict[int, tuple[int, int]]
"""By distance: the number of nodes, and the sum of their numbers."""


@dataclass
class ChangingGraph:
    """A graph that loses edges in the order `order` and gains random ones; `deleted` counts the deletions."""

    nodes: int
    src: np.ndarray
    dst: np.ndarray
    order: np.ndarray
    deleted: int = 0

    def change(self, random: np.random.Generator, changes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Delete half as many edges as there are changes, insert as many; return sources, targets and weights."""
        leaving = self.order[self.deleted : self.deleted + changes // 2]
        new = random.integers(0, self.nodes, (2, changes - len(leaving)), np.int32)
        src, dst = np.concatenate([self.src[leaving], new[0]]), np.concatenate([self.dst[leaving], new[1]])
        self.src[leaving], self.dst[leaving] = new[:, : len(leaving)]
        self.src, self.dst = np.append(self.src, new[0, len(leaving) :]), np.append(self.dst, new[1, len(leaving) :])
        self.deleted += len(leaving)
        return src, dst, np.where(np.arange(changes) < len(leaving), -1, 1)


def deletions(sizes: Iterable[int], changes: int) -> int:
    """Return how many edges `measure` deletes."""
    return sum(size * max(changes // size, 1) // 2 for size in sizes)


def random_graph(nodes: int, edges: int, seed: int) -> ChangingGraph:
    """Draw edges uniformly; equal seeds give equal graphs."""
    random = np.random.default_rng(seed)
    src, dst = random.integers(0, nodes, (2, edges), np.int32)
    return ChangingGraph(nodes, src, dst, random.permutation(edges).astype(np.int32))


def levels(graph: ChangingGraph, roots: np.ndarray) -> Levels:
    """Compute the levels of a breadth-first search with numpy."""
    distance = np.full(graph.nodes, -1, np.int32)
    is_front, front, level = np.zeros(graph.nodes, bool), np.unique(roots), 0
    by_distance: Levels = {}
    while len(front):
        by_distance[level] = len(front), int(front.sum())
        distance[front] = level
        is_front[:] = False
        is_front[front] = True
        reached = graph.dst[is_front[graph.src]]
        front, level = np.unique(reached[distance[reached] < 0]), level + 1
    return by_distance


def measure(
    graph: ChangingGraph, roots: np.ndarray, *, sizes: tuple[int, ...], changes: int, seed: int
) -> Iterator[CellReply]:
    """Yield a row for the work before any change, and a row per batch size, with about `changes` changes each."""
    declared = 2 * len(graph.src) + 2 * changes * len(sizes)
    nodes = integer(0, graph.nodes - 1)
    edges = source("edges", {"src": nodes, "dst": nodes}, declared)
    root_nodes = source("roots", {"node": nodes}, max(len(roots), 1))
    plan, index = by_distance(edges, root_nodes), root_nodes.join(edges, on={"node": "src"})
    expected = levels(graph, roots)
    figures = {name: _from_scratch(graph, roots, plan, expected) for name in ("fresh", "scratch")}
    with closing(Dataflow({"index": index})) as engine:
        attachment, maintained = _attach(engine, graph, roots, plan)
        _compare("attached", maintained, expected)
        figures |= attachment
        figures |= {"reached": sum(nodes_at for nodes_at, _ in expected.values()), "farthest": max(expected)}
        yield _reply(DISTANCES, figures)
        random, first = np.random.default_rng(seed + 1), _load_times(graph) + 1
        for size in sizes:
            count = max(changes // size, 1)
            maintained, seconds = _update(engine, maintained, _batches(graph, random, size, count, first))
            first += count
            yield _reply(str(size), {"batches": count, "seconds": seconds})
        _compare("after updates", maintained, levels(graph, roots))


def _reply(row: str, figures: Mapping[str, float]) -> CellReply:
    return CellReply(row=row, figures={name: [value] for name, value in figures.items()}, verified="numpy")


def _from_scratch(graph: ChangingGraph, roots: np.ndarray, plan: Collection, expected: Levels) -> float:
    with closing(Dataflow({DISTANCES: plan})) as engine:
        loading = _load(engine, graph)
        seconds, answers = timed(lambda: engine.feed({"roots": _roots(roots, _load_times(graph))}))
    _compare("from scratch", _summed({}, answers[DISTANCES]), expected)
    return loading + seconds


def _attach(
    engine: Dataflow[dict[str, Batch]], graph: ChangingGraph, roots: np.ndarray, plan: Collection
) -> tuple[dict[str, float], Levels]:
    """Load the index of the edges, attach the distances, and retire the index; return figures and the levels."""
    figures = {"index": _load(engine, graph)}
    index_bytes = engine.state_bytes()
    history = {"roots": [_roots(roots, 0)]}
    figures["attached"], answer = timed(lambda: engine.attach(DISTANCES, plan, history=history))
    figures |= {"index_bytes": index_bytes, "more_bytes": engine.state_bytes() - index_bytes}
    engine.retire("index")
    return figures, _summed({}, answer)


def _load_times(graph: ChangingGraph) -> int:
    return -(-len(graph.src) // LOAD_BATCH_EDGES)


def _load(engine: Dataflow[dict[str, Batch]], graph: ChangingGraph) -> float:
    """Feed all edges; return the seconds of the engine."""
    watch = Stopwatch()
    for number, start in enumerate(range(0, len(graph.src), LOAD_BATCH_EDGES)):
        src, dst = (ends[start : start + LOAD_BATCH_EDGES].astype(np.int64) for ends in (graph.src, graph.dst))
        batch = Batch(np.full(len(src), number), np.ones(len(src), np.int64), {"src": src, "dst": dst})
        with watch:
            engine.push({"edges": batch})
    return watch.seconds


def _roots(roots: np.ndarray, at: int) -> Batch:
    return Batch(np.full(len(roots), at), np.ones(len(roots), np.int64), {"node": roots})


def _update(engine: Dataflow[dict[str, Batch]], maintained: Levels, batches: Iterator[Batch]) -> tuple[Levels, float]:
    """Feed batches; return the maintained levels, and the seconds of the engine."""
    watch = Stopwatch()
    for batch in batches:
        with watch:
            answers = engine.feed({"edges": batch})
        maintained = _summed(maintained, answers[DISTANCES])
    return maintained, watch.seconds


def _batches(graph: ChangingGraph, random: np.random.Generator, size: int, count: int, first: int) -> Iterator[Batch]:
    """Draw all changes at once, and yield them in batches of one logical time each."""
    src, dst, diff = graph.change(random, size * count)
    order = random.permutation(len(src))
    src, dst, diff = (column[order].astype(np.int64) for column in (src, dst, diff))
    for number in range(count):
        part = slice(number * size, (number + 1) * size)
        yield Batch(np.full(size, first + number), diff[part], {"src": src[part], "dst": dst[part]})


def _summed(before: Levels, answer: Batch) -> Levels:
    """Add changes of the answer, which has one row per distance."""
    after = dict(before)
    order = np.argsort(answer.diff, kind="stable")  # within a time, retractions come first
    order = order[np.argsort(answer.time[order], kind="stable")]
    columns = (answer.columns[name][order].tolist() for name in ("dist", "nodes", "numbers"))
    for diff, dist, nodes, numbers in zip(answer.diff[order].tolist(), *columns, strict=True):
        if diff > 0:
            after[dist] = nodes, numbers
        else:
            del after[dist]
    return after


def _compare(part: str, actual: Levels, expected: Levels) -> None:
    for dist in sorted({*actual, *expected}):
        if actual.get(dist) != expected.get(dist):
            difference = f"{part}, at distance {dist}: {actual.get(dist)}, numpy has {expected.get(dist)}"
            remedy = "pytest tests/harness/suites/test_reach.py tells whether small graphs are right"
            raise WrongAnswerError("a wrong answer", difference, remedy)
