"""Motifs over relations that do not change: BiGJoin over the indexes that the engine keeps.

The rows of the first atom are extended by one variable after another, in batches whose size bounds what is held beside
the indexes, however many rows are found: see kernels.bigjoin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dataflow.collection import Collection
from dataflow.compile import compile_plans
from dataflow.compiled import Compiled
from dataflow.kernels import bigjoin, keymap
from dataflow.kernels import index as index_kernel
from dataflow.kernels import prefixes as kernel
from dataflow.kernels import run as vm
from dataflow.kernels.memory import Memory, view
from dataflow.motif import Atom, check_types, extended, ordered, steps, with_projections
from dataflow.operators.arrangement import wide_weight
from dataflow.operators.index import Index, Indexed
from dataflow.plan import Node
from dataflow.program import key_range, nobody
from dataflow.worker import Batch, Shard
from deltamark import DeltamarkError

BATCH = 100_000
"""Proposals of a round."""

MOST_STAMPS = 1 << 28
"""Numbers that may be stamped, 4 bytes each, where lists are compared."""

LOAD_ROWS = 1 << 14
"""Rows of a slice while relations are loaded: there are no times to tell apart."""

LONGEST = 1 << 31
"""Words of a list, which nobody knows beforehand: address space, not memory."""

RULES = (vm.EXTEND, vm.CONSOLIDATE, vm.COLLECT)
"""Operators of delta queries that are not wanted here: the indexes that they would use are."""


def extensions(atoms: Sequence[Atom]) -> tuple[tuple[str, ...], list[Collection]]:
    """Return the variables of a motif, and the first atom's rows and what they are extended to, step by step."""
    simple = [each.simple() for each in atoms]
    check_types(simple)
    atoms = with_projections(simple)
    rows = atoms[0].rows()
    found = [extended(rows, atoms[0].variables[-1], [(atoms[0], "new")], None)]
    for new, now in steps(atoms, 0)[0]:
        rows = extended(rows, new, [(atoms[each], "new") for each in now], None)
        found.append(rows)
    return ordered(simple), found


@dataclass(frozen=True)
class Shown:
    """What a run has taken. most: prefixes that each level held at most; held_bytes: memory beside the indexes."""

    rounds: int
    proposals: int
    most: tuple[int, ...]
    held_bytes: int


@dataclass(frozen=True)
class Lists:
    """Rows that are not multiplied out: prefixes, and what each variable behind them may be, whatever the others are.

    prefixes: their variables, and last how often; sizes: how many values each variable behind has for each of them;
    values: those, one variable behind the other for one prefix behind the other, each with how often it is there.
    """

    prefixes: np.ndarray
    sizes: np.ndarray
    values: np.ndarray


