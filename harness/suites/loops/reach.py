"""Measure distances over a random graph: from scratch, attached to an index of its edges, and maintained after that.

Answers are compared with levels that numpy finds, edge by edge, with no index. Everything is timed in this process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.types import integer
from deltamark.errors import DeltamarkError
from deltamark.harness.measure import resources
from deltamark.queries.graph.reach import by_distance

AT_ONCE = 10_000_000
"""Edges of a batch, and of a time, while the graph is loaded."""

BYTES_AN_EDGE, BYTES_A_NODE = 20, 400
"""More than the engine needs, index and all."""

COUNTS, INDEX = "distances", "index"


@dataclass
class Graph:
    """Edges, of which some are gone; `order` says which one goes next."""

    nodes: int
    src: np.ndarray
    dst: np.ndarray
    order: np.ndarray
    gone: int = 0

    def change(self, random: np.random.Generator, changes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Delete some edges, and insert as many; return sources, targets and weights."""
        chosen = self.order[self.gone : self.gone + changes // 2]
        if len(chosen) < changes // 2:
            raise DeltamarkError("more deletions than edges", changes // 2, "ask for fewer changes, or more edges")
        came = random.integers(0, self.nodes, (2, changes - len(chosen)), np.int32)
        src, dst = np.concatenate([self.src[chosen], came[0]]), np.concatenate([self.dst[chosen], came[1]])
        self.src[chosen], self.dst[chosen] = came[:, : len(chosen)]
        self.src, self.dst = np.append(self.src, came[0, len(chosen) :]), np.append(self.dst, came[1, len(chosen) :])
        self.gone += len(chosen)
        return src, dst, np.where(np.arange(changes) < len(chosen), -1, 1)


def random_graph(nodes: int, edges: int, seed: int) -> Graph:
    """Draw edges between nodes, all equally likely; the same ones for the same seed."""
    random = np.random.default_rng(seed)
    src, dst = random.integers(0, nodes, (2, edges), np.int32)
    return Graph(nodes, src, dst, random.permutation(edges).astype(np.int32))


def levels(graph: Graph, roots: np.ndarray) -> dict[int, tuple[int, int]]:
    """Return, by distance, how many nodes there are, and the sum of their numbers."""
    far = np.full(graph.nodes, -1, np.int32)
    front, found, level = np.zeros(graph.nodes, bool), np.unique(roots), 0
    levels: dict[int, tuple[int, int]] = {}
    while len(found):
        levels[level] = len(found), int(found.sum())
        far[found] = level
        front[:] = False
        front[found] = True
        reached = graph.dst[front[graph.src]]
        found, level = np.unique(reached[far[reached] < 0]), level + 1
    return levels


@dataclass(frozen=True)
class Updates:
    """Batches of changes of edges, each of them a logical time: how many a batch has, how many batches, and seconds."""

    size: int
    batches: int
    seconds: float


@dataclass(frozen=True)
class Measured:
    """Seconds and bytes; `wrong` names the first part whose answer is not numpy's."""

    index: float
    scratch: float
    attached: float
    index_bytes: int
    more_bytes: int
    reached: int
    farthest: int
    updates: tuple[Updates, ...]
    wrong: str


def measure(graph: Graph, roots: np.ndarray, sizes: tuple[int, ...], changes: int, seed: int) -> Measured:
    """Measure one graph. sizes: of batches of changes, of which there are about `changes` of each size."""
    declared = 2 * len(graph.src) + 2 * changes * len(sizes)
    places = integer(0, graph.nodes - 1)
    edges = source("edges", {"src": places, "dst": places}, declared)
    asked = source("roots", {"node": places}, max(len(roots), 1))
    plan, index = by_distance(edges, asked), asked.join(edges, on={"node": "src"})
    expected = levels(graph, roots)
    scratch, wrong = _from_scratch(graph, roots, plan, expected)
    with closing(Dataflow({INDEX: index})) as engine:
        with closing(resources.PretouchedMemory(_need(graph))) as warm:
            indexed, last = _load(engine, graph, warm), _times(graph)
            before = engine.state_bytes()
        started = time.perf_counter()
        answer = engine.attach(COUNTS, plan, history={"roots": [_roots(roots, 0)]})
        attached = time.perf_counter() - started
        more = engine.state_bytes() - before
        engine.retire(INDEX)
        wrong = wrong or _difference("attached", _summed({}, answer), expected)
        found, done = _update(engine, graph, _summed({}, answer), sizes, changes, seed, last)
        wrong = wrong or _difference("after updates", found, levels(graph, roots))
    return Measured(
        indexed, scratch, attached, before, more, sum(each for each, _ in expected.values()), max(expected), done, wrong
    )


def _from_scratch(
    graph: Graph, roots: np.ndarray, plan: Collection, expected: dict[int, tuple[int, int]]
) -> tuple[float, str]:
    with closing(Dataflow({COUNTS: plan})) as engine:
        with closing(resources.PretouchedMemory(_need(graph))) as warm:
            seconds = _load(engine, graph, warm)
        started = time.perf_counter()
        answer = engine.feed({"roots": _roots(roots, _times(graph))})[COUNTS]
        seconds += time.perf_counter() - started
    return seconds, _difference("from scratch", _summed({}, answer), expected)


def _times(graph: Graph) -> int:
    return -(-len(graph.src) // AT_ONCE)


def _need(graph: Graph) -> int:
    """Say how much memory is to be touched before it is needed."""
    return BYTES_AN_EDGE * len(graph.src) + BYTES_A_NODE * graph.nodes


def _load(engine: Dataflow[dict[str, Batch]], graph: Graph, warm: resources.PretouchedMemory) -> float:
    """Feed all edges; return the seconds that the engine took."""
    seconds = 0.0
    for at, start in enumerate(range(0, len(graph.src), AT_ONCE)):
        src, dst = (each[start : start + AT_ONCE].astype(np.int64) for each in (graph.src, graph.dst))
        batch = Batch(np.full(len(src), at), np.ones(len(src), np.int64), {"src": src, "dst": dst})
        warm.release()
        started = time.perf_counter()
        engine.push({"edges": batch})
        seconds += time.perf_counter() - started
    return seconds


def _roots(roots: np.ndarray, at: int) -> Batch:
    return Batch(np.full(len(roots), at), np.ones(len(roots), np.int64), {"node": roots})


Levels = dict[int, tuple[int, int]]


def _update(  # noqa: PLR0913, PLR0917 (what is changed, how often, from when on)
    engine: Dataflow[dict[str, Batch]],
    graph: Graph,
    found: Levels,
    sizes: tuple[int, ...],
    changes: int,
    seed: int,
    last: int,
) -> tuple[Levels, tuple[Updates, ...]]:
    random, done = np.random.default_rng(seed + 1), []
    for size in sizes:
        batches = max(changes // size, 1)
        seconds = 0.0
        for batch in _batches(graph, random, size, batches, last + 1):
            started = time.perf_counter()
            answer = engine.feed({"edges": batch})[COUNTS]
            seconds += time.perf_counter() - started
            found = _summed(found, answer)
        last += batches
        done.append(Updates(size, batches, seconds))
    return found, tuple(done)


def _batches(graph: Graph, random: np.random.Generator, size: int, count: int, first: int) -> Iterator[Batch]:
    """Draw all changes at once, and hand them out in batches, each of one time."""
    src, dst, diff = graph.change(random, size * count)
    mixed = random.permutation(len(src))
    src, dst, diff = (each[mixed].astype(np.int64) for each in (src, dst, diff))
    for at in range(count):
        part = slice(at * size, (at + 1) * size)
        yield Batch(np.full(size, first + at), diff[part], {"src": src[part], "dst": dst[part]})


def _summed(before: Levels, answer: Batch) -> Levels:
    """Add changes of the answer, in which a distance has one row."""
    found = dict(before)
    order = np.argsort(answer.diff, kind="stable")  # within a time what goes comes first
    order = order[np.argsort(answer.time[order], kind="stable")]
    columns = (answer.columns[name][order].tolist() for name in ("dist", "nodes", "numbers"))
    for diff, dist, nodes, numbers in zip(answer.diff[order].tolist(), *columns, strict=True):
        if diff > 0:
            found[dist] = nodes, numbers
        else:
            del found[dist]
    return found


def _difference(where: str, found: Levels, expected: Levels) -> str:
    for dist in sorted({*found, *expected}):
        if found.get(dist) != expected.get(dist):
            return f"{where}, at distance {dist}: {found.get(dist)}, numpy says {expected.get(dist)}"
    return ""
