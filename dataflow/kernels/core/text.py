"""Text: found once, numbered, and compared by number from then on.

Operators see text as two vectors, where its bytes start and how many they are: of an input's rows as they lie in the
feed, or of texts that have a number. What is only looked at (match, substring) is never copied. What is kept gets a
number from the POOL, which holds one copy of each text; equal texts have one number, in whatever column they are.
Nothing counts who uses a number: between feeds all states can be asked, and what none of them holds is given back (see
kernels.groups.garbage).
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.hash_set import move
from deltamark.dataflow.kernels.core.memory import inline, kernel, load, load8, load32, load_any, prefetch, store
from deltamark.dataflow.types import NULL

# refer and refer_numbers: the rows of a slice -> vectors START and LENGTH
SIZE, OFFSETS, BYTES, ROWS, START, LENGTH, MISSING = range(1, 8)
"""OFFSETS, BYTES: cells of an input's offsets and bytes. ROWS: the cell of a selection, 0: all. MISSING: the cell of
bytes that are 1 where there is no text, 0: every row has one."""
NUMBERED_BY, NUMBERS = 2, 3
"""refer_numbers: the pool, and the cell of numbers."""

# match, substring, prefix, number: vectors START and LENGTH, in these fields -> RESULT
A_START, A_LENGTH, RESULT, PARAMETER, COUNT = range(2, 7)

# number, besides
POOL = 5

# the pool
TABLE, MASK, USED, NEXT, FREE, FREED, STARTS, LENGTHS, HEAP, HOLES, MARKS = range(11)
POOL_WORDS = 11
"""TABLE: MASK + 1 words, 32 bits hash, 32 bits 1 + number. FREE: a stack of FREED numbers. LENGTHS: GONE for a number
that is free. HEAP: the first byte that was never used; HOLES: for each size the first of a list of free ones. MARKS: a
byte a number, 1 for those that a sweep has found in use."""

GONE = -1

SIZES = 128
EXACT_WORDS = 64
"""Up to so many words each size has a list of holes of its own; beyond, sizes are powers of two."""

FOREVER = 2**62
CROWDED, TOO_LONG = 1, 2
"""Statuses: the table must grow first, nothing was done; a substring has more bytes than fit."""

FAR, NEAR = 16, 8


@kernel
def refer(op: int) -> int:
    """Say where the texts of an input's rows lie."""
    size, offsets, base = load(load(op, SIZE), 0), load(load(op, OFFSETS), 0), load(load(op, BYTES), 0)
    starts, lengths = load(load(op, START), 0), load(load(op, LENGTH), 0)
    if load(op, ROWS) == 0:
        for at in range(size):
            start = load32(offsets, at)
            store(starts, at, base + start)
            store(lengths, at, load32(offsets, at + 1) - start)
    else:
        rows = load(load(op, ROWS), 0)
        for at in range(size):
            row = load(rows, at)
            start = load32(offsets, row)
            store(starts, at, base + start)
            store(lengths, at, load32(offsets, row + 1) - start)
    if load(op, MISSING) != 0:
        _leave_out(op, size, lengths)
    return 0


@kernel
def _leave_out(op: int, size: int, lengths: int) -> None:
    """Give length -1 to the rows that have no text."""
    flags = load(load(op, MISSING), 0)
    for at in range(size):
        row = at if load(op, ROWS) == 0 else load(load(load(op, ROWS), 0), at)
        if load8(flags, row) != 0:
            store(lengths, at, -1)


@kernel
def refer_numbers(op: int) -> int:
    """Say where the texts of numbers lie; a missing one has length -1."""
    size, pool, numbers = load(load(op, SIZE), 0), load(op, NUMBERED_BY), load(load(op, NUMBERS), 0)
    starts, lengths = load(load(op, START), 0), load(load(op, LENGTH), 0)
    pool_starts, pool_lengths = load(pool, STARTS), load(pool, LENGTHS)
    for at in range(size):
        number = load(numbers, at)
        missing = number == NULL
        store(starts, at, 0 if missing else load(pool_starts, number))
        store(lengths, at, -1 if missing else load(pool_lengths, number))
    return 0


