"""The partitionings of BiGJoin and of BiGJoin-S over virtual shards, and the load that they give each shard.

An index lies on all shards together: its rows are hashed to their owners. A partitioning knows which shard owns what,
and counts the messages of every step; the rows themselves stay in one process (virtual_shards.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

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
