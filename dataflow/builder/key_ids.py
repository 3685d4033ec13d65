"""Key ids: the small dense numbers of keys, by which the state of keyed operators is indexed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from deltamark.dataflow.builder.keys import Digit, Key
from deltamark.dataflow.builder.program import Program
from deltamark.dataflow.builder.sweeps import TextStore
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.groups import garbage
from deltamark.dataflow.kernels.hashing.hash_map import RUN_KEYS, KeyMap
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.program import RoomBlock
from deltamark.dataflow.kernels.text.pool import TextPool
from deltamark.dataflow.plan.direct_keys import is_direct, is_paged

HASHED_ENTRIES = 1024
"""Entries of a new hashed map. Not measured."""


@dataclass(frozen=True)
class RowCount:
    """The live rows of a node: a bound, by which memory is sized, and their expected number, if it is known."""

    bound: int
    expected: float = math.inf


@dataclass(frozen=True)
class KeyIds:
    """The ids of the keys of an operator: the block of their map, and a bound on the number of ids."""

    block: int
    capacity: int

    @property
    def are_hashed(self) -> bool:
        return bool(KeyMap(self.block).as_words.table)


def key_ids(program: Program, key: Key, rows: RowCount, incoming: int, *, state_words: int = 1) -> KeyIds:
    """Make the map of keys to ids. rows: the live rows; incoming: the cell of the rows that a slice adds.

    state_words: the size of the state of a key.
    """
    direct = is_direct(key.high - key.low, rows.bound, state_words, rows.expected)
    if key.form == "interned" or (direct and not key.text_digits):
        block = program.block(KeyMap, hashed=0, low=key.low, high=key.high, interned=key.next_id_address)
        return KeyIds(block, key.high - key.low + 1)
    reserve = program.memory.reserve
    keys = key.high - key.low + 1
    if is_paged(keys - 1, rows.bound) and not key.text_digits:
        block = program.block(
            KeyMap, hashed=1, low=key.low, high=key.high,
            **{each: reserve(keys) for each in ("free", "pages", "runs", "members")},
        )  # fmt: skip
        return KeyIds(block, keys + RUN_KEYS)
    block = program.block(
        KeyMap, hashed=1, low=key.low, high=key.high, mask=HASHED_ENTRIES - 1, table=reserve(2 * HASHED_ENTRIES),
        free=reserve(UNBOUNDED_WORDS), keys=reserve(UNBOUNDED_WORDS),
    )  # fmt: skip
    program.add(Opcode.NEEDS_REHASH, RoomBlock, keys=block, coming=incoming)
    for digit in key.text_digits:
        program.sweeper.add_marker(program.part, partial(_mark, block, digit))
    return KeyIds(block, UNBOUNDED_WORDS)


def _mark(block: int, digit: Digit, texts: TextStore) -> None:
    garbage.mark_keys(TextPool(texts.block), KeyMap(block), digit.divisor, digit.radix, digit.low)
