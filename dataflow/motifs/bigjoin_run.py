"""BiGJoin: the steps that extend prefixes by one variable each, and a run of all steps from the first atom's rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from deltamark.dataflow.codegen.compiled import Compiled
from deltamark.dataflow.codegen.program import key_range
from deltamark.dataflow.kernels.core.hash_map import KeyMap
from deltamark.dataflow.kernels.core.memory import Memory, view
from deltamark.dataflow.kernels.motifs import bigjoin
from deltamark.dataflow.kernels.motifs import index as index_kernel
from deltamark.dataflow.kernels.motifs import layout as kernel
from deltamark.dataflow.operators.arrangement import wide_weight
from deltamark.dataflow.operators.motifs.index import Index, Indexed
from deltamark.dataflow.plan.nodes import Extend, Node
from deltamark.errors import DeltamarkError

MAX_STAMPS = 1 << 28
"""Numbers with a stamp of 4 bytes each, which speed up the intersection of lists. Not measured."""

UNBOUNDED_WORDS = 1 << 31
"""Words of address space that are reserved for a list of unknown length."""


@dataclass(frozen=True)
class RunStatistics:
    """The cost of a run, of all workers. most: the most prefixes that each step held, at one worker."""

    rounds: int
    proposals: int
    most: tuple[int, ...]


@dataclass(frozen=True)
class ExtensionStep:
    """Extends prefixes by one variable: the indexes that propose or check values, and the pairs that must be ordered.

    parts: columns of the prefix that are a key, and the index of values by that key.
    """

    columns: tuple[str, ...]
    new: str
    parts: tuple[tuple[tuple[str, ...], Index], ...]
    smaller: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, node: Extend, compiled: Compiled, smaller: Sequence[tuple[str, str]]) -> ExtensionStep:
        """Return the step of an extend node."""
        columns, new = node.rows.schema.names, node.column
        found = [(each.row_keys, _index(compiled, each.rows, each.keys, each.value)) for each in node.indexes]
        known = {*columns, new}
        return cls(columns, new, tuple(found), tuple(each for each in smaller if new in each and set(each) <= known))

    @property
    def after(self) -> tuple[str, ...]:
        return self.columns if self.new in self.columns else (*self.columns, self.new)

    def is_free(self, known: set[str]) -> bool:
        """Do the values depend only on known columns?"""
        return self.new not in self.columns and not self.smaller and all(set(mine) <= known for mine, _ in self.parts)

    @property
    def filters(self) -> list[int]:
        return [self.after.index(name) for pair in self.smaller for name in pair]


def _index(compiled: Compiled, of: Node, keys: tuple[str, ...], value: str) -> Index:
    """Return the compiled index of a node's rows."""
    for part, states in compiled.states().items():
        role = getattr(part, "role", None)
        if isinstance(role, Indexed) and getattr(part, "node", None) is of and (role.keys, role.value) == (keys, value):
            return next(each for each in states if isinstance(each, Index))
    raise AssertionError(keys)


class BigJoinRun:
    """One run of all steps: the blocks of kernels.motifs.layout, in memory of its own."""

    def __init__(self, seed: ExtensionStep, levels: Sequence[ExtensionStep], batch: int, tail: int) -> None:
        if batch < 1:
            raise DeltamarkError("no such batch size", batch, "give at least 1")
        self._memory = Memory()
        self._levels, self._batch = levels, batch
        self._width = len((levels or [seed])[-1].after) + 1
        (_, of) = seed.parts[0]
        keys = KeyMap(int(view(of.block, index_kernel.WORDS)[index_kernel.KEYS]))
        self._keys = keys.next_id if keys.hashed else keys.high - keys.low + 1
        stamps = max(each.numbers() for level in levels for _, each in level.parts) if levels else 0
        words = {
            kernel.BATCH: batch, kernel.LEVELS: len(levels), kernel.TAIL: tail, kernel.SEED: self._parts(seed),
            kernel.LEVEL_TABLE: self._table([word for each in levels for word in self._level(each)]),
            kernel.SEED_FILTERS: len(seed.smaller), kernel.SEED_FILTER_TABLE: self._table(seed.filters),
            kernel.SEED_IDS: self._keys, kernel.OUT: self._memory.reserve(2 * batch * self._width),
            kernel.STAMPS: self._memory.reserve(stamps // 2 + 1) if stamps <= MAX_STAMPS else 0,
            kernel.ROW: self._memory.reserve(self._width), kernel.KEPT_TAIL: -1,
            **{each: self._memory.reserve(UNBOUNDED_WORDS) for each in (kernel.KEPT, kernel.SPARE, kernel.REST)},
        }  # fmt: skip
        self._block = self._table([words.get(each, 0) for each in range(kernel.WORDS)])

    def keep(self, part: int, parts: int) -> None:
        """Restrict the run to the first atom's rows in one of `parts` ranges of keys."""
        words = view(self._block, kernel.WORDS)
        words[kernel.SEED_ID], words[kernel.SEED_IDS] = self._keys * part // parts, self._keys * (part + 1) // parts

    def parts(self) -> Iterator[np.ndarray]:
        """Run; yield the listed rows whenever the output block is full."""
        status = kernel.FULL
        while status == kernel.FULL:
            status = bigjoin.run(self._block)
            if status == kernel.FAILED:
                raise self._problem()
            words = view(self._block, kernel.WORDS)
            rows = view(int(words[kernel.OUT]), int(words[kernel.OUT_COUNT]) * self._width)
            yield rows.reshape(-1, self._width).copy()
            words[kernel.OUT_COUNT] = 0

    def factorized(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Run; yield the listed prefixes, with the values of the remaining variables."""
        words = view(self._block, kernel.WORDS)
        words[kernel.VALUES] = self._memory.reserve(UNBOUNDED_WORDS)
        for rows in self.parts():
            values = view(int(words[kernel.VALUES]), 2 * int(words[kernel.VALUE_COUNT])).reshape(-1, 2).copy()
            words[kernel.VALUE_COUNT] = 0
            yield rows, values

    def word(self, which: int) -> int:
        return int(view(self._block, kernel.WORDS)[which])

    def statistics(self) -> RunStatistics:
        most = [
            int(view(self.word(kernel.LEVEL_TABLE) + 8 * kernel.LEVEL * level, kernel.LEVEL)[kernel.MOST])
            for level in range(len(self._levels))
        ]
        return RunStatistics(self.word(kernel.ROUNDS), self.word(kernel.PROPOSALS), tuple(most))

    def held_bytes(self) -> int:
        """Count the bytes of memory beside the indexes."""
        return sum(self._memory.resident(self._memory.reservations()).values())

    def _problem(self) -> DeltamarkError:
        if self.word(kernel.ERROR) == kernel.TOO_HEAVY:
            return wide_weight()
        raise AssertionError("a level held more than two batches of prefixes")

    def _table(self, words: Sequence[int]) -> int:
        address = self._memory.reserve(max(len(words), 1))
        view(address, len(words))[:] = words
        return address

    def _level(self, level: ExtensionStep) -> list[int]:
        records = self._memory.reserve(2 * self._batch * (len(level.columns) + kernel.BEHIND))
        bound = level.columns.index(level.new) if level.new in level.columns else -1
        return [
            records, 0, 0, len(level.columns), len(level.parts), self._parts(level), bound, len(level.smaller),
            self._table(level.filters), 0,
        ]  # fmt: skip

    def _parts(self, level: ExtensionStep) -> int:
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
