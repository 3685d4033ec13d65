"""Functions of texts, which operators see as two vectors: the addresses of their bytes, and their lengths.

The texts are those of an input's rows, at their addresses in the feed, or those of numbers. None is copied here.

Bytes at an address: comparison, search, hashing and packing. Seven bytes behind each text can be read.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Array8, Cell, SizedOperator, Vector, Vector32, vector_at
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import load_any
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.hashing.hash_set import MAX_HASH
from deltamark.dataflow.kernels.hashing.mixing import mix
from deltamark.dataflow.kernels.status import DONE, FAILED
from deltamark.dataflow.types import NULL


@inline
def first_bytes(start: int, length: int) -> int:
    """Return the first eight bytes; missing ones are zero."""
    word = load_any(start)
    return word if length >= 8 else word & ((1 << (8 * length)) - 1)


@inline
def big_endian(word: int) -> int:
    """Reverse seven bytes, so that numbers are in the order of bytes."""
    turned = 0
    for _ in range(7):
        turned = turned << 8 | (word & 255)
        word >>= 8
    return turned


@kernel
def equal_bytes(a: int, b: int, length: int) -> bool:
    """Return whether bytes are equal. Reads up to seven more bytes, and ignores them."""
    while length >= 8:
        if load_any(a) != load_any(b):
            return False
        a, b, length = a + 8, b + 8, length - 8
    return length == 0 or (load_any(a) ^ load_any(b)) << (64 - 8 * length) == 0


@kernel
def precedes_bytes(a: int, a_length: int, b: int, b_length: int) -> bool:
    """Return whether one text comes before another. Reads up to seven more bytes of each, and ignores them."""
    length = min(a_length, b_length)
    while length > 0:
        one, other = big_endian(first_bytes(a, min(length, 7))), big_endian(first_bytes(b, min(length, 7)))
        if one != other:
            return one < other
        a, b, length = a + 7, b + 7, length - 7
    return a_length < b_length


@kernel
def hash_bytes(start: int, length: int) -> int:
    """Return the hash of a text."""
    mixed, left = length, length
    while left > 0:
        mixed = mix(mixed, first_bytes(start, left))
        start, left = start + 8, left - 8
    return mixed & MAX_HASH


ONES = 0x0101010101010101
"""Each byte is 1."""

HIGH_BITS = -0x7F7F7F7F7F7F7F80
"""The highest bit of each byte."""


@kernel
def search(place: int, end: int, piece: int, length: int) -> int:
    """Return the address behind the first occurrence of a piece, 0 if there is none.

    Eight places are excluded at a time, by the first two bytes of the piece.
    """
    if length == 0:
        return place
    shift, second = 64 - 8 * min(length, 8), min(length - 1, 1)
    wanted, last = load_any(piece) << shift, end - length
    ones, others = (load_any(piece) & 255) * ONES, (load_any(piece + second) & 255) * ONES
    while place <= last:
        differing = (load_any(place) ^ ones) | (load_any(place + second) ^ others)
        if (differing - ONES) & ~differing & HIGH_BITS == 0:  # no byte is zero
            place += 8
            continue
        stop = min(place + 8, last + 1)
        while place < stop:
            if load_any(place) << shift == wanted and (length <= 8 or equal_bytes(place, piece, length)):
                return place + length
            place += 1
    return 0


class InputTextsBlock(SizedOperator):
    """The texts of an input's column, at their addresses in the feed."""

    offsets: Vector32
    base: Cell
    """The address of the bytes, to which the offsets are added."""
    rows: int
    """The cell of a selection, 0 for all rows."""
    missing: int
    """The cell of bytes that are 1 for a missing text, 0 if none is missing."""
    start: Vector
    length: Vector


class TextFunctionBlock(SizedOperator):
    """A function of a column of texts."""

    start: Vector
    length: Vector
    result: Vector


class MatchBlock(TextFunctionBlock):
    """Tests whether a text consists of pieces, in order, with anything between them."""

    pieces: Array
    """For each piece its address and its length."""
    count: int


class TextPairBlock(TextFunctionBlock):
    """A function of two columns of texts."""

    other_start: Vector
    other_length: Vector