class Static:
    """Indexes of relations as a motif needs them: load all rows, then count or list as often as you like.

    smaller: pairs of variables, the first of which must be smaller.
    """

    def __init__(self, atoms: Sequence[Atom], smaller: Sequence[tuple[str, str]] = ()) -> None:
        self.variables, found = extensions(atoms)
        compiled = compile_plans({f"rule {number}": each.node for number, each in enumerate(found)})
        self._program = compiled.program
        self._program.ops = [each for each in self._program.ops if int(view(each.block, 1)[0]) not in RULES]
        self._program.slice_rows = LOAD_ROWS
        self._shard = Shard(compiled)
        self._seed, *self._levels = [Level.of(each.node, compiled, smaller) for each in found]
        self._last: _Run | None = None

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """The relations, and the columns that are read from them."""
        return {name: aim.names for name, aim in self._shard.inputs.items()}

    def load(self, batches: Mapping[str, Batch]) -> None:
        """Index all rows of the relations."""
        self.load_parts([batches])

    def load_parts(self, parts: Iterable[Mapping[str, Batch]]) -> None:
        """Index all rows of the relations, some at a time."""
        for batches in parts:
            self._shard.run(self._shard.checked(batches, -1), nobody, drop=True)
        self._program.pack_indexes()

    def index_bytes(self) -> int:
        return sum(map(self._program.memory.resident, self._program.state_memory()))

    def index_rows(self) -> int:
        return self._shard.state_rows()

    @property
    def shown(self) -> Shown:
        """What the last run has taken."""
        return self._last.shown() if self._last else Shown(0, 0, (), 0)

    def count(self, batch: int = BATCH, *, part: int = 0, parts: int = 1) -> int:
        """Count the ways to give values to the variables, or a part of them: all parts together are all ways."""
        run = self._run(batch, self._tail())
        run.keep(part, parts)
        listed = sum(int(rows[:, -1].sum()) for rows in run.parts())
        return run.word(kernel.TOTAL) + listed

    def rows(self, batch: int = BATCH) -> Iterator[np.ndarray]:
        """List them, some at a time: values in the order of `variables`, and last how often."""
        run = self._run(batch, len(self._levels))
        columns = (self._levels or [self._seed])[-1].after
        order = [*(columns.index(each) for each in self.variables), len(columns)]
        for rows in run.parts():
            yield rows[:, order]

    @property
    def factors(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The variables of prefixes, and those that are lists behind them."""
        levels = self._levels[self._tail() :]
        prefix = levels[0].columns if levels else (self._levels or [self._seed])[-1].after
        return prefix, tuple(each.new for each in levels)

    def lists(self, batch: int = BATCH) -> Iterator[Lists]:
        """List them without multiplying out what does not depend on each other: see `factors`."""
        run = self._run(batch, self._tail())
        prefix, _ = self.factors
        for rows, values in run.factored():
            yield Lists(rows[:, : len(prefix) + 1], rows[:, len(prefix) + 1 :], values)

    def close(self) -> None:
        self._last = None
        self._program.memory.close()

    def _run(self, batch: int, tail: int) -> _Run:
        self._last = None  # its memory goes first
        self._last = _Run(self._seed, self._levels, batch, tail)
        return self._last

    def _tail(self) -> int:
        """Return the first level from which on no variable depends on another one, and no condition on any."""
        for start, first in enumerate(self._levels):
            if all(each.is_free(set(first.columns)) for each in self._levels[start:]):
                return start
        return len(self._levels)


@dataclass(frozen=True)
class Level:
    """A step from prefixes of some columns to longer ones: the parts that extend them, and what is then required."""

    columns: tuple[str, ...]
    new: str
    parts: tuple[tuple[tuple[str, ...], Index], ...]
    smaller: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, node: Node, compiled: Compiled, smaller: Sequence[tuple[str, str]]) -> Level:
        """Read a step from the node of its plan."""
        columns, (new, parts, _) = node.inputs[0].schema.names, node.params
        found = [
            (mine, _index(compiled, of, theirs, value))
            for of, (mine, theirs, value, _) in zip(node.inputs[1:], parts, strict=True)
        ]
        known = {*columns, new}
        return cls(columns, new, tuple(found), tuple(each for each in smaller if new in each and set(each) <= known))

    @property
    def after(self) -> tuple[str, ...]:
        return self.columns if self.new in self.columns else (*self.columns, self.new)

    def is_free(self, known: set[str]) -> bool:
        """Does it depend on nothing but known columns?"""
        return self.new not in self.columns and not self.smaller and all(set(mine) <= known for mine, _ in self.parts)

    @property
    def filters(self) -> list[int]:
        return [self.after.index(name) for pair in self.smaller for name in pair]


def _index(compiled: Compiled, of: Node, keys: tuple[str, ...], value: str) -> Index:
    """Return the index of a node's rows that was compiled."""
    for part, states in compiled.states().items():
        how = getattr(part, "how", None)
        if isinstance(how, Indexed) and getattr(part, "node", None) is of and (how.keys, how.value) == (keys, value):
            return next(each for each in states if isinstance(each, Index))
    raise AssertionError(keys)


class _Run:
    """One run: the blocks of kernels.prefixes in memory of its own."""

    def __init__(self, seed: Level, levels: Sequence[Level], batch: int, tail: int) -> None:
        if batch < 1:
            raise DeltamarkError("no such batch", batch, "give at least 1")
        self._memory = Memory()
        self._levels, self._batch = levels, batch
        self._width = len((levels or [seed])[-1].after) + 1
        (_, of) = seed.parts[0]
        ids = view(int(view(of.block, index_kernel.WORDS)[index_kernel.KEYS]), keymap.WORDS)
        count = ids[keymap.NEXT] if ids[keymap.HASHED] else ids[keymap.HIGH] - ids[keymap.LOW] + 1
        stamps = max(each.numbers() for level in levels for _, each in level.parts) if levels else 0
        words = {
            kernel.BATCH: batch, kernel.LEVELS: len(levels), kernel.TAIL: tail, kernel.SEED: self._parts(seed),
            kernel.LEVEL_TABLE: self._table([word for each in levels for word in self._level(each)]),
            kernel.SEED_FILTERS: len(seed.smaller), kernel.SEED_FILTER_TABLE: self._table(seed.filters),
            kernel.SEED_IDS: int(count), kernel.OUT: self._memory.reserve(2 * batch * self._width),
            kernel.STAMPS: self._memory.reserve(stamps // 2 + 1) if stamps <= MOST_STAMPS else 0,
            kernel.ROW: self._memory.reserve(self._width), kernel.KEPT_TAIL: -1,
            **{each: self._memory.reserve(LONGEST) for each in (kernel.KEPT, kernel.SPARE, kernel.REST)},
        }  # fmt: skip
        self._block = self._table([words.get(each, 0) for each in range(kernel.WORDS)])

    def keep(self, part: int, parts: int) -> None:
        """Take in a part of the first atom's rows only: those of a range of keys."""
        words = view(self._block, kernel.WORDS)
        keys = int(words[kernel.SEED_IDS])
        words[kernel.SEED_ID], words[kernel.SEED_IDS] = keys * part // parts, keys * (part + 1) // parts

    def parts(self) -> Iterator[np.ndarray]:
        """Run; yield what is listed on the way."""
        status = kernel.FULL
        while status == kernel.FULL:
            status = bigjoin.run(self._block)
            if status == kernel.FAILED:
                raise self._problem()
            words = view(self._block, kernel.WORDS)
            rows = view(int(words[kernel.OUT]), int(words[kernel.OUT_COUNT]) * self._width)
            yield rows.reshape(-1, self._width).copy()
            words[kernel.OUT_COUNT] = 0

    def factored(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Run; yield what is listed on the way, with the values of the tail's variables."""
        words = view(self._block, kernel.WORDS)
        words[kernel.VALUES] = self._memory.reserve(LONGEST)
        for rows in self.parts():
            values = view(int(words[kernel.VALUES]), 2 * int(words[kernel.VALUE_COUNT])).reshape(-1, 2).copy()
            words[kernel.VALUE_COUNT] = 0
            yield rows, values

    def word(self, which: int) -> int:
        return int(view(self._block, kernel.WORDS)[which])

    def shown(self) -> Shown:
        most = [
            int(view(self.word(kernel.LEVEL_TABLE) + 8 * kernel.LEVEL * level, kernel.LEVEL)[kernel.MOST])
            for level in range(len(self._levels))
        ]
        held = sum(map(self._memory.resident, self._memory.reservations()))
        return Shown(self.word(kernel.ROUNDS), self.word(kernel.PROPOSALS), tuple(most), held)

    def _problem(self) -> DeltamarkError:
        if self.word(kernel.ERROR) == kernel.TOO_HEAVY:
            return wide_weight()
        raise AssertionError("a level held more than two batches of prefixes")

    def _table(self, words: Sequence[int]) -> int:
        address = self._memory.reserve(max(len(words), 1))
        view(address, len(words))[:] = words
        return address

    def _level(self, level: Level) -> list[int]:
        records = self._memory.reserve(2 * self._batch * (len(level.columns) + kernel.BEHIND))
        bound = level.columns.index(level.new) if level.new in level.columns else -1
        return [
            records, 0, 0, len(level.columns), len(level.parts), self._parts(level), bound, len(level.smaller),
            self._table(level.filters), 0,
        ]  # fmt: skip

    def _parts(self, level: Level) -> int:
        words: list[int] = []
        for mine, of in level.parts:
            if len(mine) > kernel.MOST_KEYS:
                raise DeltamarkError("a key of too many columns", ", ".join(mine), f"use at most {kernel.MOST_KEYS}")
            key = [of.block, len(mine), 0, 0, 0]
            ranges = [(0, kernel.FOREVER)] if len(mine) == 1 else key_range(of.of.types)
            for name, (low, radix) in zip(mine, ranges, strict=True):
                key += [level.columns.index(name), low, radix]
            words += [*key, *[0] * (kernel.PART - len(key))]
        return self._table(words)
