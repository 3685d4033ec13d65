"""Key ids: the small dense numbers of keys, by which the state of keyed operators is indexed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from deltamark.dataflow.builder.keys import Digit, Key
from deltamark.dataflow.builder.program import Program
from deltamark.dataflow.builder.sweeps import TextStore
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.groups import garbage
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.program import RoomBlock
from deltamark.dataflow.kernels.text.pool import TextPool

DIRECT_KEYS_PER_ROW, MIN_DIRECT_KEYS = 4, 1 << 16
"""Keys index an array directly while their range is at most DIRECT_KEYS_PER_ROW times the rows that may be live, plus
MIN_DIRECT_KEYS. Larger ranges are hashed. TPC-H uses a quarter of the range of its order keys, and the memory still
follows the rows of a window. Measured: 1 to 3 ns a row direct, 7 to 22 ns hashed."""

MAX_DIRECT_KEYS = 1 << 33
"""A larger range is hashed, however many rows there are: address space is limited, too."""

HASHED_ENTRIES = 1024
"""Entries of a new hashed map. Not measured."""


@dataclass(frozen=True)
class KeyIds:
    """The ids of the keys of an operator: the block of their map, and a bound on the number of ids."""

    block: int
    capacity: int


def key_ids(program: Program, key: Key, rows: int, incoming: int) -> KeyIds:
    """Make the map of keys to ids. rows: a bound on the live rows; incoming: the cell of the rows that a slice adds."""
    if key.form == "interned" or (is_direct(key.high - key.low, rows) and not key.text_digits):
        block = program.block(KeyMap, hashed=0, low=key.low, high=key.high, interned=key.next_id_address)
        return KeyIds(block, key.high - key.low + 1)
    reserve = program.memory.reserve
    block = program.block(
        KeyMap, hashed=1, low=key.low, high=key.high, mask=HASHED_ENTRIES - 1, table=reserve(2 * HASHED_ENTRIES),
        free=reserve(UNBOUNDED_WORDS), keys=reserve(UNBOUNDED_WORDS),
    )  # fmt: skip
    program.add(Opcode.ROOM, RoomBlock, keys=block, coming=incoming)
    for digit in key.text_digits:
        program.sweeper.add_marker(program.part, partial(_mark, block, digit))
    return KeyIds(block, UNBOUNDED_WORDS)


def is_direct(key_range: int, rows: int) -> bool:
    """Return whether keys of a range index an array directly. rows: a bound on the live rows."""
    return key_range < min(DIRECT_KEYS_PER_ROW * rows + MIN_DIRECT_KEYS, MAX_DIRECT_KEYS)


def _mark(block: int, digit: Digit, texts: TextStore) -> None:
    garbage.mark_keys(TextPool(texts.block), KeyMap(block), digit.divisor, digit.radix, digit.low)
