"""Vectors: what where and select are made of. Each kernel is one loop over at most a slice of rows.

A cell is a word that holds an address or a size; operators know their vectors by cells, because where a column of an
input lies changes from slice to slice. A selection is a vector of row numbers, ascending; cell 0 stands for all rows.
"""

from __future__ import annotations

from typing import Any

from deltamark.dataflow.kernels.core.memory import inline, kernel, load, load32, store
from deltamark.dataflow.types import NULL

# filter_range: a column's values in LOW..HIGH, of the selection IN -> the selection OUT and its size
SIZE, VALUES, WIDTH, LOW, HIGH, SELECTED, OUT, OUT_SIZE = range(1, 9)


@inline
def _value(values: int, width: int, at: int) -> int:
    return load(values, at) if width == 8 else load32(values, at)


@kernel
def filter_range(op: int) -> int:
    """Branch-free: a row number is always written, and kept by moving on."""
    size, width = load(load(op, SIZE), 0), load(op, WIDTH)
    values, low, high = load(load(op, VALUES), 0), load(op, LOW), load(op, HIGH)
    out, kept = load(load(op, OUT), 0), 0
    if load(op, SELECTED) == 0:
        if width == 8:
            for at in range(size):
                value = load(values, at)
                store(out, kept, at)
                kept += (value >= low) & (value <= high)
        else:
            for at in range(size):
                value = load32(values, at)
                store(out, kept, at)
                kept += (value >= low) & (value <= high)
    else:
        selected = load(load(op, SELECTED), 0)
        for index in range(size):
            at = load(selected, index)
            value = _value(values, width, at)
            store(out, kept, at)
            kept += (value >= low) & (value <= high)
    store(load(op, OUT_SIZE), 0, kept)
    return 0


@kernel
def filter_true(op: int) -> int:
    """VALUES is a condition, aligned with the selection."""
    size, values = load(load(op, SIZE), 0), load(load(op, VALUES), 0)
    out, kept = load(load(op, OUT), 0), 0
    if load(op, SELECTED) == 0:
        for at in range(size):
            store(out, kept, at)
            kept += load(values, at)
    else:
        selected = load(load(op, SELECTED), 0)
        for index in range(size):
            store(out, kept, load(selected, index))
            kept += load(values, index)
    store(load(op, OUT_SIZE), 0, kept)
    return 0


# the others: A and B are cells of vectors, or B is a CONSTANT itself where B_CELL is 0
A, B, B_CONSTANT, RESULT, C, NULLABLE = range(2, 8)


@kernel
def take(op: int) -> int:
    """A, of width B_CONSTANT, at the selection B -> a vector of int64."""
    size, source = load(load(op, SIZE), 0), load(load(op, A), 0)
    width, result = load(op, B_CONSTANT), load(load(op, RESULT), 0)
    if load(op, B) == 0:
        for at in range(size):
            store(result, at, _value(source, width, at))
    elif width == 8:
        selected = load(load(op, B), 0)
        for at in range(size):
            store(result, at, load(source, load(selected, at)))
    else:
        selected = load(load(op, B), 0)
        for at in range(size):
            store(result, at, load32(source, load(selected, at)))
    return 0


def _binary(function: Any) -> Any:
    @kernel
    def over_vectors(op: int) -> int:
        size, a, result = load(load(op, SIZE), 0), load(load(op, A), 0), load(load(op, RESULT), 0)
        if load(op, B) == 0:
            constant = load(op, B_CONSTANT)
            for at in range(size):
                store(result, at, function(load(a, at), constant))
        else:
            b = load(load(op, B), 0)
            for at in range(size):
                store(result, at, function(load(a, at), load(b, at)))
        return 0

    return over_vectors


add = _binary(inline(lambda a, b: a + b))
subtract = _binary(inline(lambda a, b: a - b))
multiply = _binary(inline(lambda a, b: a * b))
equal = _binary(inline(lambda a, b: 1 if a == b else 0))
less = _binary(inline(lambda a, b: 1 if a < b else 0))
both = _binary(inline(lambda a, b: a & b))
either = _binary(inline(lambda a, b: a | b))
negation = _binary(inline(lambda a, b: b - a))
coalesce = _binary(inline(lambda a, b: b if a == NULL else a))


@kernel
def lookup(op: int) -> int:
    """The words at B, indexed by A less C: a table of conditions or numbers."""
    size, a, result = load(load(op, SIZE), 0), load(load(op, A), 0), load(load(op, RESULT), 0)
    table, low = load(op, B), load(op, C)
    for at in range(size):
        store(result, at, load(table, load(a, at) - low))
    return 0


@kernel
def member(op: int) -> int:
    """Is A one of the C sorted words at B?"""
    size, a, result = load(load(op, SIZE), 0), load(load(op, A), 0), load(load(op, RESULT), 0)
    values, count = load(op, B), load(op, C)
    for at in range(size):
        value, low, high = load(a, at), 0, count
        while low < high:
            middle = (low + high) >> 1
            if load(values, middle) < value:
                low = middle + 1
            else:
                high = middle
        store(result, at, 1 if low < count and load(values, low) == value else 0)
    return 0


@kernel
def choose(op: int) -> int:
    """A where C is true, else B."""
    size, result = load(load(op, SIZE), 0), load(load(op, RESULT), 0)
    a, b, c = load(load(op, A), 0), load(load(op, B), 0), load(load(op, C), 0)
    for at in range(size):
        store(result, at, load(a, at) if load(c, at) != 0 else load(b, at))
    return 0


@kernel
def fill(op: int) -> int:
    """B_CONSTANT everywhere."""
    result, constant = load(load(op, RESULT), 0), load(op, B_CONSTANT)
    for at in range(load(load(op, SIZE), 0)):
        store(result, at, constant)
    return 0


@kernel
def mark(op: int) -> int:
    """Set bit B_CONSTANT of the RESULT's values at a selection A."""
    selected, result, bit = load(load(op, A), 0), load(load(op, RESULT), 0), 1 << load(op, B_CONSTANT)
    for index in range(load(load(op, SIZE), 0)):
        at = load(selected, index)
        store(result, at, load(result, at) | bit)
    return 0


@kernel
def pack(op: int) -> int:
    """A number in mixed radix: A * C + (B's value - B_CONSTANT), a missing value counting as 0."""
    size, result, radix = load(load(op, SIZE), 0), load(load(op, RESULT), 0), load(op, C)
    a, b, low = load(load(op, A), 0), load(load(op, B), 0), load(op, B_CONSTANT)
    for at in range(size):
        value = load(b, at)
        store(result, at, load(a, at) * radix + (0 if value == NULL else value - low))
    return 0


@kernel
def unpack(op: int) -> int:
    """The digit of A that B divides out and C is the radix of; plus B_CONSTANT; NULL for 0 where NULLABLE is set."""
    size, a, result = load(load(op, SIZE), 0), load(load(op, A), 0), load(load(op, RESULT), 0)
    divisor, radix, low, nullable = load(op, B), load(op, C), load(op, B_CONSTANT), load(op, NULLABLE)
    for at in range(size):
        digit = load(a, at) // divisor % radix
        store(result, at, NULL if nullable != 0 and digit == 0 else digit + low)
    return 0
