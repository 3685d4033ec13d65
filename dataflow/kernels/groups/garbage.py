"""Garbage collection: the numbers of texts that no state holds, and the ids of groups that are gone.

Every state that holds numbers of texts marks them; then the pool frees the texts without a mark. Since this visits each
state once, it is done when there are twice as many texts and ids as the last collection has left. Uses are not counted:
a count cannot be right if rows of both signs share a text or a group, or if a worker only passes rows on.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements.arrangement import Arrangement
from deltamark.dataflow.kernels.core import interner
from deltamark.dataflow.kernels.core.blocks import Array, Array8
from deltamark.dataflow.kernels.core.hash_map import KeyMap
from deltamark.dataflow.kernels.core.hash_set import take_out
from deltamark.dataflow.kernels.core.memory import inline, kernel, load, load8, store, store8
from deltamark.dataflow.kernels.core.text import (
    FREE,
    FREED,
    GONE,
    HOLES,
    LENGTHS,
    MARKS,
    MASK,
    NEXT,
    STARTS,
    TABLE,
    USED,
    hash_of,
    size_of,
)
from deltamark.dataflow.kernels.groups.grouped_rows import RowTable, record_at


@inline
def _mark(pool: int, number: int) -> None:
    """Mark a number, unless it is NULL or no number of this pool: an unused slot may hold any word."""
    if 0 <= number < load(pool, NEXT):
        store8(load(pool, MARKS), number, 1)


@kernel
def mark_keys(pool: int, keys: KeyMap, divisor: int, radix: int, low: int) -> None:
    """Mark the texts in the keys of a hashed map: a digit of each key, or the key itself if the radix is 0."""
    table = keys.table
    for slot in range(keys.mask + 1):
        if table[2 * slot + 1] != 0:
            key = table[2 * slot]
            _mark(pool, key if radix == 0 else key // divisor % radix + low)


@kernel
def mark_interned(pool: int, shared: int, column: int) -> None:
    """Mark the texts in a column of the rows of an interner."""
    table, stored = load(shared, interner.TABLE), load(load(shared, interner.STORED), column)
    for slot in range(load(shared, interner.MASK) + 1):
        if load(table, slot) != 0:
            _mark(pool, load(stored, load(table, slot) - 1))


@kernel
def mark_arranged(pool: int, rows: Arrangement, column: int, is_free: Array8) -> None:
    """Mark the texts in a stored column of an arrangement. is_free: a byte for each slot, zero before and after."""
    stored, following, link = rows.stored[column], rows.next, rows.free
    while link != 0:
        is_free[link - 1] = 1
        link = following[link - 1]
    for slot in range(rows.mark + rows.first):
        if is_free[slot] == 0:
            _mark(pool, stored[slot])
        is_free[slot] = 0


@kernel
def mark_rows(pool: int, rows: RowTable, column: int, is_complemented: int, is_free: Array8) -> None:
    """Mark the texts in a column of grouped rows. is_free: a byte for each slot, zero before and after."""
    slot = rows.free_slot
    while slot != 0:
        is_free[slot] = 1
        slot = record_at(rows, slot).next_free
    for slot in range(1, rows.next_slot):
        if is_free[slot] == 0:
            number = record_at(rows, slot).values[column]
            _mark(pool, -1 - number if is_complemented != 0 else number)
        is_free[slot] = 0


@kernel
def free_ids(shared: int, state: Array, words: int) -> None:
    """Free the ids of an interner without rows whose states in an aggregate are zero."""
    table = load(shared, interner.TABLE)
    for slot in range(load(shared, interner.MASK) + 1):
        while load(table, slot) != 0 and _is_free(shared, state, words, load(table, slot) - 1):
            interner.remove(shared, load(table, slot) - 1)  # this may move another id to this slot


@inline
def _is_free(shared: int, state: Array, words: int, row: int) -> bool:
    used = load(load(shared, interner.COUNT), row) != 0
    for word in range(words * row, words * (row + 1)):
        used |= state[word] != 0
    return not used


@kernel
def sweep(pool: int) -> None:
    """Free the texts without a mark, and clear all marks."""
    marks, lengths = load(pool, MARKS), load(pool, LENGTHS)
    for number in range(load(pool, NEXT)):
        if load8(marks, number) == 0 and load(lengths, number) != GONE:
            _remove(pool, number)
        store8(marks, number, 0)


@kernel
def _remove(pool: int, number: int) -> None:
    """Free a text."""
    start, length = load(load(pool, STARTS), number), load(load(pool, LENGTHS), number)
    take_out(load(pool, TABLE), load(pool, MASK), hash_of(start, length), number + 1)
    which, _ = size_of(length)
    store(start, 0, load(load(pool, HOLES), which))
    store(load(pool, HOLES), which, start)
    store(load(pool, LENGTHS), number, GONE)
    store(load(pool, FREE), load(pool, FREED), number)
    store(pool, FREED, load(pool, FREED) + 1)
    store(pool, USED, load(pool, USED) - 1)