class SubstringBlock(TextFunctionBlock):
    """Packs some characters as a short text; `first` counts from 1."""

    first: int
    count: int


@kernel
def input_texts(op: InputTextsBlock) -> None:
    """Write the addresses and lengths of an input's texts; a missing one has length -1."""
    size, offsets, base, starts, lengths = op.size, op.offsets, op.base, op.start, op.length
    if op.rows == 0:
        for at in range(size):
            start = offsets[at]
            starts[at] = base + start
            lengths[at] = offsets[at + 1] - start
    else:
        rows = vector_at(op.rows)
        for at in range(size):
            start = offsets[rows[at]]
            starts[at] = base + start
            lengths[at] = offsets[rows[at] + 1] - start
    if op.missing != 0:
        _mark_missing(op, size, lengths)


@kernel
def _mark_missing(op: InputTextsBlock, size: int, lengths: Array) -> None:
    missing = Array8(vector_at(op.missing))
    for at in range(size):
        row = at if op.rows == 0 else vector_at(op.rows)[at]
        if missing[row] != 0:
            lengths[at] = -1


@kernel
def match(op: MatchBlock) -> None:
    """Test texts for a pattern."""
    starts, lengths, result, pieces, count = op.start, op.length, op.result, op.pieces, op.count
    for at in range(op.size):
        result[at] = 1 if _matches(starts[at], lengths[at], pieces, count) else 0


@kernel
def _matches(start: int, length: int, pieces: Array, count: int) -> bool:
    first, last = pieces[1], pieces[2 * count - 1]
    if count == 1:
        return length == first and equal_bytes(start, pieces[0], first)
    if length < first + last or not equal_bytes(start, pieces[0], first):
        return False
    end = start + length - last
    if not equal_bytes(end, pieces[2 * count - 2], last):
        return False
    place = start + first
    for piece in range(1, count - 1):
        place = search(place, end, pieces[2 * piece], pieces[2 * piece + 1])
        if place == 0:
            return False
    return True


@kernel
def precedes(op: TextPairBlock) -> None:
    """Test whether texts come before others in the order of their bytes."""
    starts, lengths, others, other_lengths, result = op.start, op.length, op.other_start, op.other_length, op.result
    for at in range(op.size):
        result[at] = 1 if precedes_bytes(starts[at], lengths[at], others[at], other_lengths[at]) else 0


@kernel
def substring(op: SubstringBlock) -> int:
    """Pack characters of texts, none of a missing one; return FAILED if they have more bytes than fit."""
    starts, lengths, result, before, count = op.start, op.length, op.result, op.first - 1, op.count
    for at in range(op.size):
        place = starts[at]
        end = place + lengths[at]
        first = skip(place, end, before)
        size = skip(first, end, count) - first
        if size > 7:
            return FAILED
        result[at] = big_endian(first_bytes(first, size)) << 3 | size if size > 0 else 0
    return DONE


@kernel
def skip(place: int, end: int, characters: int) -> int:
    """Return the address behind a number of characters of UTF-8, or the end."""
    while characters > 0 and place < end:
        place += 1
        while place < end and Array8(place)[0] & 0xC0 == 0x80:
            place += 1
        characters -= 1
    return place


@kernel
def prefix(op: TextFunctionBlock) -> None:
    """Pack the first seven bytes of texts: a smaller number comes no later in the order of texts."""
    starts, lengths, result = op.start, op.length, op.result
    for at in range(op.size):
        length = lengths[at]
        if length > 0:
            result[at] = big_endian(first_bytes(starts[at], min(length, 7)))
        else:
            result[at] = NULL if length < 0 else 0


@kernel
def hashes(op: TextFunctionBlock) -> None:
    """Hash the bytes of texts."""
    starts, lengths, result = op.start, op.length, op.result
    for at in range(op.size):
        result[at] = hash_bytes(starts[at], lengths[at])


INPUT_TEXTS, MATCH, PRECEDES = step(input_texts), step(match), step(precedes)
SUBSTRING, PREFIX, HASHES = step(substring), step(prefix), step(hashes)
