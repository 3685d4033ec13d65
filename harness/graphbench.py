"""What bench-graph measures."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from dataflow.motif import VARIANTS
from dataflow.worker import Worker
from harness.baseline import adjacency, triangles
from harness.graphs import WORKLOADS, Edges
from harness.motifs import bigjoin_of, counted
from queries.graph.motifs import MOTIFS

RUNS = 3
MOST_CHANGES = 50_000
MOST_BATCHES = 2000
"""Of a table of many sizes of batches."""


class WrongError(Exception):
    """Two ways to count do not agree."""


@dataclass(frozen=True)
class Counted:
    motif: str
    found: int
    index: float
    seconds: float
    by_hand: float
    proposals: int
    index_bytes: int
    indexed_rows: int


def static(edges: Edges) -> Iterator[Counted]:
    """Count motifs by BiGJoin, and triangles by hand too, by turns."""
    by_hand = adjacency(edges.src, edges.dst)
    triangles(*adjacency(edges.src[:9], edges.dst[:9]))  # which compiles it
    for name in ("triangle", "4-clique"):
        with closing(bigjoin_of(MOTIFS[name], edges)) as motif:
            started = time.perf_counter()
            motif.load({"e": WORKLOADS["load"](edges, 1).batch(0, len(edges), 0)})
            indexed = time.perf_counter() - started
            found, best, other = 0, np.inf, np.inf if name == "triangle" else np.nan
            for _ in range(RUNS):
                started = time.perf_counter()
                found = motif.count()
                best = min(best, time.perf_counter() - started)
                if name == "triangle":
                    other = min(other, _triangles(by_hand, found))
            yield Counted(
                name, found, indexed, best, other, motif.shown.proposals, motif.index_bytes(), motif.index_rows()
            )


def _triangles(by_hand: tuple[np.ndarray, np.ndarray], expected: int) -> float:
    started = time.perf_counter()
    found = triangles(*by_hand)
    seconds = time.perf_counter() - started
    if found != expected:
        raise WrongError(f"{expected:,} triangles, by hand {found:,}")
    return seconds


@dataclass(frozen=True)
class Rounds:
    batch: int
    seconds: float
    rounds: int
    most: int
    held_bytes: int


def rounds(edges: Edges) -> Iterator[Rounds]:
    """Count 4-cliques in batches of several sizes."""
    known = 0
    with closing(bigjoin_of(MOTIFS["4-clique"], edges)) as motif:
        motif.load({"e": WORKLOADS["load"](edges, 1).batch(0, len(edges), 0)})
        for batch in (1000, 10_000, 100_000, 1_000_000):
            started = time.perf_counter()
            found = motif.count(batch)
            seconds = time.perf_counter() - started
            if known not in (0, found):
                raise WrongError(f"{found:,} 4-cliques in batches of {batch:,}, {known:,} before")
            known = found
            yield Rounds(batch, seconds, motif.shown.rounds, max(motif.shown.most), motif.shown.held_bytes)


@dataclass(frozen=True)
class Changed:
    variant: str
    batch: int
    updates: int
    seconds: float
    proposals: int


def delta(edges: Edges, batches: Sequence[int]) -> Iterator[Changed]:
    """Maintain the number of triangles while edges come and go, in batches of each size."""
    found = MOTIFS["triangle"].dataflow({"e": edges.relation()}).count()
    with closing(Worker(found)) as worker:
        at = 0
        stream = WORKLOADS["half"](edges, 1)
        worker.feed({"e": stream.loaded()})
        start = int(stream.starts[0])
        for batch in batches:
            stop = min(start + min(MOST_CHANGES, MOST_BATCHES * batch), len(stream.rows))
            proposed, seconds = worker.proposals(), 0.0
            first = start
            while start < stop:
                at += 1
                fed = stream.batch(start, min(start + batch, stop), at)
                started = time.perf_counter()
                worker.push({"e": fed})
                seconds += time.perf_counter() - started
                start += len(fed.time)
            if start > first:
                yield Changed("least", batch, start - first, seconds, worker.proposals() - proposed)


def hub(edges: Edges) -> Iterator[Changed]:
    """Let the vertices of a graph come one by one, and count triangles by each variant."""
    known = None
    for variant in VARIANTS:
        found = MOTIFS["triangle"].dataflow({"e": edges.relation()}, variant).count()
        stream, total = WORKLOADS["nodes"](edges, 1), 0
        with closing(Worker(found)) as worker:
            seconds = 0.0
            for batch in stream.batches():
                started = time.perf_counter()
                changes = worker.feed({"e": batch})
                seconds += time.perf_counter() - started
                total += counted(changes)
            if known not in (None, total):
                raise WrongError(f"{total:,} triangles by {variant}, {known:,} before")
            known = total
            yield Changed(variant, 0, len(edges), seconds, worker.proposals())
