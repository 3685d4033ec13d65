"""Keys: the key columns of a row as one number, and the columns of such a number.

Interners: number the rows of keys that do not pack into 62 bits; see kernels.hashing.interner.

Key ids: the small dense numbers of keys, by which the state of keyed operators is indexed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from deltamark.dataflow.builder.program import (
    Address,
    BlockAddress,
    CellAddress,
    Program,
    ProgramPart,
    VectorAddress,
)
from deltamark.dataflow.builder.stream import KeyPartition, Stream
from deltamark.dataflow.builder.sweeps import TextStore
from deltamark.dataflow.kernels import expressions
from deltamark.dataflow.kernels.core.blocks import Array, vector_at
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS, Memory
from deltamark.dataflow.kernels.groups import garbage
from deltamark.dataflow.kernels.hashing.hash_map import CHECK_ROOM, RUN_KEYS, KeyMap
from deltamark.dataflow.kernels.hashing.interner import INTERN, InternerBlock
from deltamark.dataflow.kernels.parallel.key_partition import COMPACT, EXPAND, reciprocal
from deltamark.dataflow.kernels.text.pool import TextPool
from deltamark.dataflow.plan.direct_keys import is_direct, is_paged
from deltamark.dataflow.types import NULL, Type, key_count, key_range
from deltamark.errors import DeltamarkError

TABLE_ENTRIES = 1024
"""Entries of a new table of ids. Not measured."""


@dataclass(frozen=True)
class Interner:
    """The block of an interner, the cells of its stored columns, and the part of the program that it belongs to."""

    block: BlockAddress
    stored: tuple[VectorAddress, ...]
    part: ProgramPart

    @classmethod
    def of(cls, program: Program, types: Sequence[Type]) -> Interner:
        """Make the interner of keys of some types."""
        with program.building(ProgramPart()):
            reserve, unset = program.memory.reserve, program.memory.reserve_unset
            stored = tuple(program.array() for _ in types)
            block = program.block(
                InternerBlock, columns=len(types), table=reserve(TABLE_ENTRIES), mask=TABLE_ENTRIES - 1,
                free=unset(UNBOUNDED_WORDS), stored=program.table(list(map(program.read, stored))),
                count=reserve(UNBOUNDED_WORDS), empty_since=reserve(UNBOUNDED_WORDS),
                waiting=unset(UNBOUNDED_WORDS), frontier=program.frontier,
            )  # fmt: skip
            for column, type_ in enumerate(types):
                if type_.kind == "text":
                    program.sweeper.add_marker(program.part, partial(_mark_interned, block, column))
            return cls(block, stored, program.part)

    @property
    def next_id_address(self) -> Address:
        """The address of the first id that was never given."""
        return Address(self.block + InternerBlock.fields["next_id"].offset)

    def ids(self, stream: Stream, names: Sequence[str]) -> VectorAddress:
        """Append the numbering of a stream's rows by some columns; return the cell of the ids."""
        program, result = stream.program, stream.program.vector()
        program.part.uses.add(self.part)
        program.add(
            INTERN, interner=self.block, size=stream.size, time=stream.time, diff=stream.diff,
            inputs=program.table([stream.column(name) for name in names]), result=result,
            leads=self not in program.states.values(),
        )  # fmt: skip
        program.add_state(self)
        return result

    def free_in_sweeps(self, program: Program, state: int, words: int) -> None:
        """Free ids in sweeps alone, once the records of an aggregate are zero: its sums may outlive its rows."""
        InternerBlock(self.block).keeps_ids = 1
        free = partial(garbage.free_ids, InternerBlock(self.block), Array(state), words)
        program.sweeper.add_owner(program.part, self, free)

    def used(self) -> int:
        """Count the ids in use."""
        return InternerBlock(self.block).used

    def rows(self) -> int:
        """Count the ids that have live rows."""
        return InternerBlock(self.block).live

    def problem(self) -> DeltamarkError:
        raise AssertionError("an interner does not fail")


def _mark_interned(block: BlockAddress, column: int, texts: TextStore) -> None:
    garbage.mark_interned(TextPool(texts.block), InternerBlock(block), column)


MAX_PACKED_KEYS = 1 << 62
"""The largest number of keys whose columns are packed into one number; more are interned."""

MAX_INTERNED_KEYS = 1 << 28
"""A bound on the ids of an interner: address space is reserved for each."""

MAX_TABLE_KEYS = 1 << 14
"""The largest number of keys that are unpacked by a table of 8 bytes a key, which takes a tenth of the time of the
division otherwise used."""


