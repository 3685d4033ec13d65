"""Motifs over triangles: atoms of a maintained relation of triangles replace the atoms of their edges.

A 4-clique is tri(a,b,c), tri(a,b,d), tri(a,c,d). The multiplicity of an edge must count once in a match, although
several triangles may contain the edge. So the first of these triangles reads the edge from `edges`, and the others read
it from `once`, which has each edge once. If no edge is repeated, both are one relation, and so are all triangles.
"""

from __future__ import annotations

from itertools import permutations

from deltamark.errors import DeltamarkError
from deltamark.queries.graph.pattern import Pattern

SIDES = (("a", "b"), ("b", "c"), ("a", "c"))


def by_triangles(pattern: Pattern, edges: str, once: str) -> Pattern:
    """Rewrite a motif of edges as one of triangles. edges, once: the relations of the edges, and of each edge once."""
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
        raise DeltamarkError("a motif without triangles", pattern, "find it without triangles")
    return Pattern((*atoms, *left), pattern.smaller, tuple(kinds.items()))
