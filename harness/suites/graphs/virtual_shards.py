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
from dataclasses import dataclass, field
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
from deltamark.harness.tables.suites import KINDS, SIZES
from deltamark.queries.graph.motifs import MOTIFS
from deltamark.queries.graph.pattern import Pattern

SEED = 0x9E3779B97F4A7C15
ODD = np.uint64(0xD6E8FEB86659FD93)
HALF = np.uint64(32)


class SortedIndex:
    """Distinct rows, sorted by the key columns and then by the value column."""

    def __init__(self, keys: Sequence[np.ndarray], values: np.ndarray, weights: np.ndarray, base: int) -> None:
        self._base = base
        self._pairs: list[np.ndarray] = []
        ids, size = (keys[0], base) if keys else (np.zeros(len(values), np.int64), 1)
        for column in keys[1:]:
            known, ids = np.unique(ids * base + column, return_inverse=True)
            self._pairs.append(known)
            size = len(known)
        order = np.lexsort([values, ids])
        self._starts = np.zeros(size + 1, np.int64)
        np.cumsum(np.bincount(ids, minlength=size), out=self._starts[1:])
        self._rows = (ids * base + values)[order]
        self.keys = [each[order] for each in keys]
        self.values, self.weights = values[order], weights[order]

    def __len__(self) -> int:
        return len(self.values)

    def firsts(self) -> np.ndarray:
        """Return the position of the first row of each key."""
        return self._starts[:-1][np.diff(self._starts) > 0]

    def words(self) -> np.ndarray:
        """Return the hash of the key of each row."""
        return words(self.keys, len(self))

    def find(self, keys: Sequence[np.ndarray], size: int) -> np.ndarray:
        """Return the numbers of keys; -1 for absent keys."""
        if not keys:
            return np.zeros(size, np.int64)
        ids = keys[0]
        for known, column in zip(self._pairs, keys[1:], strict=True):
            ids = _places(known, np.where(ids < 0, -1, ids * self._base + column))
        return ids

    def ranges(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first position and the end of the rows of keys."""
        return self._starts[ids], np.where(ids < 0, self._starts[ids], self._starts[ids + 1])

    def places(self, ids: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the positions of rows with these keys and values; -1 for absent rows."""
        return _places(self._rows, np.where(ids < 0, -1, ids * self._base + values))


def _places(known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    if not len(known):
        return np.full(len(wanted), -1)
    place = np.searchsorted(known, wanted)
    place[place == len(known)] = 0
    return np.where(known[place] == wanted, place, -1)


def words(columns: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Hash rows to 64-bit words."""
    found = np.full(size, SEED, np.uint64)
    for column in columns:
        found = mixed(found, column)
    return found


def mixed(word: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Combine hashes with one more column."""
    found = (word ^ more.astype(np.uint64)) * ODD
    found = (found ^ found >> HALF) * ODD
    return found ^ found >> HALF


@dataclass
class ShardLoads:
    """The work of each shard.

    index: stored entries. proposals: candidates made. lookups: requests answered. messages: sent to or received from
    other shards. busiest: the most messages that one shard has received in one step; all shards wait for the end of a
    step.
    """

    shards: int
    index: np.ndarray = field(init=False)
    proposals: np.ndarray = field(init=False)
    lookups: np.ndarray = field(init=False)
    messages: np.ndarray = field(init=False)
    busiest: int = 0

    def __post_init__(self) -> None:
        self.index, self.proposals, self.lookups, self.messages = np.zeros((4, self.shards), np.int64)

    def move(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Record a step of messages between shards; return the number of messages that each shard receives."""
        received = np.bincount(target, minlength=self.shards)
        self.busiest = max(self.busiest, int(received.max()))
        away = source != target
        for end in (source, target):
            self.messages += np.bincount(end[away], minlength=self.shards)
        return received


@dataclass(frozen=True)
class DealtWork:
    """Pieces of work: the prefix, the range of its extensions, and the shard."""

    which: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    target: np.ndarray


class PrefixPartitioning:
    """The partitioning of BiGJoin: all extensions of a prefix are on one shard."""

    def __init__(self, shards: int, levels: int) -> None:
        self.shards, self.load = shards, ShardLoads(shards)
        self._next_shards = np.tile(np.arange(shards), (levels, 1))

    def store(self, index: SortedIndex) -> None:
        """Spread an index over the shards."""
        self._add(self.load.index, index.words())

    def home(self, word: np.ndarray, last: np.ndarray) -> np.ndarray:  # noqa: ARG002 (all extensions are together)
        """Return the shards that have the extensions of prefixes. last: their numbers or values."""
        return owner(word, self.shards)

    def is_ready(self, left: np.ndarray, batch: int) -> bool:
        """Return whether to run a level, given the number of waiting proposals on each shard."""
        return bool(left.max() >= batch)

    def count(self, at: np.ndarray, word: np.ndarray) -> np.ndarray:
        """Look up the number of extensions of prefixes; return the shards of the prefixes afterwards."""
        target = owner(word, self.shards)
        self.load.lookups += self.load.move(at, target)
        return target

    def resolve(self, at: np.ndarray, word: np.ndarray, number: np.ndarray, index: np.ndarray) -> None:
        """Look up extensions by their numbers: here there is nothing to do, for a prefix is on their shard."""

    def validate(self, at: np.ndarray, word: np.ndarray, value: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """Look up whether prefixes have extensions; return the shards of the candidates afterwards."""
        return self.count(at, word)

    def settle(self, level: int, at: np.ndarray, word: np.ndarray, work: np.ndarray) -> DealtWork:  # noqa: ARG002
        """Move prefixes to the shards that will make their proposals."""
        target = owner(word, self.shards)
        self.load.move(at, target)
        return DealtWork(np.arange(len(at)), np.zeros(len(at), np.int64), work, target)

    def _add(self, load: np.ndarray, word: np.ndarray) -> None:
        """Add a unit of load to the owner of each word."""
        load += np.bincount(owner(word, self.shards), minlength=self.shards)


class BalancedPartitioning(PrefixPartitioning):
    """The partitioning of BiGJoin-S: extensions are spread over all shards, and found by their numbers and values."""

    def store(self, index: SortedIndex) -> None:
        word = index.words()
        for each in (word[index.firsts()], mixed(word, np.arange(len(index))), mixed(word, index.values)):
            self._add(self.load.index, each)

    def home(self, word: np.ndarray, last: np.ndarray) -> np.ndarray:
        return owner(mixed(word, last), self.shards)

    def is_ready(self, left: np.ndarray, batch: int) -> bool:
        return bool(left.min() >= batch)

    def count(self, at: np.ndarray, word: np.ndarray) -> np.ndarray:
        self._request(at, word, np.zeros_like(at))
        return at

    def resolve(self, at: np.ndarray, word: np.ndarray, number: np.ndarray, index: np.ndarray) -> None:
        self._request(at, mixed(word, number), index)

    def validate(self, at: np.ndarray, word: np.ndarray, value: np.ndarray) -> np.ndarray:
        return self.count(at, mixed(word, value))

    def settle(self, level: int, at: np.ndarray, word: np.ndarray, work: np.ndarray) -> DealtWork:  # noqa: ARG002
        pieces, self._next_shards[level] = dealt(at, work, self._next_shards[level])
        self.load.move(at[pieces.which], pieces.target)
        return pieces

    def _request(self, at: np.ndarray, word: np.ndarray, index: np.ndarray) -> None:
        """Send the requests of each shard to their owners, equal ones (by 64-bit hash) once, and the replies back."""
        _, first = np.unique(mixed(word, at + self.shards * index), return_index=True)
        owners, senders = owner(word[first], self.shards), at[first]
        self.load.lookups += self.load.move(senders, owners)
        self.load.move(owners, senders)


def owner(word: np.ndarray, shards: int) -> np.ndarray:
    return (word >> np.uint64(33)).astype(np.int64) % shards


def dealt(source: np.ndarray, work: np.ndarray, next_shards: np.ndarray) -> tuple[DealtWork, np.ndarray]:
    """Cut the work of each source, at least 1 per prefix, into equal pieces for all shards.

    Sizes of pieces differ by at most one. next_shards[source] is the first shard to get one more, and the first shard
    after the last one is returned for the next call: so the totals that a source deals to two shards differ by at most
    one.
    """
    shards = len(next_shards)
    order = np.argsort(source.astype(np.uint16), kind="stable")
    begins = np.cumsum(work[order]) - work[order]
    whole = np.bincount(source, work, shards).astype(np.int64)
    sizes = (whole[:, None] // shards + (np.arange(shards) < whole[:, None] % shards)).ravel()
    targets = ((next_shards[:, None] + np.arange(shards)) % shards).ravel()[sizes > 0]
    pieces = (np.cumsum(sizes) - sizes)[sizes > 0]
    cuts = np.unique(np.concatenate([begins, pieces]))
    prefix, piece = (np.searchsorted(each, cuts, side="right") - 1 for each in (begins, pieces))
    stops = np.append(cuts[1:], whole.sum())[: len(cuts)]
    pieces_of_work = DealtWork(order[prefix], cuts - begins[prefix], stops - begins[prefix], targets[piece])
    return pieces_of_work, (next_shards + whole) % shards


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
