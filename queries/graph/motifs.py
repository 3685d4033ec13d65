"""Motifs by name. Edges are directed; those of a clique go from earlier variables to later ones."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from deltamark.queries.graph.pattern import Pattern, read


def clique(size: int) -> Pattern:
    """Return the motif of `size` vertices, each with an edge to all later ones."""
    return Pattern(tuple(("e", pair) for pair in combinations("abcdefghijklmnopqrstuvwxyz"[:size], 2)))


MOTIFS: Mapping[str, Pattern] = {
    "triangle": read("e(a,b), e(b,c), e(a,c)"),
    "cyclic-triangle": read("e(a,b), e(b,c), e(c,a)"),
    "4-clique": clique(4),
    "5-clique": clique(5),
    "6-clique": clique(6),
    "diamond": read("e(a,b), e(b,c), e(d,a), e(d,c)"),
    "house": read("e(a,b), e(a,c), e(a,d), e(b,c), e(b,d), e(c,d), e(b,f), e(c,f)"),
}


def motif(words: str) -> Pattern:
    """Return the motif of a name, or parse atoms and conditions."""
    return MOTIFS[words] if words in MOTIFS else read(words)
