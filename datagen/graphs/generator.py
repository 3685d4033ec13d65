"""Generated graphs: their definitions, and the drawing of blocks of edges.

rmat:S      R-MAT with Graph500's probabilities: 2^S vertices with random labels, 16 * 2^S drawn edges
rmat-hubs:S the same without labels, so the vertices with many edges come first
zipf:S      2^S vertices, 16 * 2^S drawn edges: sources by Zipf's law (exponent 1), uniform targets
hub:D       vertex 87 has D edges to vertices that have one or two edges among each other
star:N      N triangles through one vertex, and no others
grid:N      three sets of N vertices, and all edges from the first to the others and from the second to the third:
            the largest number of triangles that 3 N^2 edges can have (the AGM bound)

Each edge occurs once, and there are no loops. Every block has its own random state, so a graph does not depend on the
number of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from deltamark.errors import unknown, whole_number

BLOCK = 1 << 20
"""The number of edges that are drawn from one random state."""

EDGES_PER_VERTEX = 16
"""The number of drawn edges per vertex, as in Graph500."""

SEED = 20260101
LABEL_MULTIPLIERS = (0x9E3779B1, 0x85EBCA6B, 0x9E3779B1)
"""The multiplier of each step that permutes the labels of vertices; they are odd, so each step is a bijection."""


@dataclass(frozen=True)
class Graph:
    kind: str
    size: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.size}"

    @property
    def nodes(self) -> int:
        """The number of vertices, which are 0 to nodes - 1."""
        return KINDS[self.kind].nodes(self.size)

    @property
    def drawn(self) -> int:
        """The number of edges to draw, with repetitions."""
        return KINDS[self.kind].edges(self.size)

    def edges(self, block: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw a block of edges: sources and targets."""
        places = np.arange(block * BLOCK, min((block + 1) * BLOCK, self.drawn))
        random = np.random.default_rng([SEED, self.size, block])
        return KINDS[self.kind].draw(self.size, places, random)


DrawEdges = Callable[[int, np.ndarray, np.random.Generator], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class GraphKind:
    """A family of graphs: the numbers of vertices and of drawn edges, and how to draw edges, by size."""

    nodes: Callable[[int], int]
    edges: Callable[[int], int]
    draw: DrawEdges
    max_size: int


def _rmat_hubs(scale: int, places: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw a quadrant of the adjacency matrix at each level."""
    src, dst = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)
    for _ in range(scale):
        quadrant = np.searchsorted([0.57, 0.76, 0.95], random.random(len(places)), side="right")
        src, dst = 2 * src + (quadrant >> 1), 2 * dst + (quadrant & 1)
    return src, dst


def _rmat(scale: int, places: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    src, dst = _rmat_hubs(scale, places, random)
    return _labelled(src, scale), _labelled(dst, scale)


def _labelled(vertices: np.ndarray, scale: int) -> np.ndarray:
    """Permute the vertices 0 to 2^scale - 1."""
    mask, half = (1 << scale) - 1, max(scale // 2, 1)
    for factor in LABEL_MULTIPLIERS:
        vertices = (vertices * (factor & mask | 1)) & mask
        vertices ^= vertices >> half
    return vertices


def _zipf(scale: int, places: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    nodes = 1 << scale
    weights = np.cumsum(1 / np.arange(1, nodes + 1))
    src = np.searchsorted(weights, random.random(len(places)) * weights[-1], side="right")
    return src.astype(np.int64), random.integers(0, nodes, len(places))


HUB = 87
"""The number of the vertex with many edges."""


def _hub(degree: int, places: np.ndarray, _: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    others, near = HUB + 1 + places % degree, places < degree
    return np.where(near, HUB, others), np.where(near, others, np.minimum(others + 1, HUB + degree))


def _star(triangles: int, places: np.ndarray, _: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    one, which = 2 * (places % triangles) + 1, places // triangles
    return np.where(which == 2, one, 0), np.where(which == 0, one, one + 1)


def _grid(side: int, places: np.ndarray, _: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    which, cell = places // side**2, places % side**2
    src, dst = cell // side, cell % side
    return src + side * (which == 2), dst + side * np.where(which == 0, 1, 2)


KINDS: Mapping[str, GraphKind] = {
    "rmat": GraphKind(lambda scale: 1 << scale, lambda scale: EDGES_PER_VERTEX << scale, _rmat, 30),
    "rmat-hubs": GraphKind(lambda scale: 1 << scale, lambda scale: EDGES_PER_VERTEX << scale, _rmat_hubs, 30),
    "zipf": GraphKind(lambda scale: 1 << scale, lambda scale: EDGES_PER_VERTEX << scale, _zipf, 26),
    "hub": GraphKind(lambda degree: HUB + 1 + degree, lambda degree: 2 * degree, _hub, 10**8),
    "star": GraphKind(lambda triangles: 2 * triangles + 1, lambda triangles: 3 * triangles, _star, 10**8),
    "grid": GraphKind(lambda side: 3 * side, lambda side: 3 * side**2, _grid, 10**4),
}


def graph(text: str) -> Graph:
    """Read the name of a graph."""
    kind, _, size = text.partition(":")
    if kind not in KINDS:
        raise unknown("graph", kind, KINDS)
    return Graph(kind, whole_number(size, 1, KINDS[kind].max_size, f"the graph {kind}:N needs a whole number N"))
