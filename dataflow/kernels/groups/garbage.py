"""Sweep: give back the texts whose number no state holds, and the ids of groups that are no more.

All states that hold numbers of texts mark them, each in its own way; then the pool forgets every text without a mark.
That looks at each state once, so it is done when there are twice as many texts and ids as were left the last time. Uses
are not counted: a count cannot be right where rows of both signs share a text or a group, or where a worker only passes
rows on.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements import arrangement
from deltamark.dataflow.kernels.core import hash_map, interner
from deltamark.dataflow.kernels.core.hash_set import take_out
from deltamark.dataflow.kernels.core.memory import inline, kernel, load, load8, load32, store, store8
from deltamark.dataflow.kernels.core.text import (  # fmt: skip
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
from deltamark.dataflow.kernels.groups import grouped_rows


@inline
def _mark(pool: int, number: int) -> None:
    """Mark a number, unless it is NULL or not a number of this pool: a free slot may hold anything."""
    if 0 <= number < load(pool, NEXT):
        store8(load(pool, MARKS), number, 1)


@kernel
def mark_keys(pool: int, keys: int, divisor: int, radix: int, low: int) -> None:
    """Mark the texts among the keys of a hashed map: the digit of each key of this radix (0: the key itself)."""
    table = load(keys, hash_map.TABLE)
    for slot in range(load(keys, hash_map.MASK) + 1):
        if load(table, 2 * slot + 1) != 0:
            key = load(table, 2 * slot)
            _mark(pool, key if radix == 0 else key // divisor % radix + low)


@kernel
def mark_interned(pool: int, shared: int, column: int) -> None:
    """Mark the texts in a column of the rows that an interner numbers."""
    table, stored = load(shared, interner.TABLE), load(load(shared, interner.STORED), column)
    for slot in range(load(shared, interner.MASK) + 1):
        if load(table, slot) != 0:
            _mark(pool, load(stored, load(table, slot) - 1))


@kernel
def mark_arranged(pool: int, block: int, column: int, free: int) -> None:
    """Mark the texts in a stored column of an arrangement. free: a byte a slot, all zero, before and after."""
    stored, following = load(load(block, arrangement.STORED), column), load(block, arrangement.NEXT)
    link = load(block, arrangement.FREE)
    while link != 0:
        store8(free, link - 1, 1)
        link = load32(following, link - 1)
    for slot in range(load(block, arrangement.MARK) + load(block, arrangement.FIRST)):
        if load8(free, slot) == 0:
            _mark(pool, load(stored, slot))
        store8(free, slot, 0)


@kernel
def mark_rows(pool: int, block: int, column: int, turned: int, free: int) -> None:
    """Mark the texts in a column of an operator's rows, which may be complemented. free: as above."""
    records, words = load(block, grouped_rows.RECORDS), 8 * load(block, grouped_rows.WORDS)
    slot = load(block, grouped_rows.FREE)
    while slot != 0:
        store8(free, slot, 1)
        slot = load(records + words * slot, grouped_rows.A)
    for slot in range(1, load(block, grouped_rows.NEXT)):
        if load8(free, slot) == 0:
            number = load(records + words * slot, grouped_rows.VALUES + column)
            _mark(pool, -1 - number if turned != 0 else number)
        store8(free, slot, 0)


@kernel
def free_ids(shared: int, state: int, words: int) -> None:
    """Give back the ids of an interner under which an aggregate has no rows, and records of zeros."""
    table = load(shared, interner.TABLE)
    for slot in range(load(shared, interner.MASK) + 1):
        while load(table, slot) != 0 and _is_free(shared, state, words, load(table, slot) - 1):
            interner.remove(shared, load(table, slot) - 1)  # which may move another one here


@inline
def _is_free(shared: int, state: int, words: int, row: int) -> bool:
    used = load(load(shared, interner.COUNT), row) != 0
    for word in range(words):
        used |= load(state + 8 * words * row, word) != 0
    return not used


@kernel
def sweep(pool: int) -> None:
    """Give back the texts without a mark, and take all marks away."""
    marks, lengths = load(pool, MARKS), load(pool, LENGTHS)
    for number in range(load(pool, NEXT)):
        if load8(marks, number) == 0 and load(lengths, number) != GONE:
            _remove(pool, number)
        store8(marks, number, 0)


@kernel
def _remove(pool: int, number: int) -> None:
    """Forget a text."""
    start, length = load(load(pool, STARTS), number), load(load(pool, LENGTHS), number)
    take_out(load(pool, TABLE), load(pool, MASK), hash_of(start, length), number + 1)
    which, _ = size_of(length)
    store(start, 0, load(load(pool, HOLES), which))
    store(load(pool, HOLES), which, start)
    store(load(pool, LENGTHS), number, GONE)
    store(load(pool, FREE), load(pool, FREED), number)
    store(pool, FREED, load(pool, FREED) + 1)
    store(pool, USED, load(pool, USED) - 1)
