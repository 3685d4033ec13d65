"""The loads of shards by BiGJoin and BiGJoin-S, with skew and without, and what Shares would hold beside them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from dataflow.motif import Atom
from dataflow.rounds import Shown
from dataflow.sharded import ALGORITHMS, BATCH, Algorithm, Sharded
from deltamark import DeltamarkError
from harness.graphs import WORKLOADS, Edges
from harness.motifs import bigjoin_of
from harness.shares import copies, edge_cover
from harness.tables.entry import Entry, Row, Table, count, words
from queries.graph.motifs import MOTIFS
from queries.graph.pattern import Pattern

SHARDS, SHARE = 16, BATCH
KINDS = ("index", "proposals", "lookups", "messages")
LARGEST = 13
"""Of rmat:S and zipf:S where loads are shown: they are counted one by one."""


class UnequalError(DeltamarkError):
    """Two algorithms do not find the same."""


@dataclass(frozen=True)
class Loaded:
    """What an algorithm has found in a graph, and what it took."""

    edges: Edges
    algorithm: Algorithm
    found: int
    shown: Shown
    batch: int

    def total(self, kind: str) -> int:
        return int(getattr(self.shown.load, kind).sum())

    def largest(self, kind: str) -> Entry:
        """Write the largest load of a shard, and how much more than its share that is."""
        loads: np.ndarray = getattr(self.shown.load, kind)
        return Entry(f"{loads.max():,} ({loads.max() / max(loads.mean(), 1e-9):.2f}x)", float(loads.max()))


def sharded_of(pattern: Pattern, edges: Edges) -> Sharded:
    """Return what finds a motif in a graph on shards; nothing is indexed yet."""
    relation = edges.relation()
    return Sharded([Atom(relation, variables) for _, variables in pattern.atoms], pattern.smaller)


def measure(pattern: Pattern, edges: Edges, *, shards: int, batch: int) -> Iterator[Loaded]:
    """Count a motif by both algorithms, and by BiGJoin without shards."""
    whole = WORKLOADS["load"](edges, 1).batch(0, len(edges), 0)
    with closing(bigjoin_of(pattern, edges)) as one:
        one.load({"e": whole})
        expected = one.count()
    motif = sharded_of(pattern, edges)
    motif.load({"e": whole})
    for algorithm in ALGORITHMS:
        run = motif.run(algorithm, shards=shards, batch=batch)
        found = run.count()
        if found != expected:
            actual = f"{found:,} by {algorithm} on {shards} shards, {expected:,} by BiGJoin without"
            raise UnequalError("wrong number of motifs", actual, "ask DuckDB: python -m harness motif --help")
        yield Loaded(edges, algorithm, found, run.shown, batch)


def planted(scale: int, hub: int) -> list[str]:
    """Name graphs with skew, one without, and one with as much as comes of itself."""
    small = min(scale, LARGEST)
    return [f"star:{hub}", f"hub:{hub}", f"zipf:{small}", f"grid:{math.isqrt(hub)}", f"rmat:{small}"]


def loads(motif: str, graphs: Iterable[Edges], *, shards: int = SHARDS, batch: int = BATCH) -> Table:
    """Make the table of the loads of a motif in some graphs."""
    pairs = [list(measure(MOTIFS[motif], edges, shards=shards, batch=batch)) for edges in graphs]
    return loads_of(motif, pairs, shards)


def loads_of(motif: str, pairs: Sequence[Sequence[Loaded]], shards: int) -> Table:
    rows: list[Row] = [
        [
            words(each.edges.name), count(len(each.edges)), count(each.found), words(each.algorithm),
            *map(each.largest, KINDS), Entry(f"{each.shown.load.busiest / each.batch:.2f}", each.shown.load.busiest),
            count(each.shown.rounds),
        ]
        for pair in pairs for each in pair
    ]  # fmt: skip
    headers = ["graph", "edges", "found", "algorithm", *KINDS, "busiest step", "rounds"]
    batch = max(each.batch for pair in pairs for each in pair)
    notes = [
        "the largest load of a shard, and how many times the mean that is; found: equal to BiGJoin's without shards",
        f"a shard makes at most {batch:,} proposals a round; busiest step: the most that came to one shard, over that",
        "index: entries; lookups: counts, resolutions and validations; messages: what left a shard or came to it",
        *(_price(pair) for pair in pairs),
    ]
    return Table("skew", f"Loads of {shards} virtual shards: {motif}", headers, rows, notes)


def _price(pair: Sequence[Loaded]) -> str:
    plain, balanced = pair
    more = (f"{balanced.total(kind) / max(plain.total(kind), 1):.2f}x {kind}" for kind in KINDS)
    return f"BiGJoin-S over BiGJoin, all shards together, {plain.edges.name}: {', '.join(more)}"


def shares() -> Table:
    """Make the table of what Shares and ours hold, by formulas."""
    sizes = (16, 256, 4096)
    edges = Edges("any", np.arange(2), np.arange(2))
    rows: list[Row] = []
    for name, pattern in MOTIFS.items():
        atoms = [variables for _, variables in pattern.atoms]
        cover, indexes = edge_cover(atoms), sharded_of(pattern, edges).indexes
        held = (copies(atoms, each) for each in sizes)
        rows.append([
            words(name), Entry(f"{cover:g}", cover), *(Entry(f"{each:,.1f}", each) for each in held),
            count(indexes), count(3 * indexes),
        ])  # fmt: skip
    headers = ["motif", "rho*", *(f"Shares, {each} shards" for each in sizes), "BiGJoin", "BiGJoin-S, at most"]
    notes = [
        "how often each edge is held, whatever the graph; Shares by its formula: atoms * shards^(1 - 1/rho*)",
        "ours are the same on any number of shards: an entry in each index (BiGJoin), or up to three (BiGJoin-S)",
        "the paper says shards^(1/2) of triangles where it introduces Shares; its own formula gives shards^(1/3)",
    ]
    return Table("shares", "Copies of an edge that all shards hold together", headers, rows, notes)