@inline
def _first_bytes(start: int, length: int) -> int:
    """Return the first eight bytes, zero where there are fewer."""
    word = load_any(start)
    return word if length >= 8 else word & ((1 << (8 * length)) - 1)


@inline
def _big_endian(word: int) -> int:
    """Turn seven bytes around, so that the order of numbers is that of bytes."""
    turned = 0
    for _ in range(7):
        turned = turned << 8 | (word & 255)
        word >>= 8
    return turned


@kernel
def match(op: int) -> int:
    """Does a text consist of the COUNT pieces at PARAMETER, in order, with anything between them?"""
    size, result = load(load(op, SIZE), 0), load(load(op, RESULT), 0)
    starts, lengths = load(load(op, A_START), 0), load(load(op, A_LENGTH), 0)
    pieces, count = load(op, PARAMETER), load(op, COUNT)
    for at in range(size):
        store(result, at, 1 if _matches(load(starts, at), load(lengths, at), pieces, count) else 0)
    return 0


@kernel
def _matches(start: int, length: int, pieces: int, count: int) -> bool:
    first, last = load(pieces, 1), load(pieces, 2 * count - 1)
    if count == 1:
        return length == first and _equal(start, load(pieces, 0), first)
    if length < first + last or not _equal(start, load(pieces, 0), first):
        return False
    end = start + length - last
    if not _equal(end, load(pieces, 2 * count - 2), last):
        return False
    place = start + first
    for piece in range(1, count - 1):
        place = _search(place, end, load(pieces, 2 * piece), load(pieces, 2 * piece + 1))
        if place == 0:
            return False
    return True


@kernel
def _equal(a: int, b: int, length: int) -> bool:
    """Are so many bytes equal? Reads up to seven more, and leaves them out."""
    while length >= 8:
        if load_any(a) != load_any(b):
            return False
        a, b, length = a + 8, b + 8, length - 8
    return length == 0 or (load_any(a) ^ load_any(b)) << (64 - 8 * length) == 0


@kernel
def _search(place: int, end: int, piece: int, length: int) -> int:
    """Return the address after the first occurrence of a piece, 0 where there is none."""
    if length == 0:
        return place
    shift = 64 - 8 * min(length, 8)
    wanted = load_any(piece) << shift
    while place + length <= end:
        if load_any(place) << shift == wanted and (length <= 8 or _equal(place, piece, length)):
            return place + length
        place += 1
    return 0


@kernel
def substring(op: int) -> int:
    """Take COUNT characters from character PARAMETER (the first is 1) on, packed as a short text."""
    size, result = load(load(op, SIZE), 0), load(load(op, RESULT), 0)
    starts, lengths = load(load(op, A_START), 0), load(load(op, A_LENGTH), 0)
    before, count = load(op, PARAMETER) - 1, load(op, COUNT)
    for at in range(size):
        place = load(starts, at)
        end = place + load(lengths, at)
        first = _skip(place, end, before)
        taken = _skip(first, end, count) - first
        if taken > 7:
            return TOO_LONG
        store(result, at, _big_endian(_first_bytes(first, taken)) << 3 | taken)
    return 0


@kernel
def _skip(place: int, end: int, characters: int) -> int:
    """Return the address after so many characters of UTF-8, or the end."""
    while characters > 0 and place < end:
        place += 1
        while place < end and load8(place, 0) & 0xC0 == 0x80:
            place += 1
        characters -= 1
    return place


@kernel
def prefix(op: int) -> int:
    """Pack the first seven bytes: what is less comes no later in the order of texts."""
    size, result = load(load(op, SIZE), 0), load(load(op, RESULT), 0)
    starts, lengths = load(load(op, A_START), 0), load(load(op, A_LENGTH), 0)
    for at in range(size):
        length = load(lengths, at)
        store(result, at, NULL if length < 0 else _big_endian(_first_bytes(load(starts, at), min(length, 7))))
    return 0


