"""A simulation of BiGJoin over virtual shards, which counts motifs of static relations and the load of each shard.

It shows the balance of a distributed run, and is slow; dataflow.motifs.static counts motifs fast. The loads of BiGJoin
and BiGJoin-S are compared in graphs with and without skew, and with the formula of the Shares (Hypercube) algorithm,
which sends rows wherever a match might be.

Prefixes wait at levels, and are extended in batches, in rounds. A round runs the last level that is ready: one shard
has BATCH waiting proposals (BiGJoin), or all shards have (BiGJoin-S). Each shard makes up to BATCH proposals there. If
no level is ready, each shard takes its next BATCH rows of the first atom; when none are left, the last level with any
work runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

import numpy as np

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.motif import Atom
from deltamark.dataflow.motifs.static import extensions
from deltamark.dataflow.operators.errors import wide_weight
from deltamark.dataflow.operators.extend import Extend
from deltamark.dataflow.operators.node import Node
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.errors import DeltamarkError, unknown
from deltamark.harness.measure.client import CellReply
from deltamark.harness.results.record import Figures
from deltamark.harness.suites.graphs.counting import BY_BIGJOIN, agree, bigjoin_of, relations_of
from deltamark.harness.suites.graphs.graph_data import Edges
from deltamark.harness.suites.graphs.partitioning import (
    BalancedPartitioning,
    PrefixPartitioning,
    ShardLoads,
    SortedIndex,
    words,
)
from deltamark.harness.tables.graphs import KINDS, SIZES
from deltamark.queries.graph.motifs import MOTIFS
from deltamark.queries.graph.pattern import Pattern

WeightedRows = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Rows, their multiplicities, and their shards."""


@dataclass(frozen=True)
class LevelIndex:
    """An index that a level extends by, and the columns of a prefix that are its key."""

    columns: tuple[int, ...]
    index: SortedIndex

    def words(self, rows: np.ndarray) -> np.ndarray:
        return words(self._key(rows), len(rows))

    def find(self, rows: np.ndarray) -> np.ndarray:
        return self.index.find(self._key(rows), len(rows))

    def _key(self, rows: np.ndarray) -> list[np.ndarray]:
        return [rows[:, each] for each in self.columns]


@dataclass(frozen=True)
class ExtensionLevel:
    """An extension to rows of the columns `after`. bound: the column that already has the value, or -1."""

    after: tuple[str, ...]
    bound: int
    parts: Sequence[LevelIndex]
    smaller: Sequence[tuple[int, int]]

    def kept(self, found: WeightedRows) -> WeightedRows:
        """Keep the rows that fulfil the order conditions."""
        rows, weight, at = found
        keep = np.ones(len(rows), bool)
        for small, large in self.smaller:
            keep &= rows[:, small] < rows[:, large]
        return rows[keep], weight[keep], at[keep]


@dataclass(frozen=True)
class WaitingPrefixes:
    """Prefixes that wait at shards. The rows start..stop of the index number `which` are still to be proposed."""

    rows: np.ndarray
    weight: np.ndarray
    which: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    at: np.ndarray

    @classmethod
    def none(cls, width: int) -> WaitingPrefixes:
        return cls(np.zeros((0, width), np.int64), *(np.zeros(0, np.int64) for _ in range(5)))

    def __len__(self) -> int:
        return len(self.at)

    def some(self, chosen: np.ndarray) -> WaitingPrefixes:
        return WaitingPrefixes(*(each[chosen] for each in vars(self).values()))

    def with_more(self, more: WaitingPrefixes) -> WaitingPrefixes:
        return WaitingPrefixes(*map(np.concatenate, zip(vars(self).values(), vars(more).values(), strict=True)))

    def left(self, shards: int) -> np.ndarray:
        """Return the number of waiting proposals on each shard."""
        return np.bincount(self.at, self.stop - self.start, shards).astype(np.int64)

    def cut(self, batch: int) -> tuple[WaitingPrefixes, WaitingPrefixes]:
        """Split off up to `batch` proposals on each shard; return them and the rest."""
        ordered = self.some(np.argsort(self.at.astype(np.uint16), kind="stable"))
        work = ordered.stop - ordered.start
        before = np.cumsum(work) - work
        before -= before[np.searchsorted(ordered.at, ordered.at)]
        middle = ordered.start + np.clip(batch - before, 0, work)
        parts = [(ordered.start, middle), (middle, ordered.stop)]
        now, rest = (WaitingPrefixes(ordered.rows, ordered.weight, ordered.which, *each, ordered.at) for each in parts)
        return now.some(now.stop > now.start), rest.some(rest.stop > rest.start)


