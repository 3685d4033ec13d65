"""Single-threaded baselines: hand-written loops that count one motif each."""

from __future__ import annotations

import numpy as np
from numba import njit

from deltamark.dataflow import kernels  # sets the cache of compiled code

__all__ = ["adjacency", "four_cliques", "kernels", "triangles"]

compiled = njit(cache=True, error_model="numpy")


def adjacency(src: np.ndarray, dst: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first position of the targets of each vertex, and the sorted targets."""
    order = np.lexsort([dst, src])
    starts = np.zeros(int(max(src.max(), dst.max())) + 2, np.int64)
    np.cumsum(np.bincount(src, minlength=len(starts) - 1), out=starts[1:])
    return starts, dst[order].astype(np.int32)


@compiled
def triangles(starts: np.ndarray, targets: np.ndarray) -> int:
    """Count a->b->c with a->c: stamp the targets of a, then look up every target of a target."""
    nodes = len(starts) - 1
    stamps, matches = np.full(nodes, -1, np.int32), 0
    for a in range(nodes):
        for at in range(starts[a], starts[a + 1]):
            stamps[targets[at]] = a
        for at in range(starts[a], starts[a + 1]):
            b = targets[at]
            for place in range(starts[b], starts[b + 1]):
                matches += stamps[targets[place]] == a
    return matches


@compiled
def four_cliques(starts: np.ndarray, targets: np.ndarray) -> int:
    """Count 4-cliques a->b->c->d: stamp the common targets of a and b, then look up every target of each of them."""
    nodes = len(starts) - 1
    first, second = np.full(nodes, -1, np.int32), np.full(nodes, -1, np.int64)
    common, matches = np.empty(nodes, np.int32), 0
    for a in range(nodes):
        for at in range(starts[a], starts[a + 1]):
            first[targets[at]] = a
        for at in range(starts[a], starts[a + 1]):
            b, size = targets[at], 0
            for place in range(starts[b], starts[b + 1]):
                c = targets[place]
                if first[c] == a:
                    second[c], common[size], size = at, c, size + 1
            for each in range(size):
                c = common[each]
                for place in range(starts[c], starts[c + 1]):
                    matches += second[targets[place]] == at
    return matches