@dataclass(frozen=True)
class Digit:
    """A column of a packed key: its value is `key // divisor % radix + low`, or `key` itself if the radix is 0."""

    divisor: int
    radix: int
    low: int
    nullable: bool

    def of(self, key: int) -> int:
        """Return the value of the column."""
        digit = key // self.divisor % self.radix
        return NULL if self.nullable and digit == 0 else digit + self.low


WHOLE_KEY = Digit(1, 0, 0, nullable=False)
"""The digit of a key that is its only column."""


@dataclass(frozen=True)
class Key:
    """The cell of the keys of a stream as numbers, their bounds, and their form.

    single: the only key column; packed: the columns as digits; interned: ids of an interner. partition: set if the
    numbers are places among the keys of one worker; text_digits: the digits that are numbers of texts.
    """

    cell: VectorAddress
    low: int
    high: int
    form: Literal["single", "packed", "interned"]
    interner: Interner | None = None
    partition: KeyPartition | None = None
    text_digits: tuple[Digit, ...] = ()

    @property
    def next_id_address(self) -> int:
        """The address of the interner's next id; 0 if there is no interner."""
        return 0 if self.interner is None else self.interner.next_id_address


def key_of(stream: Stream, names: Sequence[str], types: Sequence[Type], interner: Interner | None = None) -> Key:
    """Append the numbering of rows by key columns. interner: used if they do not pack; by default a new one."""
    if stream.partition is not None and tuple(names) == (stream.partition.column,):
        cell = _compact(stream, stream.partition)
        return Key(cell, 0, stream.partition.largest(types[0].high), "single", partition=stream.partition)
    if len(names) == 1 and not types[0].nullable:
        digits = (WHOLE_KEY,) if types[0].kind == "text" else ()
        return Key(stream.column(names[0]), types[0].low, types[0].high, "single", text_digits=digits)
    size = key_count(types)
    if size > MAX_PACKED_KEYS:
        interner = interner or Interner.of(stream.program, types)
        return Key(interner.ids(stream, names), 0, MAX_INTERNED_KEYS, "interned", interner)
    texts = tuple(digit for digit, type_ in zip(_digits(types), types, strict=True) if type_.kind == "text")
    return Key(_pack(stream, names, types), 0, size - 1, "packed", text_digits=texts)


def _compact(stream: Stream, partition: KeyPartition) -> VectorAddress:
    """Return the cell of the places of a stream's keys."""
    result = stream.program.vector()
    stream.program.add(
        COMPACT, size=stream.size, keys=stream.column(partition.column), low=partition.low,
        reciprocal=reciprocal(partition.workers), result=result,
    )  # fmt: skip
    return result


def _pack(stream: Stream, names: Sequence[str], types: Sequence[Type]) -> VectorAddress:
    """Return the cell of the packed key columns."""
    program, size = stream.program, stream.size
    cell = program.vector()
    program.add(expressions.FILL, size=size, value=0, result=cell)
    for name, (low, radix) in zip(names, key_range(types), strict=True):
        number, cell = cell, program.vector()
        program.add(
            expressions.PACK, size=size, number=number, value=stream.column(name), low=low,
            radix=radix, result=cell,
        )  # fmt: skip
    return cell


def _digits(types: Sequence[Type]) -> list[Digit]:
    """Return the digit of each column in a packed key."""
    digits, divisor = list[Digit](), 1
    for type_, (low, radix) in reversed(list(zip(types, key_range(types), strict=True))):
        digits.append(Digit(divisor, radix, low, type_.nullable))
        divisor *= radix
    return digits[::-1]


def key_columns(
    stream: Stream, cell: VectorAddress, key: Key, names: Sequence[str], types: Sequence[Type]
) -> Mapping[str, Callable[[], VectorAddress]]:
    """Return for each key column a function that appends its computation from a cell of a stream's keys."""
    if key.partition is not None:
        return {names[0]: partial(_expand, stream, cell, key.partition)}
    if key.form == "single":
        return {names[0]: lambda: cell}
    if key.interner is not None:
        stored = zip(names, key.interner.stored, strict=True)
        return {name: partial(stream.take, values, cell) for name, values in stored}
    unpack = _unpack_by_table if key_count(types) <= MAX_TABLE_KEYS else _unpack_by_division
    digits = zip(names, _digits(types), strict=True)
    return {name: partial(unpack, stream, cell, digit, key_count(types)) for name, digit in digits}


