"""The pool of texts: one copy of each stored text, with a number by which texts are compared.

Equal texts have one number, whatever their column. Uses are not counted: between feeds a sweep marks the numbers in
all states, and frees the texts without a mark (see `kernels.groups.garbage`).
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Array8, Block, SizedOperator, Vector
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import prefetch
from deltamark.dataflow.kernels.core.memory import Memory
from deltamark.dataflow.kernels.core.steps import doubled, move_table, step
from deltamark.dataflow.kernels.hashing.hash_set import move_entries
from deltamark.dataflow.kernels.status import NEEDS_ROOM
from deltamark.dataflow.kernels.text.functions import TextFunctionBlock, equal_bytes, first_bytes, hash_bytes
from deltamark.dataflow.types import NULL

FREE_NUMBER = -1
"""The length of the text of a number that is free."""

SIZES, EXACT_WORDS = 128, 64
"""Lists of holes: one for each number of words up to EXACT_WORDS, and one for each larger power of two."""

TABLE_AHEAD, TEXT_AHEAD = 16, 8
"""The number of rows by which entries of the table, and addresses of texts, are prefetched ahead. Not measured."""


class TextPool(Block):
    """The texts that have a number, each once."""

    table: Array
    """Entries of a 31-bit hash and, in the low 32 bits, number + 1."""
    mask: int
    used: int = 0
    next_number: int = 0
    """The first number that was never given."""
    free: Array
    """A stack of the `freed` numbers, which are given again."""
    freed: int = 0
    starts: Array
    lengths: Array
    heap: int
    """The address of the first byte that was never used."""
    holes: Array
    """For each list of holes the address of the first; a hole begins with the address of the next."""
    marks: Array8
    """A byte for each number: 1 if a sweep has found it in use."""


class NumberedTextsBlock(SizedOperator):
    """The texts of numbers."""

    pool: TextPool
    numbers: Vector
    start: Vector
    length: Vector


class NumberTextsBlock(TextFunctionBlock):
    """Numbers texts."""

    pool: TextPool


@kernel
def number_texts(op: NumberTextsBlock) -> int:
    """Find the numbers of texts, unless the table must grow first."""
    size, starts, lengths, result, pool = op.size, op.start, op.length, op.result, op.pool
    if 2 * (pool.used + size) > pool.mask + 1:
        return NEEDS_ROOM
    table, mask, pool_starts = pool.table, pool.mask, pool.starts
    for at in range(size):
        result[at] = hash_bytes(starts[at], lengths[at])
    for at in range(size):
        if at + TABLE_AHEAD < size:
            prefetch(table[result[at + TABLE_AHEAD] & mask :].address)
            prefetch(pool_starts[(table[result[at + TEXT_AHEAD] & mask] & 0xFFFFFFFF) - 1 :].address)
        length = lengths[at]
        result[at] = NULL if length < 0 else _find(pool, starts[at], length, result[at])
    return 0


@kernel
def _find(pool: TextPool, start: int, length: int, text_hash: int) -> int:
    """Return the number of a text, giving it one if it has none."""
    table, mask = pool.table, pool.mask
    place = text_hash & mask
    while True:
        entry = table[place]
        if entry == 0:
            break
        found = (entry & 0xFFFFFFFF) - 1
        if (
            entry >> 32 == text_hash
            and pool.lengths[found] == length
            and equal_bytes(start, pool.starts[found], length)
        ):
            return found
        place = (place + 1) & mask
    if pool.freed > 0:
        pool.freed -= 1
        new = pool.free[pool.freed]
    else:
        new = pool.next_number
        pool.next_number = new + 1
    table[place] = text_hash << 32 | (new + 1)
    pool.used += 1
    pool.starts[new] = _copy(pool, start, length)
    pool.lengths[new] = length
    return new


@inline
def size_of(length: int) -> tuple[int, int]:
    """Return the list of holes for a text, and the number of words in such a hole."""
    words = max((length + 7) >> 3, 1)
    if words <= EXACT_WORDS:
        return words - 1, words
    which, size = EXACT_WORDS, 2 * EXACT_WORDS
    while size < words:
        which, size = which + 1, 2 * size
    return which, size


@kernel
def _copy(pool: TextPool, start: int, length: int) -> int:
    """Copy a text to the heap, zeros behind its end; return its address."""
    which, words = size_of(length)
    address = pool.holes[which]
    if address != 0:
        pool.holes[which] = Array(address)[0]
    else:
        address = pool.heap
        pool.heap = address + 8 * words
    copy = Array(address)
    copy[0] = 0
    for word in range((length + 7) >> 3):
        copy[word] = first_bytes(start + 8 * word, length - 8 * word)
    return address


@kernel
def rehash(pool: TextPool, table: Array, mask: int) -> None:
    """Move all entries to an empty table of another size."""
    move_entries(pool.table, pool.mask, table, mask)
    pool.table = table
    pool.mask = mask


@kernel
def precedes(pool: TextPool, a: int, b: int) -> bool:
    """Return whether text a comes before text b, by bytes. Complemented numbers stand for the reverse order."""
    if a < 0:
        a, b = -1 - b, -1 - a
    first, second, left, right = Array8(pool.starts[a]), Array8(pool.starts[b]), pool.lengths[a], pool.lengths[b]
    for at in range(min(left, right)):
        if first[at] != second[at]:
            return first[at] < second[at]
    return left < right


@kernel
def numbered_texts(op: NumberedTextsBlock) -> None:
    """Write the addresses and lengths of numbered texts; a missing one has length -1."""
    numbers, starts, lengths, pool_starts, pool_lengths = (
        op.numbers,
        op.start,
        op.length,
        op.pool.starts,
        op.pool.lengths,
    )
    for at in range(op.size):
        number = numbers[at]
        missing = number == NULL
        starts[at] = 0 if missing else pool_starts[number]
        lengths[at] = -1 if missing else pool_lengths[number]


def _grow(memory: Memory, op: NumberTextsBlock) -> None:
    pool = op.pool
    slots = 2 * doubled(pool.mask + 1, pool.used + op.size)
    move_table(memory, pool.table, slots, lambda table: rehash(pool, table, slots - 1))


NUMBERED_TEXTS, NUMBER_TEXTS = step(numbered_texts), step(number_texts, grow=_grow)
