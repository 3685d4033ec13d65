"""Counts of motifs by hand-written loops, by BiGJoin and by delta queries, compared with one another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import numpy as np

from deltamark.dataflow.language.collection import Collection
from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.suites.graphs.baseline import adjacency, four_cliques, triangles
from deltamark.harness.suites.graphs.graph_data import WORKLOADS, Edges, EdgeStream
from deltamark.harness.suites.graphs.motif_runs import MotifCosts, bigjoin_of, counted, run
from deltamark.harness.suites.table_cell import WrongAnswerError
from deltamark.queries.graph.motifs import MOTIFS

LOOPS = {"triangle": triangles, "4-clique": four_cliques}
"""The hand-written loops, by the name of their motif."""

BY_HAND, BY_BIGJOIN = "by hand", "by BiGJoin"

MAX_CHANGES, MAX_BATCHES = 50_000, 2000
"""The limits of a changing workload: changes of edges, and batches."""


def by_hand(name: str, edges: Edges) -> Callable[[], int]:
    """Return the hand-written counter of a motif, with its adjacency built and its loop compiled."""
    if name not in LOOPS:
        raise unknown("motif by hand", name, LOOPS)
    loop, arrays = LOOPS[name], adjacency(edges.src, edges.dst)
    loop(*adjacency(edges.src[:1], edges.dst[:1]))
    return lambda: loop(*arrays)


def by_bigjoin(name: str, edges: Edges) -> int:
    with closing(bigjoin_of(MOTIFS[name], edges)) as motif:
        motif.load({"e": edges.batch()})
        return motif.count()


def maintained(collection: Collection, stream: EdgeStream, workers: int = 1) -> tuple[int, MotifCosts]:
    """Maintain a count over a stream of edges; return the final count and its costs."""
    measured = MotifCosts()
    total = sum(counted(changes) for changes, _ in run(collection, stream, workers, measured))
    return total, measured


def agree(name: str, edges: Edges, matches: int, expected: tuple[str, int]) -> None:
    """Compare a count with that of another algorithm."""
    other, right = expected
    if matches != right:
        actual = f"{matches:,} in {edges.name}, {other} {right:,}"
        raise WrongAnswerError(f"wrong number of motifs {name}", actual, "compare with DuckDB: see motif --help")


def churn(edges: Edges, batch: int) -> EdgeStream:
    """Return a stream that loads most edges, then inserts and deletes equally many, `batch` changes at a time."""
    stream = WORKLOADS["half"](edges, batch)
    changes = min(MAX_CHANGES, MAX_BATCHES * batch, len(stream.rows) - int(stream.starts[0]))
    if not changes:
        raise DeltamarkError("too few edges to change any", len(edges), "take a larger graph")
    return stream.shortened(changes)


def left(stream: EdgeStream) -> Edges:
    """Return the edges that remain at the end of a stream."""
    kept = np.repeat(np.arange(len(stream.edges)), stream.live(len(stream.rows)))
    return Edges(stream.edges.name, stream.edges.src[kept], stream.edges.dst[kept])


def warm() -> None:
    """Compile or load the kernels, so that the children of this process inherit them."""
    edges = Edges("three edges", np.array([0, 0, 1]), np.array([1, 2, 2]))
    for name in LOOPS:
        by_hand(name, edges)()
        by_bigjoin(name, edges)
    maintained(MOTIFS["triangle"].dataflow({"e": edges.relation()}).count(), WORKLOADS["insert"](edges, 1))
