"""Keys: the key columns of a row as one number, and the columns of such a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from deltamark.dataflow.builder.interner import Interner
from deltamark.dataflow.builder.stream import KeyPartition, Stream
from deltamark.dataflow.kernels import expressions
from deltamark.dataflow.kernels.core.blocks import vector_at
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.kernels.parallel.key_partition import CompactBlock, ExpandBlock, reciprocal
from deltamark.dataflow.types import NULL, Type, key_count, key_range

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

    cell: int
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


def _compact(stream: Stream, partition: KeyPartition) -> int:
    """Return the cell of the places of a stream's keys."""
    result = stream.program.vector()
    stream.program.add(
        Opcode.COMPACT, CompactBlock, size=stream.size, keys=stream.column(partition.column), low=partition.low,
        reciprocal=reciprocal(partition.workers), result=result,
    )  # fmt: skip
    return result


def _pack(stream: Stream, names: Sequence[str], types: Sequence[Type]) -> int:
    """Return the cell of the packed key columns."""
    program, size = stream.program, stream.size
    cell = program.vector()
    program.add(Opcode.FILL, expressions.FillBlock, size=size, value=0, result=cell)
    for name, (low, radix) in zip(names, key_range(types), strict=True):
        number, cell = cell, program.vector()
        program.add(
            Opcode.PACK, expressions.PackBlock, size=size, number=number, value=stream.column(name), low=low,
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
    stream: Stream, cell: int, key: Key, names: Sequence[str], types: Sequence[Type]
) -> Mapping[str, Callable[[], int]]:
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


def _expand(stream: Stream, cell: int, partition: KeyPartition) -> int:
    """Return the cell of the keys at the places in a cell."""
    result = stream.program.vector()
    stream.program.add(
        Opcode.EXPAND, ExpandBlock, size=stream.size, places=cell, low=partition.low, workers=partition.workers,
        worker=partition.worker, result=result,
    )  # fmt: skip
    return result


def _unpack_by_table(stream: Stream, cell: int, digit: Digit, keys: int) -> int:
    result, table = stream.program.vector(), stream.program.table([digit.of(key) for key in range(keys)])
    stream.program.add(
        Opcode.LOOKUP, expressions.LookupBlock, size=stream.size, values=cell, table=table, low=0, result=result
    )
    return result


def _unpack_by_division(stream: Stream, cell: int, digit: Digit, _keys: int) -> int:
    result = stream.program.vector()
    stream.program.add(
        Opcode.UNPACK, expressions.UnpackBlock, size=stream.size, number=cell, divisor=digit.divisor, radix=digit.radix,
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