@kernel
def number(op: int) -> int:
    """Number texts."""
    size, result, pool = load(load(op, SIZE), 0), load(load(op, RESULT), 0), load(op, POOL)
    if 2 * (load(pool, USED) + size) > load(pool, MASK) + 1:
        return CROWDED
    starts, lengths = load(load(op, A_START), 0), load(load(op, A_LENGTH), 0)
    table, mask, pool_starts = load(pool, TABLE), load(pool, MASK), load(pool, STARTS)
    for at in range(size):
        store(result, at, hash_of(load(starts, at), load(lengths, at)))
    for at in range(size):
        if at + FAR < size:
            prefetch(table + 8 * (load(result, at + FAR) & mask))
            prefetch(pool_starts + 8 * ((load(table, load(result, at + NEAR) & mask) & 0xFFFFFFFF) - 1))
        length = load(lengths, at)
        if length < 0:
            store(result, at, NULL)
            continue
        store(result, at, _find(pool, load(starts, at), length, load(result, at)))
    return 0


@kernel
def hashes(op: int) -> int:
    """Hash the bytes of texts."""
    size, result = load(load(op, SIZE), 0), load(load(op, RESULT), 0)
    starts, lengths = load(load(op, A_START), 0), load(load(op, A_LENGTH), 0)
    for at in range(size):
        store(result, at, hash_of(load(starts, at), load(lengths, at)))
    return 0


@kernel
def hash_of(start: int, length: int) -> int:
    """Hash to 31 bits."""
    mixed, left = length, length
    while left > 0:
        mixed = (mixed ^ _first_bytes(start, left)) * -7046029254386353131
        mixed ^= mixed >> 29
        start, left = start + 8, left - 8
    return (mixed ^ (mixed >> 32)) & 0x7FFFFFFF


@kernel
def _find(pool: int, start: int, length: int, hashed: int) -> int:
    """Return the number of a text, giving it one if need be."""
    table, mask = load(pool, TABLE), load(pool, MASK)
    place = hashed & mask
    while True:
        entry = load(table, place)
        if entry == 0:
            break
        found = (entry & 0xFFFFFFFF) - 1
        same = entry >> 32 == hashed and load(load(pool, LENGTHS), found) == length
        if same and _equal(start, load(load(pool, STARTS), found), length):
            return found
        place = (place + 1) & mask
    if load(pool, FREED) > 0:
        store(pool, FREED, load(pool, FREED) - 1)
        new = load(load(pool, FREE), load(pool, FREED))
    else:
        new = load(pool, NEXT)
        store(pool, NEXT, new + 1)
    store(table, place, hashed << 32 | (new + 1))
    store(pool, USED, load(pool, USED) + 1)
    store(load(pool, STARTS), new, _copied(pool, start, length))
    store(load(pool, LENGTHS), new, length)
    return new


@inline
def size_of(length: int) -> tuple[int, int]:
    """Return the list of holes for a text, and its words."""
    words = max((length + 7) >> 3, 1)
    if words <= EXACT_WORDS:
        return words - 1, words
    which, size = EXACT_WORDS, 2 * EXACT_WORDS
    while size < words:
        which, size = which + 1, 2 * size
    return which, size


@kernel
def _copied(pool: int, start: int, length: int) -> int:
    """Copy a text to the heap, zero behind its end; return its address."""
    which, words = size_of(length)
    address = load(load(pool, HOLES), which)
    if address != 0:
        store(load(pool, HOLES), which, load(address, 0))
    else:
        address = load(pool, HEAP)
        store(pool, HEAP, address + 8 * words)
    store(address, 0, 0)
    for word in range((length + 7) >> 3):
        store(address, word, _first_bytes(start + 8 * word, length - 8 * word))
    return address


@kernel
def rehash(pool: int, table: int, mask: int) -> None:
    """Move to an empty table of another size."""
    move(load(pool, TABLE), load(pool, MASK), table, mask)
    store(pool, TABLE, table)
    store(pool, MASK, mask)


@kernel
def precedes(pool: int, a: int, b: int) -> bool:
    """Does text a come before text b, by bytes? Complemented numbers (negative ones) stand for the reverse order."""
    if a < 0:
        a, b = -1 - b, -1 - a
    first, second = load(load(pool, STARTS), a), load(load(pool, STARTS), b)
    left, right = load(load(pool, LENGTHS), a), load(load(pool, LENGTHS), b)
    for at in range(min(left, right)):
        if load8(first, at) != load8(second, at):
            return load8(first, at) < load8(second, at)
    return left < right
