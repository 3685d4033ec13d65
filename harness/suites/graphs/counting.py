"""How motifs are counted where that is measured: by hand, by BiGJoin, by delta queries, each held against another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TypeVar

import numpy as np

from deltamark.dataflow.language.collection import Collection
from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.suites.graphs.baseline import adjacency, four_cliques, triangles
from deltamark.harness.suites.graphs.graph_data import WORKLOADS, Edges, EdgeStream
from deltamark.harness.suites.graphs.motif_runs import MotifCosts, bigjoin_of, counted, run
from deltamark.harness.suites.table_cell import WrongAnswerError
from deltamark.queries.graph.motifs import MOTIFS

LOOPS = {"triangle": triangles, "4-clique": four_cliques}
"""What is written by hand, by the name of its motif."""

BY_HAND, BY_BIGJOIN = "by hand", "by BiGJoin"

Found = TypeVar("Found")

MOST_CHANGES, MOST_BATCHES = 50_000, 2000
"""Of edges, and of times, where edges come and go."""

ENOUGH = 10.0
"""Seconds after which no further run begins."""


def repeated(runs: int) -> Iterator[None]:
    """Go on so many times; slow ones get fewer."""
    begun = time.monotonic()
    for number in range(runs):
        if number and time.monotonic() - begun > ENOUGH:
            return
        yield


def timed(work: Callable[[], Found]) -> tuple[float, Found]:
    """Do something; return the seconds that it took, and what came of it."""
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found


def by_hand(name: str, edges: Edges) -> Callable[[], int]:
    """Return what counts a motif by hand: its adjacency is made, its loop compiled."""
    if name not in LOOPS:
        raise unknown("motif by hand", name, LOOPS)
    loop, made = LOOPS[name], adjacency(edges.src, edges.dst)
    loop(*adjacency(edges.src[:1], edges.dst[:1]))
    return lambda: loop(*made)


def by_bigjoin(name: str, edges: Edges) -> int:
    with closing(bigjoin_of(MOTIFS[name], edges)) as motif:
        motif.load({"e": edges.batch()})
        return motif.count()


def maintained(collection: Collection, stream: EdgeStream, workers: int = 1) -> tuple[int, MotifCosts]:
    """Maintain a count over a stream of edges; return it as it is at the end, and what that took."""
    measured = MotifCosts()
    total = sum(counted(changes) for changes, _ in run(collection, stream, workers, measured))
    return total, measured


def agree(name: str, edges: Edges, found: int, expected: tuple[str, int]) -> None:
    """Hold a count against another one."""
    other, right = expected
    if found != right:
        actual = f"{found:,} in {edges.name}, {other} {right:,}"
        raise WrongAnswerError(f"wrong number of motifs {name}", actual, "ask DuckDB: python -m harness motif --help")


def churn(edges: Edges, batch: int) -> EdgeStream:
    """Let as many edges come as go, so many changes at a time, after most of them were loaded."""
    stream = WORKLOADS["half"](edges, batch)
    changes = min(MOST_CHANGES, MOST_BATCHES * batch, len(stream.rows) - int(stream.starts[0]))
    if not changes:
        raise DeltamarkError("too few edges to change any", len(edges), "take a larger graph")
    return stream.shortened(changes)


def left(stream: EdgeStream) -> Edges:
    """Return the edges that are there at the end of a stream."""
    kept = np.repeat(np.arange(len(stream.edges)), stream.live(len(stream.rows)))
    return Edges(stream.edges.name, stream.edges.src[kept], stream.edges.dst[kept])


def warm() -> None:
    """Compile or load the kernels, so that no child of this process need to."""
    edges = Edges("three edges", np.array([0, 0, 1]), np.array([1, 2, 2]))
    for name in LOOPS:
        by_hand(name, edges)()
        by_bigjoin(name, edges)
    maintained(MOTIFS["triangle"].dataflow({"e": edges.relation()}).count(), WORKLOADS["insert"](edges, 1))
