"""Garbage collection: the numbers of texts that no state holds, and the ids of groups without rows.

Every state that holds numbers of texts marks them; then the pool frees the texts without a mark. Since this visits each
state once, it is done when there are twice as many texts and ids as the last collection has left. Uses are not counted:
a count cannot be right if rows of both signs share a text or a group, or if a worker only passes rows on.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock
from deltamark.dataflow.kernels.arrangements.slots import is_dead
from deltamark.dataflow.kernels.core.blocks import Array, Array8, Array32
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.groups.grouped_rows import RowTable, record_at
from deltamark.dataflow.kernels.hashing import interner as interner_kernel
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap
from deltamark.dataflow.kernels.hashing.hash_set import remove
from deltamark.dataflow.kernels.hashing.interner import InternerBlock
from deltamark.dataflow.kernels.text.functions import hash_bytes
from deltamark.dataflow.kernels.text.pool import FREE_NUMBER, TextPool, size_of


@inline
def _mark(pool: TextPool, number: int) -> None:
    """Mark a number, unless it is NULL or no number of this pool: a free slot may hold anything."""
    if 0 <= number < pool.next_number:
        pool.marks[number] = 1


@kernel
def mark_keys(pool: TextPool, keys: KeyMap, divisor: int, radix: int, low: int) -> None:
    """Mark the texts among the keys of a hashed map: the digit of each key of this radix, or the key if it is 0."""
    table = keys.table
    for slot in range(keys.mask + 1):
        if table[2 * slot + 1] != 0:
            key = table[2 * slot]
            _mark(pool, key if radix == 0 else key // divisor % radix + low)


@kernel
def mark_interned(pool: TextPool, interner: InternerBlock, column: int) -> None:
    """Mark the texts in a column of an interner's rows."""
    table, stored = interner.table, interner.stored[column]
    for place in range(interner.mask + 1):
        if table[place] != 0:
            _mark(pool, stored[interner_kernel.id_in(table[place])])


@kernel
def mark_arranged(pool: TextPool, rows: ArrangementBlock, column: int) -> None:
    """Mark the texts in a stored column of an arrangement."""
    stored, narrow = rows.stored[column], Array32(rows.stored[column])
    for slot in range(rows.top):
        if not is_dead(rows, slot):
            _mark(pool, stored[slot] if column < rows.wide else narrow[slot])


@kernel
def mark_rows(pool: TextPool, rows: RowTable, column: int, is_complemented: int, is_free: Array8) -> None:
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
def free_ids(interner: InternerBlock, state: Array, words: int) -> None:
    """Free the ids of an interner under which an aggregate has no rows, and only zeros in its record."""
    table = interner.table
    for place in range(interner.mask + 1):
        while table[place] != 0 and _is_unused(interner, state, words, interner_kernel.id_in(table[place])):
            interner_kernel.free_id(interner, interner_kernel.id_in(table[place]))  # may move another entry here


@inline
def _is_unused(interner: InternerBlock, state: Array, words: int, row: int) -> bool:
    used = interner.count[row] != 0
    for word in range(words):
        used |= state[words * row + word] != 0
    return not used


@kernel
def sweep(pool: TextPool) -> None:
    """Free the texts without a mark, and remove all marks."""
    for number in range(pool.next_number):
        if pool.marks[number] == 0 and pool.lengths[number] != FREE_NUMBER:
            _free_text(pool, number)
        pool.marks[number] = 0


@kernel
def _free_text(pool: TextPool, number: int) -> None:
    start, length = pool.starts[number], pool.lengths[number]
    remove(pool.table, pool.mask, hash_bytes(start, length), number + 1)
    which, _ = size_of(length)
    Array(start)[0] = pool.holes[which]
    pool.holes[which] = start
    pool.lengths[number] = FREE_NUMBER
    pool.free[pool.freed] = number
    pool.freed += 1
    pool.used -= 1
