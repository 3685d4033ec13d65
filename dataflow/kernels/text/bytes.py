"""Bytes at an address: comparison, search, hashing and packing. Seven bytes behind each text can be read."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import load_any
from deltamark.dataflow.kernels.hashing.hash_set import MAX_HASH
from deltamark.dataflow.kernels.hashing.mixing import mix


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


@kernel
def search(place: int, end: int, piece: int, length: int) -> int:
    """Return the address behind the first occurrence of a piece, 0 if there is none."""
    if length == 0:
        return place
    shift = 64 - 8 * min(length, 8)
    wanted = load_any(piece) << shift
    while place + length <= end:
        if load_any(place) << shift == wanted and (length <= 8 or equal_bytes(place, piece, length)):
            return place + length
        place += 1
    return 0
