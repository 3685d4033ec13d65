"""Two ways to spread BiGJoin over shards, and what each makes the shards do.

ByPrefix is BiGJoin: a shard has all extensions of the prefixes that hash to it, and prefixes and candidates travel to
the shards that have what they ask for. So a key that many ask for, or with many extensions, is one shard's burden.

Balanced is BiGJoin-S. Extensions are spread by three indexes: how many a prefix has, by hash of the prefix; the k-th
one, by hash of prefix and k; whether one is there, by hash of prefix and extension. A shard keeps its candidates and
asks, once for all that are equal; and what is to be proposed for new prefixes each shard deals evenly to all shards.

Shards are virtual: all of it is one process, where only the accounts are kept apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from deltamark.harness.suites.graphs.load_simulation.sorted_index import Index, mixed


@dataclass
class Load:
    """What each shard has had to do.

    index: entries that it stores. proposals: candidates that it has made. lookups: questions that it has answered.
    messages: what went from it to another shard, or came from one. busiest: the most that has come to one shard in one
    step, which no shard leaves before the others.
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
        """Take down a step in which one thing each goes from shard to shard; return how many came where."""
        came = np.bincount(target, minlength=self.shards)
        self.busiest = max(self.busiest, int(came.max()))
        away = source != target
        for end in (source, target):
            self.messages += np.bincount(end[away], minlength=self.shards)
        return came


@dataclass(frozen=True)
class Dealt:
    """Pieces of work: of which one, from where to where, for which shard."""

    which: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    target: np.ndarray


class Way(ABC):
    def __init__(self, shards: int, levels: int) -> None:
        self.shards, self.load = shards, Load(shards)
        self._turns = np.tile(np.arange(shards), (levels, 1))

    @abstractmethod
    def store(self, index: Index) -> None:
        """Spread an index."""

    @abstractmethod
    def home(self, word: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Return which shards have the extensions, numbers or values, of prefixes."""

    @abstractmethod
    def is_ready(self, left: np.ndarray, batch: int) -> bool:
        """Is a level with so many proposals left on each shard to run?"""

    @abstractmethod
    def count(self, at: np.ndarray, word: np.ndarray) -> np.ndarray:
        """Ask how many extensions prefixes have; return where the prefixes are then."""

    @abstractmethod
    def resolve(self, at: np.ndarray, word: np.ndarray, number: np.ndarray, index: np.ndarray) -> None:
        """Ask indexes for extensions by their numbers."""

    @abstractmethod
    def validate(self, at: np.ndarray, word: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Ask if prefixes have extensions; return where the candidates are then."""

    @abstractmethod
    def settle(self, level: int, at: np.ndarray, word: np.ndarray, work: np.ndarray) -> Dealt:
        """Bring prefixes to the shards that will make their proposals."""


class ByPrefix(Way):
    def store(self, index: Index) -> None:
        self.load.index += np.bincount(self._owner(index.words()), minlength=self.shards)

    def home(self, word: np.ndarray, last: np.ndarray) -> np.ndarray:  # noqa: ARG002 (all extensions are together)
        return self._owner(word)

    def is_ready(self, left: np.ndarray, batch: int) -> bool:
        return bool(left.max() >= batch)

    def count(self, at: np.ndarray, word: np.ndarray) -> np.ndarray:
        owner = self._owner(word)
        self.load.lookups += self.load.move(at, owner)
        return owner

    def resolve(self, at: np.ndarray, word: np.ndarray, number: np.ndarray, index: np.ndarray) -> None:
        """Do nothing: prefixes are where their extensions are."""

    def validate(self, at: np.ndarray, word: np.ndarray, value: np.ndarray) -> np.ndarray:  # noqa: ARG002
        return self.count(at, word)

    def settle(self, level: int, at: np.ndarray, word: np.ndarray, work: np.ndarray) -> Dealt:  # noqa: ARG002
        owner = self._owner(word)
        self.load.move(at, owner)
        return Dealt(np.arange(len(at)), np.zeros(len(at), np.int64), work, owner)

    def _owner(self, word: np.ndarray) -> np.ndarray:
        return owner(word, self.shards)


class Balanced(Way):
    def store(self, index: Index) -> None:
        word = index.words()
        numbers = np.arange(len(index))
        for each in (word[index.firsts()], mixed(word, numbers), mixed(word, index.values)):
            self.load.index += np.bincount(owner(each, self.shards), minlength=self.shards)

    def home(self, word: np.ndarray, last: np.ndarray) -> np.ndarray:
        return owner(mixed(word, last), self.shards)

    def is_ready(self, left: np.ndarray, batch: int) -> bool:
        return bool(left.min() >= batch)

    def count(self, at: np.ndarray, word: np.ndarray) -> np.ndarray:
        self._ask(at, word, np.zeros_like(at))
        return at

    def resolve(self, at: np.ndarray, word: np.ndarray, number: np.ndarray, index: np.ndarray) -> None:
        self._ask(at, mixed(word, number), index)

    def validate(self, at: np.ndarray, word: np.ndarray, value: np.ndarray) -> np.ndarray:
        self._ask(at, mixed(word, value), np.zeros_like(at))
        return at

    def settle(self, level: int, at: np.ndarray, word: np.ndarray, work: np.ndarray) -> Dealt:  # noqa: ARG002
        pieces, self._turns[level] = dealt(at, work, self._turns[level])
        self.load.move(at[pieces.which], pieces.target)
        return pieces

    def _ask(self, at: np.ndarray, word: np.ndarray, index: np.ndarray) -> None:
        """Send each shard's questions to those who know, equal ones (of 64 bits) once, and the answers back."""
        _, first = np.unique(mixed(word, at + self.shards * index), return_index=True)
        knows, asks = owner(word[first], self.shards), at[first]
        self.load.lookups += self.load.move(asks, knows)
        self.load.move(knows, asks)


def owner(word: np.ndarray, shards: int) -> np.ndarray:
    return (word >> np.uint64(33)).astype(np.int64) % shards


def dealt(source: np.ndarray, work: np.ndarray, turns: np.ndarray) -> tuple[Dealt, np.ndarray]:
    """Cut the work of each source, 1 or more of each prefix, into equal pieces for all shards.

    What cannot be equal differs by one; who is next to have one more, or the beginning, is turns[source], and is
    returned for the next time: so of all that a source ever deals no shard gets two more than another.
    """
    shards = len(turns)
    order = np.argsort(source.astype(np.uint16), kind="stable")
    begins = np.cumsum(work[order]) - work[order]
    whole = np.bincount(source, work, shards).astype(np.int64)
    sizes = (whole[:, None] // shards + (np.arange(shards) < whole[:, None] % shards)).ravel()
    targets = ((turns[:, None] + np.arange(shards)) % shards).ravel()[sizes > 0]
    pieces = (np.cumsum(sizes) - sizes)[sizes > 0]
    cuts = np.unique(np.concatenate([begins, pieces]))
    prefix, piece = (np.searchsorted(each, cuts, side="right") - 1 for each in (begins, pieces))
    stops = np.append(cuts[1:], whole.sum())[: len(cuts)]
    found = Dealt(order[prefix], cuts - begins[prefix], stops - begins[prefix], targets[piece])
    return found, (turns + whole) % shards