class ShardedRun:
    """One run of an algorithm: count once, then read its costs."""

    def __init__(
        self, scheme: PrefixPartitioning, seed: ExtensionLevel, levels: Sequence[ExtensionLevel], batch: int
    ) -> None:
        self._scheme, self._seed, self._levels, self._batch = scheme, seed, levels, batch
        before = [seed, *levels][: len(levels)]
        self._held = [WaitingPrefixes.none(len(each.after)) for each in before]
        self._left = np.zeros((len(levels), scheme.shards), np.int64)
        self.rounds = 0

    @property
    def load(self) -> ShardLoads:
        return self._scheme.load

    def count(self) -> int:
        """Count the matches."""
        return sum(_exact(weight) for _, weight, _ in self._found())

    def _found(self) -> Iterator[WeightedRows]:
        for found in self._seeds():
            yield from self._handed_on(0, found)
            while (level := last_ready(self._scheme, self._left, self._batch)) >= 0:
                yield from self._handed_on(level + 1, self._extended(level))
        while self._left.any():
            level = last_ready(self._scheme, self._left, self._batch)
            if level < 0:
                level = int(np.flatnonzero(self._left.any(axis=1)).max())
            yield from self._handed_on(level + 1, self._extended(level))

    def _handed_on(self, number: int, found: WeightedRows) -> Iterator[WeightedRows]:
        """Pass rows on to a level; yield them after the last one."""
        if number < len(self._levels):
            self._admit(number, found)
        else:
            yield found

    def _seeds(self) -> Iterator[WeightedRows]:
        """Yield the rows of the first atom, up to a batch per shard at a time."""
        (part,) = self._seed.parts
        index = part.index
        at = self._scheme.home(index.words(), np.arange(len(index)))
        order = np.argsort(at, kind="stable")
        turn = (np.arange(len(at)) - np.searchsorted(at[order], at[order])) // self._batch
        rows = np.column_stack([*index.keys, index.values])
        for now in np.split(order[np.argsort(turn, kind="stable")], np.cumsum(np.bincount(turn))[:-1]):
            self._scheme.load.proposals += np.bincount(at[now], minlength=self._scheme.shards)
            yield self._seed.kept((rows[now], index.weights[now], at[now]))

    def _admit(self, number: int, found: WeightedRows) -> None:
        """Count the extensions of rows, and queue the rows that have any."""
        rows, weight, at = found
        level = self._levels[number]
        which, first, fewest = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64), np.full(len(at), 1 << 62)
        for each, part in enumerate(level.parts):
            at = self._scheme.count(at, part.words(rows))
            start, stop = part.index.ranges(part.find(rows))
            less = stop - start < fewest
            which, first, fewest = (
                np.where(less, new, old) for new, old in ((each, which), (start, first), (stop - start, fewest))
            )
            some = stop > start
            rows, weight, at, which, first, fewest = (old[some] for old in (rows, weight, at, which, first, fewest))
        if level.bound >= 0:
            first, fewest = np.zeros_like(first), np.ones_like(fewest)
        word = np.zeros(len(at), np.uint64)
        for each, part in enumerate(level.parts):
            word = np.where(which == each, part.words(rows), word)
        pieces = self._scheme.settle(number, at, word, fewest)
        of = pieces.which
        more = WaitingPrefixes(
            rows[of], weight[of], which[of], first[of] + pieces.start, first[of] + pieces.stop, pieces.target
        )
        self._held[number] = self._held[number].with_more(more)
        self._left[number] += more.left(self._scheme.shards)

    def _extended(self, number: int) -> WeightedRows:
        """Make a batch of proposals at a level, and validate them by all other indexes."""
        level = self._levels[number]
        self.rounds += 1
        now, self._held[number] = self._held[number].cut(self._batch)
        proposed = now.left(self._scheme.shards)
        self._left[number] -= proposed
        self._scheme.load.proposals += proposed
        many = now.stop - now.start
        prefix = np.repeat(np.arange(len(now)), many)
        place = np.arange(len(prefix)) + np.repeat(now.start - (np.cumsum(many) - many), many)
        all_of = WaitingPrefixes(*(each[prefix] for each in vars(now).values()))
        rows, weight, at, which = all_of.rows, all_of.weight, all_of.at, all_of.which
        if level.bound >= 0:
            value, proposer = rows[:, level.bound], np.full(len(at), -1)
        else:
            value, weight, proposer = *self._resolved(level, all_of, place), which
        for each, part in enumerate(level.parts):
            others = proposer != each
            at = at.copy()
            at[others] = self._scheme.validate(at[others], part.words(rows[others]), value[others])
            place = part.index.places(part.find(rows), value)
            exists = place >= 0
            rows, weight, at, value, proposer = (old[exists] for old in (rows, weight, at, value, proposer))
            weight = _times(weight, np.where(others[exists], part.index.weights[place[exists]], 1))
        return level.kept((rows if level.bound >= 0 else np.column_stack([rows, value]), weight, at))

    def _resolved(self, level: ExtensionLevel, of: WaitingPrefixes, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the proposed values, and the weights multiplied by theirs."""
        value, weight, index = np.zeros(len(place), np.int64), of.weight.copy(), np.zeros(len(place), np.int64)
        word = np.zeros(len(place), np.uint64)
        indexes = [part.index for part in level.parts]
        for each, part in enumerate(level.parts):
            mine = of.which == each
            word[mine], index[mine] = part.words(of.rows[mine]), indexes.index(part.index)
            value[mine] = part.index.values[place[mine]]
            weight[mine] = _times(weight[mine], part.index.weights[place[mine]])
        self._scheme.resolve(of.at, word, place, index)
        return value, weight


def last_ready(scheme: PrefixPartitioning, left: np.ndarray, batch: int) -> int:
    """Return the last ready level, given the waiting proposals by level and shard; -1 if none is ready."""
    return max((number for number, each in enumerate(left) if scheme.is_ready(each, batch)), default=-1)


def _times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if (np.abs(a * b.astype(float)) >= 2.0**63).any():
        raise wide_weight()
    return a * b


def _exact(weights: np.ndarray) -> int:
    """Sum numbers without overflow."""
    return (int((weights >> 32).sum()) << 32) + int((weights & 0xFFFFFFFF).sum())


Algorithm = Literal["bigjoin", "bigjoin-s"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
SCHEMES: Mapping[Algorithm, type[PrefixPartitioning]] = {
    "bigjoin": PrefixPartitioning,
    "bigjoin-s": BalancedPartitioning,
}

BATCH = 1000
"""Proposals of a shard per round. With w shards the bounds of BiGJoin-S hold from w * max(w, log(IN * MaxOut)) on."""

MAX_SHARDS = 1 << 10


class ShardedMotif:
    """The indexes of a motif: load all rows, then run either algorithm any number of times.

    smaller: pairs of variables, the first of which must be smaller.
    """

    def __init__(self, atoms: Sequence[Atom], smaller: Sequence[tuple[str, str]] = ()) -> None:
        _, found = extensions(atoms)
        self._plans, self._smaller = [each.node for each in found if isinstance(each.node, Extend)], smaller
        self._index_keys = {(index.rows, index.keys, index.value) for plan in self._plans for index in plan.indexes}
        self._indexes: dict[tuple[int, tuple[str, ...], str], SortedIndex] = {}

    @property
    def indexes(self) -> int:
        """The number of indexes, each of all rows of a relation."""
        return len(self._index_keys)

    def load(self, batches: Mapping[str, Batch]) -> None:
        """Number the values of the relations, and index their rows."""
        rows = {of: _rows(of, batches) for of, _, _ in self._index_keys}
        columns = [column for each in rows.values() for column in each.columns.values()]
        values = np.unique(np.concatenate(columns))
        for of, keys, value in self._index_keys:
            codes = {name: np.searchsorted(values, column) for name, column in rows[of].columns.items()}
            index = SortedIndex([codes[each] for each in keys], codes[value], rows[of].diff, max(len(values), 1))
            self._indexes[id(of), keys, value] = index

    def run(self, algorithm: Algorithm, *, shards: int, batch: int = BATCH) -> ShardedRun:
        """Prepare a run."""
        if algorithm not in SCHEMES:
            raise unknown("algorithm", algorithm, SCHEMES)
        if not 1 <= shards <= MAX_SHARDS or batch < 1:
            next_step = f"give 1 to {MAX_SHARDS} shards, and batches of at least 1"
            raise DeltamarkError("no such shards", f"{shards}, batches of {batch}", next_step)
        seed, *levels = [self._level(each) for each in self._plans]
        scheme = SCHEMES[algorithm](shards, len(levels))
        for each in self._indexes.values():
            scheme.store(each)
        return ShardedRun(scheme, seed, levels, batch)

    def _level(self, plan: Extend) -> ExtensionLevel:
        columns, new = plan.rows.schema.names, plan.column
        found = [
            LevelIndex(tuple(map(columns.index, each.row_keys)), self._indexes[id(each.rows), each.keys, each.value])
            for each in plan.indexes
        ]
        after = columns if new in columns else (*columns, new)
        smaller = [
            (after.index(small), after.index(large))
            for small, large in self._smaller
            if new in (small, large) and {small, large} <= set(after)
        ]
        return ExtensionLevel(after, columns.index(new) if new in columns else -1, found, smaller)


def _rows(of: Node, batches: Mapping[str, Batch]) -> Batch:
    """Compute a relation without duplicate rows."""
    with closing(Dataflow(Collection(of))) as worker:
        found = worker.feed({
            name: Batch(np.zeros_like(each.time), each.diff, each.columns)
            for name, each in batches.items()
            if name in worker.inputs
        })  # fmt: skip
    if (found.diff < 0).any():
        row = [int(column[found.diff.argmin()]) for column in found.columns.values() if isinstance(column, np.ndarray)]
        raise DeltamarkError("a negative multiplicity", row, "retract only what was inserted before")
    return found


def edge_cover(atoms: Iterable[Sequence[str]]) -> float:
    """Return the fractional edge cover number of atoms of one or two variables.

    By duality it is the largest sum of weights of variables such that the weights in each atom sum to at most 1. For
    atoms of two variables some optimal weights are multiples of one half.
    """
    pairs = [sorted(set(each)) for each in atoms]
    variables = sorted({name for each in pairs for name in each})
    place = {name: at for at, name in enumerate(variables)}
    limits = [[place[name] for name in each] for each in pairs]
    halves = product(range(3), repeat=len(variables))
    return max(sum(each) for each in halves if all(sum(each[at] for at in limit) <= 2 for limit in limits)) / 2


def copies(atoms: Sequence[Sequence[str]], shards: int) -> float:
    """Return the number of copies of the relation on all shards together, if every atom reads the same relation."""
    return len(atoms) * shards ** (1 - 1 / edge_cover(atoms))


SHARDS = 16

MAX_SCALE = 13
"""The largest rmat:S and zipf:S whose loads are measured: the simulation is slow."""


def planted(scale: int, hub: int) -> list[str]:
    """Return the names of three graphs with planted skew, of one without skew, and of an R-MAT graph."""
    small = min(scale, MAX_SCALE)
    return [f"star:{hub}", f"hub:{hub}", f"zipf:{small}", f"grid:{math.isqrt(hub)}", f"rmat:{small}"]


def sharded_of(pattern: Pattern, edges: Edges) -> ShardedMotif:
    """Return the simulation of a motif on shards, before its indexes are loaded."""
    return ShardedMotif(pattern.over(relations_of(edges)), pattern.smaller)


def loads(
    edges: Edges, name: str, pattern: Pattern, *, shards: int = SHARDS, batch: int = BATCH
) -> Iterator[CellReply]:
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
        load = run.load
        figures: Figures = {
            "found": [matches], "edges": [len(edges)], "shards": [shards], "batch": [batch],
            "rounds": [run.rounds], "busiest": [load.busiest],
        }  # fmt: skip
        for kind in KINDS:
            each = getattr(load, kind)
            figures |= {f"{kind}_most": [int(each.max())], f"{kind}_all": [int(each.sum())]}
        plain = plain or {f"{kind}_plain": figures[f"{kind}_all"] for kind in KINDS}
        yield CellReply(row=f"{edges.name}: {algorithm}", figures=figures | plain, verified=BY_BIGJOIN)


def shares() -> Iterator[CellReply]:
    """Yield the number of copies of an edge on all shards by the formula of Shares, and the number of our indexes."""
    edges = Edges("any", np.arange(2), np.arange(2))
    for name, pattern in MOTIFS.items():
        atoms = [variables for _, variables in pattern.atoms]
        figures: Figures = {"cover": [edge_cover(atoms)], "indexes": [sharded_of(pattern, edges).indexes]}
        yield CellReply(row=name, figures=figures | {f"held_{each}": [copies(atoms, each)] for each in SIZES})
