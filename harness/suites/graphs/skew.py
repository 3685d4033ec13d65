"""Loads of virtual shards by BiGJoin and BiGJoin-S, in graphs with and without skew."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing

import numpy as np

from deltamark.harness.results.record import Figures, TableRow
from deltamark.harness.suites.graphs.counting import BY_BIGJOIN, agree
from deltamark.harness.suites.graphs.graph_data import Edges
from deltamark.harness.suites.graphs.hypercube import copies, edge_cover
from deltamark.harness.suites.graphs.load_simulation.simulation import ALGORITHMS, ShardedMotif
from deltamark.harness.suites.graphs.motif_runs import bigjoin_of, relations_of
from deltamark.queries.graph.motifs import MOTIFS
from deltamark.queries.graph.pattern import Pattern

SHARDS = 16
KINDS = ("index", "proposals", "lookups", "messages")
SIZES = (16, 256, 4096)
"""Numbers of shards for which the formula of Shares is evaluated."""

MAX_SCALE = 13
"""The largest rmat:S and zipf:S whose loads are measured: the simulation is slow."""


def planted(scale: int, hub: int) -> list[str]:
    """Return the names of three graphs with planted skew, of one without skew, and of an R-MAT graph."""
    small = min(scale, MAX_SCALE)
    return [f"star:{hub}", f"hub:{hub}", f"zipf:{small}", f"grid:{math.isqrt(hub)}", f"rmat:{small}"]


def sharded_of(pattern: Pattern, edges: Edges) -> ShardedMotif:
    """Return the simulation of a motif on shards, before its indexes are loaded."""
    return ShardedMotif(pattern.over(relations_of(edges)), pattern.smaller)


def loads(edges: Edges, name: str, pattern: Pattern, *, shards: int, batch: int) -> Iterator[TableRow]:
    """Count a motif by both algorithms, compare with BiGJoin without shards, and yield the loads of the shards."""
    with closing(bigjoin_of(pattern, edges)) as one:
        one.load({"e": edges.batch()})
        expected = one.count()
    motif = sharded_of(pattern, edges)
    motif.load({"e": edges.batch()})
    plain: Figures = {}
    for algorithm in ALGORITHMS:
        run = motif.run(algorithm, shards=shards, batch=batch)
        matches = run.count()
        agree(name, edges, matches, (BY_BIGJOIN, expected))
        load = run.shown.load
        figures: Figures = {
            "found": [matches], "edges": [len(edges)], "shards": [shards], "batch": [batch],
            "rounds": [run.shown.rounds], "busiest": [load.busiest],
        }  # fmt: skip
        for kind in KINDS:
            each = getattr(load, kind)
            figures |= {f"{kind}_most": [int(each.max())], f"{kind}_all": [int(each.sum())]}
        plain = plain or {f"{kind}_plain": figures[f"{kind}_all"] for kind in KINDS}
        yield TableRow(f"{edges.name}: {algorithm}", figures | plain)


def shares() -> Iterator[TableRow]:
    """Yield the number of copies of an edge on all shards by the formula of Shares, and the number of our indexes."""
    edges = Edges("any", np.arange(2), np.arange(2))
    for name, pattern in MOTIFS.items():
        atoms = [variables for _, variables in pattern.atoms]
        figures: Figures = {"cover": [edge_cover(atoms)], "indexes": [sharded_of(pattern, edges).indexes]}
        yield TableRow(name, figures | {f"held_{each}": [copies(atoms, each)] for each in SIZES})