def _expand(stream: Stream, cell: VectorAddress, partition: KeyPartition) -> VectorAddress:
    """Return the cell of the keys at the places in a cell."""
    result = stream.program.vector()
    stream.program.add(
        EXPAND, size=stream.size, places=cell, low=partition.low, workers=partition.workers,
        worker=partition.worker, result=result,
    )  # fmt: skip
    return result


def _unpack_by_table(stream: Stream, cell: VectorAddress, digit: Digit, keys: int) -> VectorAddress:
    result, table = stream.program.vector(), stream.program.table([digit.of(key) for key in range(keys)])
    stream.program.add(expressions.LOOKUP, size=stream.size, values=cell, table=table, low=0, result=result)
    return result


def _unpack_by_division(stream: Stream, cell: VectorAddress, digit: Digit, _keys: int) -> VectorAddress:
    result = stream.program.vector()
    stream.program.add(
        expressions.UNPACK, size=stream.size, number=cell, divisor=digit.divisor, radix=digit.radix,
        low=digit.low, nullable=digit.nullable, result=result,
    )  # fmt: skip
    return result


class NamedValue(NamedTuple):
    """A stored value of a row, with the name and the type of its column, for error messages."""

    name: str
    type: Type
    stored: int


def key_values(key: Key, number: int, names: Sequence[str], types: Sequence[Type]) -> list[NamedValue]:
    """Return the values of the key columns of one key."""
    if key.form == "single":
        values = [number if key.partition is None else key.partition.key(number)]
    elif key.interner is not None:
        values = [vector_at(cell)[number] for cell in key.interner.stored]
    else:
        values = [digit.of(number) for digit in _digits(types)]
    return list(map(NamedValue, names, types, values))


HASHED_ENTRIES = 1024
"""Entries of a new hashed map. Not measured."""


@dataclass(frozen=True)
class RowCount:
    """The live rows of a node: a bound, by which memory is sized, and their expected number, if it is known."""

    bound: int
    expected: float = math.inf


@dataclass(frozen=True)
class KeyIds:
    """The ids of the keys of an operator: the block of their map, and a bound on the number of ids.

    are_dense: whether ids are given one after another.
    """

    block: BlockAddress
    capacity: int
    are_dense: bool

    @property
    def are_hashed(self) -> bool:
        return bool(KeyMap(self.block).as_words.table)

    def reserve(self, memory: Memory, words: int = 1, expected: int = 0) -> int:
        """Reserve words for each id, all zero; return their address. expected: the words in use later; 0: unknown."""
        reserve = memory.reserve if self.are_dense else memory.reserve_whole
        return reserve(self.capacity * words, expected)


def key_ids(program: Program, key: Key, rows: RowCount, incoming: CellAddress, *, state_words: int = 1) -> KeyIds:
    """Make the map of keys to ids. rows: the live rows; incoming: the cell of the rows that a slice adds.

    state_words: the size of the state of a key.
    """
    direct = is_direct(key.high - key.low, rows.bound, state_words, rows.expected)
    if key.form == "interned" or (direct and not key.text_digits):
        block = program.block(KeyMap, hashed=0, low=key.low, high=key.high, interned=key.next_id_address)
        return KeyIds(block, key.high - key.low + 1, are_dense=key.form == "interned")
    reserve, unset = program.memory.reserve, program.memory.reserve_unset
    keys = key.high - key.low + 1
    runs = -(-keys // RUN_KEYS)
    if is_paged(keys - 1, rows.bound) and not key.text_digits:
        block = program.block(
            KeyMap, hashed=1, low=key.low, high=key.high,
            free=unset(runs), pages=program.memory.reserve_whole(runs // 2 + 1), runs=unset(runs // 2 + 1),
            members=reserve(runs // 8 + 1),
        )  # fmt: skip
        return KeyIds(block, keys + RUN_KEYS, are_dense=True)
    block = program.block(
        KeyMap, hashed=1, low=key.low, high=key.high, mask=HASHED_ENTRIES - 1, table=reserve(2 * HASHED_ENTRIES),
        free=unset(UNBOUNDED_WORDS), keys=unset(UNBOUNDED_WORDS),
    )  # fmt: skip
    program.add(CHECK_ROOM, keys=block, coming=incoming)
    for digit in key.text_digits:
        program.sweeper.add_marker(program.part, partial(_mark, block, digit))
    return KeyIds(block, UNBOUNDED_WORDS, are_dense=True)


def _mark(block: BlockAddress, digit: Digit, texts: TextStore) -> None:
    garbage.mark_keys(TextPool(texts.block), KeyMap(block), digit.divisor, digit.radix, digit.low)
