"""Expressions over vectors, of which projections and conditions are made. Each kernel is one loop over a slice of rows.

Operators know their vectors by cells, which hold addresses, because the address of an input's column changes from slice
to slice. A selection is a vector of row numbers in ascending order; the cell 0 stands for all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import cast

from deltamark.dataflow.kernels.core.blocks import (
    Array,
    Array16,
    Array32,
    Cell,
    Signed8,
    SizedOperator,
    Vector,
    vector_at,
)
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import CHUNK, prefetch_chunk
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.program import InputBlock
from deltamark.dataflow.types import NULL


class TakeBlock(SizedOperator):
    """Copies the selected values of a column to a vector of int64."""

    source: Vector
    width: int
    selected: int
    result: Vector


class TakeRepeatedBlock(SizedOperator):
    """Takes the times or the weights of selected rows of an input, which are often all equal."""

    input: int
    """The input of weights, or 0 for times, which are in order."""
    source_size: Cell
    source: Vector
    selected: int
    room: Array
    result: Cell
    """The address of the result."""


class BinaryBlock(SizedOperator):
    """Applies a function to two vectors, or to a vector and a constant if the cell `b` is 0."""

    a: Vector
    b: int = 0
    constant: int = 0
    result: Vector


class LookupBlock(SizedOperator):
    """Looks values up in a table whose first entry is that of `low`."""

    values: Vector
    table: Array
    low: int
    result: Vector


class MemberBlock(SizedOperator):
    """Tests whether values are among `count` sorted ones."""

    values: Vector
    members: Array
    count: int
    result: Vector


class ChooseBlock(SizedOperator):
    """Chooses between two values by a condition."""

    condition: Vector
    yes: Vector
    no: Vector
    result: Vector


class FillBlock(SizedOperator):
    """Repeats a value."""

    value: int
    result: Vector


class SetBitBlock(SizedOperator):
    """Sets a bit of the values at a selection."""

    selected: Vector
    bit: int
    result: Vector


class PackBlock(SizedOperator):
    """Appends a digit to a number in mixed radix; a missing value is the digit 0."""

    number: Vector
    value: Vector
    low: int
    radix: int
    result: Vector


class UnpackBlock(SizedOperator):
    """Extracts a digit of a number in mixed radix; the digit 0 is a missing value if `nullable` is set."""

    number: Vector
    divisor: int
    radix: int
    low: int
    nullable: int
    result: Vector


@kernel
def take(op: TakeBlock) -> None:
    """Copy the selected values of a column."""
    width, source = op.width, op.source
    if width == 8:
        _copy(op, source)
    elif width == 4:
        _copy(op, Array32(source))
    elif width == 2:
        _copy(op, Array16(source))
    else:
        _copy(op, Signed8(source))


@kernel
def _copy(op: TakeBlock, source: Array) -> None:
    """Copy the selected values; rows that follow each other are copied in chunks."""
    size, width, result = op.size, op.width, op.result
    if op.selected == 0:
        for at in range(size):
            result[at] = source[at]
        return
    selected = vector_at(op.selected)
    for start in range(0, size, CHUNK):
        rows, out, ahead = selected[start:], result[start:], start + CHUNKS_AHEAD * CHUNK
        if ahead + CHUNK <= size and selected[ahead + CHUNK - 1] - selected[ahead] == CHUNK - 1:
            prefetch_chunk(source.address + selected[ahead] * width, width)
        if start + CHUNK <= size and rows[CHUNK - 1] - rows[0] == CHUNK - 1 and _are_successive(rows):
            first = rows[0]
            for at in range(CHUNK):
                out[at] = source[first + at]
        else:
            for at in range(min(CHUNK, size - start)):
                out[at] = source[rows[at]]


@kernel
def take_repeated(op: TakeRepeatedBlock) -> None:
    """Copy the selected values, or point at the first ones of the source if all are equal."""
    source, selected, room = op.source, vector_at(op.selected), op.room
    if op.size == 0:
        return
    is_repeated = source[0] == source[op.source_size - 1] if op.input == 0 else InputBlock(op.input).inserts != 0
    if is_repeated:
        op.result = source.address
        return
    for at in range(op.size):
        room[at] = source[selected[at]]
    op.result = room.address


CHUNKS_AHEAD = 4
"""The chunks of selected rows between one that is copied and one that is prefetched. Not measured."""


@inline
def _are_successive(rows: Array) -> bool:
    """Return whether a chunk has successive rows, as chunks of rows that were dealt in the order of their keys have."""
    first, differences = rows[0], 0
    for at in range(CHUNK):
        differences |= rows[at] ^ (first + at)
    return differences == 0


@inline
def _applied(a: int, b: int) -> int:
    """Stand for the function that a kernel applies."""
    return a + b


def _over_vectors(op: BinaryBlock) -> None:
    """Apply a function to the rows of a slice."""
    a, result = op.a, op.result
    if op.b == 0:
        constant = op.constant
        for at in range(op.size):
            result[at] = _applied(a[at], constant)
    else:
        b = vector_at(op.b)
        for at in range(op.size):
            result[at] = _applied(a[at], b[at])


def _binary(name: str, function: Callable[[int, int], int]) -> Callable[[BinaryBlock], None]:
    """Make the kernel that applies a function. It is no closure, which numba's cache would not find again.

    The linker's name and that of the cached file are made of the qualified name; see `kernel`.
    """
    copy = FunctionType(_over_vectors.__code__, globals() | {"_applied": function}, name)
    copy.__annotations__, copy.__qualname__ = _over_vectors.__annotations__, name
    return cast("Callable[[BinaryBlock], None]", kernel(copy))


add = _binary("add", inline(lambda a, b: a + b))
subtract = _binary("subtract", inline(lambda a, b: a - b))
multiply = _binary("multiply", inline(lambda a, b: a * b))
quotient = _binary("quotient", inline(lambda a, b: a // b))
equal = _binary("equal", inline(lambda a, b: 1 if a == b else 0))
less = _binary("less", inline(lambda a, b: 1 if a < b else 0))
and_ = _binary("and_", inline(lambda a, b: a & b))
or_ = _binary("or_", inline(lambda a, b: a | b))
subtract_from = _binary("subtract_from", inline(lambda a, b: b - a))
coalesce = _binary("coalesce", inline(lambda a, b: b if a == NULL else a))


@kernel
def lookup(op: LookupBlock) -> None:
    """Look values up in a table of conditions or numbers."""
    values, table, low, result = op.values, op.table, op.low, op.result
    for at in range(op.size):
        result[at] = table[values[at] - low]


@kernel
def member(op: MemberBlock) -> None:
    """Test by binary search whether values are among the members."""
    values, members, count, result = op.values, op.members, op.count, op.result
    for at in range(op.size):
        value, low, high = values[at], 0, count
        while low < high:
            middle = (low + high) >> 1
            if members[middle] < value:
                low = middle + 1
            else:
                high = middle
        result[at] = 1 if low < count and members[low] == value else 0


@kernel
def choose(op: ChooseBlock) -> None:
    """Choose between two values by a condition."""
    condition, yes, no, result = op.condition, op.yes, op.no, op.result
    for at in range(op.size):
        result[at] = yes[at] if condition[at] != 0 else no[at]


@kernel
def fill(op: FillBlock) -> None:
    """Repeat a value."""
    value, result = op.value, op.result
    for at in range(op.size):
        result[at] = value


@kernel
def set_bit(op: SetBitBlock) -> None:
    """Set a bit of the values at a selection."""
    selected, result, bit = op.selected, op.result, 1 << op.bit
    for index in range(op.size):
        at = selected[index]
        result[at] = result[at] | bit


@kernel
def pack(op: PackBlock) -> None:
    """Append a digit to a number."""
    number, values, low, radix, result = op.number, op.value, op.low, op.radix, op.result
    for at in range(op.size):
        value = values[at]
        result[at] = number[at] * radix + (0 if value == NULL else value - low)


@kernel
def unpack(op: UnpackBlock) -> None:
    """Extract a digit of a number."""
    number, divisor, radix, low, result = op.number, op.divisor, op.radix, op.low, op.result
    nullable = op.nullable != 0
    for at in range(op.size):
        digit = number[at] // divisor % radix
        result[at] = NULL if nullable and digit == 0 else digit + low


TAKE_REPEATED = step(take_repeated)
TAKE, LOOKUP, MEMBER, CHOOSE, FILL = step(take), step(lookup), step(member), step(choose), step(fill)
SET_BIT, PACK, UNPACK = step(set_bit), step(pack), step(unpack)
ADD, SUBTRACT, MULTIPLY, QUOTIENT = step(add), step(subtract), step(multiply), step(quotient)
EQUAL, LESS, AND, OR = step(equal), step(less), step(and_), step(or_)
SUBTRACT_FROM, COALESCE = step(subtract_from), step(coalesce)
