"""Motifs over small relations of edges, nodes and triples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltamark.dataflow.language.collection import Collection, source
from deltamark.dataflow.language.expr import Expr, col
from deltamark.dataflow.language.motif import Atom, Variant, delta_query
from deltamark.dataflow.types import integer

ROWS = 100_000
NODES = integer(-2, 3)
e = source("e", {"src": NODES, "dst": NODES}, ROWS)
f = source("f", {"src": integer(0, 5), "dst": integer(-3, 2)}, ROWS)
v = source("v", {"node": NODES}, ROWS)
t = source("t", {"x": NODES, "y": NODES, "z": NODES}, ROWS)
wide = source("wide", {"src": integer(-(2**40), 2**40), "dst": integer(-(2**40), 2**40)}, ROWS)
RELATIONS = {"e": e, "f": f, "v": v, "t": t, "w": wide}

MOTIFS: Mapping[str, tuple[str, Sequence[Expr]]] = {
    "edge": ("e:ab", ()),
    "path": ("e:ab e:bc", ()),
    "path-in-order": ("e:ab e:bc", [col.a < col.b, col.b < col.c]),
    "triangle": ("e:ab e:bc e:ac", ()),
    "cyclic-triangle": ("e:ab e:bc e:ca", ()),
    "triangle-once": ("e:ab e:bc e:ca", [col.a < col.b, col.a < col.c]),
    "4-clique": ("e:ab e:ac e:ad e:bc e:bd e:cd", ()),
    "diamond": ("e:ab e:bc e:da e:dc", ()),
    "house": ("e:ab e:ac e:ad e:bc e:bd e:cd e:be e:ce", ()),
    "both-ways": ("e:ab e:ba", ()),
    "twice-the-same": ("e:ab e:ab e:bc", ()),
    "loop": ("e:aa e:ab", ()),
    "two-relations": ("e:ab f:bc e:ca", ()),
    "with-nodes": ("v:a e:ab v:b", ()),
    "nodes": ("v:a v:a", ()),
    "triples": ("t:abc t:abd t:acd", ()),
    "triples-and-edges": ("t:abc e:ad e:dc", ()),
    "half-known-triples": ("e:ab t:bcd e:da", ()),
    "unconnected": ("v:a v:b", ()),
    "wide": ("w:ab w:bc w:ac", ()),
}


def motif(name: str, variant: Variant = "least") -> Collection:
    words, where = MOTIFS[name]
    pairs = [word.split(":") for word in words.split()]
    return delta_query([Atom(RELATIONS[relation], tuple(names)) for relation, names in pairs], where, variant)
