"""Motifs by their triangles: a relation that holds these, and is kept, instead of the edges that they have.

A 4-clique is tri(a,b,c), tri(a,b,d), tri(a,c,d). For an edge to count as often as it is there, and not once for each
triangle that it is in, its first triangle counts it so, and the others take it from a relation that has each edge once.
Where edges are there once anyway, that is the same relation, and there is one of triangles.
"""

from __future__ import annotations

from itertools import permutations

from deltamark.errors import DeltamarkError
from deltamark.queries.graph.pattern import Pattern

SIDES = (("a", "b"), ("b", "c"), ("a", "c"))


def by_triangles(pattern: Pattern, edges: str, once: str) -> Pattern:
    """Write a motif by triangles of edges. once: the relation that has each of these edges once."""
    left, atoms = list(pattern.atoms), []
    kinds: dict[str, Pattern] = {}
    for x, y, z in permutations(pattern.variables, 3):
        sides = [(edges, side) for side in ((x, y), (y, z), (x, z))]
        if not set(sides) <= set(pattern.atoms) or not set(sides) & set(left):
            continue
        names = [edges if side in left else once for side in sides]
        for side in set(sides) & set(left):
            left.remove(side)
        kind = "_".join(["tri", *names])
        kinds[kind] = Pattern(tuple(zip(names, SIDES, strict=True)))
        atoms.append((kind, (x, y, z)))
    if not atoms:
        raise DeltamarkError("a motif without triangles", pattern, "find it by its edges")
    return Pattern((*atoms, *left), pattern.smaller, tuple(kinds.items()))
