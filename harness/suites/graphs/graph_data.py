"""Graphs, generated or read from files, and workloads over their edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.types import integer
from deltamark.datagen.graphs.edge_file import read_edges
from deltamark.datagen.graphs.generator import KINDS, graph
from deltamark.datagen.graphs.make import directory_of, make_graph, read_graph
from deltamark.errors import DeltamarkError, unknown

LOADED_PER_HELD_BACK = 10
"""One edge in this many is not loaded before a changing workload."""


@dataclass(frozen=True)
class Edges:
    """A graph: two columns in the order of the edges' insertion."""

    name: str
    src: np.ndarray
    dst: np.ndarray

    def __len__(self) -> int:
        return len(self.src)

    def relation(self, name: str = "e") -> Collection:
        """Declare an input whose rows are the edges."""
        low = min(int(self.src.min()), int(self.dst.min()))
        high = max(int(self.src.max()), int(self.dst.max()))
        return source(name, {"src": integer(low, high), "dst": integer(low, high)}, rows=len(self))

    def batch(self) -> Batch:
        """Return all edges as one batch."""
        return Batch(np.zeros(len(self), np.int64), np.ones(len(self), np.int64), {"src": self.src, "dst": self.dst})

    def are_once(self) -> bool:
        """Return whether all edges are distinct."""
        rows = np.lexsort([self.dst, self.src])
        return bool(((np.diff(self.src[rows]) != 0) | (np.diff(self.dst[rows]) != 0)).all())


def open_graph(name: str, data: Path, master: str, report: Callable[[str, int, int], None]) -> Edges:
    """Open a graph by the name of its generator, generating it first if it is missing, or a file of edges."""
    if _is_generated(name):
        make_graph(data, graph(name), master, report)
    elif not Path(name).exists():
        raise unknown("graph, nor is there such a file", name, KINDS)
    return stored_graph(name, data)


def _is_generated(name: str) -> bool:
    return name.partition(":")[0] in KINDS


def stored_graph(name: str, data: Path) -> Edges:
    """Open a generated graph or a file of edges."""
    if _is_generated(name):
        return stored(directory_of(data, graph(name)))
    return _edges(name, read_edges(Path(name)))


ORIENTED = ", oriented"
"""The end of the name of an oriented graph."""


@cache
def named_graph(name: str, data: Path) -> Edges:
    """Open a generated graph by its name, and orient it if the name says so."""
    found = stored(directory_of(data, graph(name.removesuffix(ORIENTED))))
    return oriented(found) if name.endswith(ORIENTED) else found


def stored(directory: Path) -> Edges:
    """Open a generated graph."""
    of, table = read_graph(directory)
    return _edges(of.graph, table)


def _edges(name: str, table: pa.Table) -> Edges:
    return Edges(name, *(table[column].to_numpy().astype(np.int64) for column in ("src", "dst")))


def oriented(edges: Edges) -> Edges:
    """Orient an undirected graph: each edge once, from the vertex of the lower degree.

    Vertices are renumbered by degree and then by old number, so that edges go from smaller numbers to larger ones.
    Each clique is then found once, and no vertex has many outgoing edges.
    """
    kept = edges.src != edges.dst
    if not kept.any():
        raise DeltamarkError("no edge between two vertices", edges.name, "leave --orient out")
    names, places = np.unique(np.concatenate([edges.src[kept], edges.dst[kept]]), return_inverse=True)
    low, high = np.sort(places.reshape(2, -1), axis=0)
    _, first = np.unique(low * len(names) + high, return_index=True)
    ends = np.stack([low, high], axis=1)[np.sort(first)]  # in the order of the input
    rank = np.empty(len(names), np.int64)
    rank[np.argsort(np.bincount(ends.ravel(), minlength=len(names)), kind="stable")] = np.arange(len(names))
    ranked = np.sort(rank[ends], axis=1)
    return Edges(f"{edges.name}{ORIENTED}", ranked[:, 0].copy(), ranked[:, 1].copy())


@dataclass(frozen=True)
class EdgeStream:
    """Insertions and deletions of edges. `starts`: the first row of each batch; rows before the first are preloaded."""

    edges: Edges
    rows: np.ndarray
    diffs: np.ndarray
    starts: np.ndarray

    def batch(self, start: int, stop: int, time: int) -> Batch:
        """Return a range of changes as a batch of one logical time."""
        rows = self.rows[start:stop]
        times = np.full(len(rows), time)
        return Batch(times, self.diffs[start:stop], {"src": self.edges.src[rows], "dst": self.edges.dst[rows]})

    def parts(self) -> list[tuple[int, int, int]]:
        """List the start, stop and time of each batch; the preloaded rows, if any, have time 0."""
        bounds = [0, *self.starts.tolist(), len(self.rows)]
        parts = [(start, stop, time) for time, (start, stop) in enumerate(pairwise(bounds))]
        return parts if parts[0][1] else parts[1:]

    def batches(self) -> Iterator[Batch]:
        return (self.batch(*part) for part in self.parts() if part[-1])

    def loaded(self) -> Batch:
        return self.batch(0, int(self.starts[0]), 0)

    def shortened(self, changes: int) -> EdgeStream:
        """Return the stream up to a number of changes after the preloaded rows."""
        stop = int(self.starts[0]) + changes
        return replace(
            self, rows=self.rows[:stop], diffs=self.diffs[:stop], starts=self.starts[self.starts < stop]
        )  # fmt: skip

    def live(self, stop: int) -> np.ndarray:
        """Return the multiplicity of each edge after the first `stop` changes."""
        return np.bincount(self.rows[:stop], self.diffs[:stop], len(self.edges)).astype(np.int64)


def _insert(edges: Edges, size: int) -> EdgeStream:
    return EdgeStream(edges, np.arange(len(edges)), np.ones(len(edges), np.int64), np.arange(0, len(edges), size))


def _load(edges: Edges, _: int) -> EdgeStream:
    return _insert(edges, len(edges))


def _half(edges: Edges, size: int) -> EdgeStream:
    """Preload most edges; then alternately insert one of the others and delete the oldest."""
    first = len(edges) - max(len(edges) // LOADED_PER_HELD_BACK, 1)
    coming = np.arange(first, len(edges))
    rows = np.concatenate([np.arange(first), np.column_stack([coming, coming - first]).ravel()])
    diffs = np.concatenate([np.ones(first, np.int64), np.tile([1, -1], len(coming))])
    return EdgeStream(edges, rows, diffs, np.arange(first, len(rows), size))


def _nodes(edges: Edges, size: int) -> EdgeStream:
    """Insert the outgoing edges of `size` vertices at a time, in the order of vertices."""
    rows = np.lexsort([edges.dst, edges.src])
    first = np.flatnonzero(np.diff(edges.src[rows], prepend=edges.src.min() - 1))
    return EdgeStream(edges, rows, np.ones(len(edges), np.int64), first[::size])


WORKLOADS: Mapping[str, Callable[[Edges, int], EdgeStream]] = {
    "load": _load, "insert": _insert, "half": _half, "nodes": _nodes,
}  # fmt: skip
"""All edges in one batch; batches of edges; most edges preloaded, then equal insertions and deletions; by vertices."""
