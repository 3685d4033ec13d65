"""Rows by value, in groups, and what the current time has changed of them.

Operators that look at states keep whole rows. A row is a record: its weight, its weight before the current time, what
its operator keeps with it, its group, and its values. It is found by a hash of its values in an open table of
(hash, slot), and compared by them. The rows that a time touches are chained by group; when the time ends their
operator goes through the chain, tells what changed, and frees the rows of weight zero. Order within a time is lost
on the way, as it should be.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.hash_map import HASHED, LOW, add
from deltamark.dataflow.kernels.core.hash_set import move, place_of, take_out
from deltamark.dataflow.kernels.core.memory import inline, kernel, load, load32, prefetch, store, store32, wraps

SIZE, TIME, DIFF, KEY, COLUMNS, INPUTS, RESOLVED, HASHES, TABLE, MASK, USED, RECORDS, WORDS, NEXT, FREE, CHAIN = range(
    16
)
"""INPUTS: the address of COLUMNS cells; RESOLVED, HASHES: scratch. RECORDS: WORDS a slot. NEXT: the first slot that
was never used, FREE: the first that is free again (slots count from 1). CHAIN: which chain of a group is ours."""

WEIGHT, BEFORE, FOUND_BY, A, B, GROUP, VALUES = range(7)
"""A record. FOUND_BY: 32 bits TOUCHED, the slot of the next touched row (LAST for none, 0: untouched), 32 bits hash.
A, B: the operator's."""
LAST = -1

FAR, NEAR = 12, 6
"""How many updates ahead the table and the records are fetched; what is read beyond the slice is of no consequence."""

# what watches rows: the fields that all such operators have
KIND, ROWS, LIMITS, KEYS, GROUPS, FRONTIER, NOW, OPEN, TOUCHED = range(1, 10)
OUT_SIZE, OUT_TIME, OUT_DIFF, OUT, ERROR, ERROR_SIDE, ERROR_SLOT, ORDER, SHOWN, PLACES, FREE_PLACES, FIRST = range(
    10, 22
)
"""ROWS, LIMITS: blocks of rows (LIMITS 0 where there is one input). TOUCHED: the OPEN groups that time NOW touched.
OUT_TIME, OUT_DIFF: addresses; OUT: the address of an address a column. The last ones are each operator's own."""

# a group
IS_OPEN, GROUP_CHAIN, LIMIT_CHAIN, BEST, HEAD, REST = range(6)
GROUP_WORDS = 6

NEGATIVE, TWO_LIMITS, NO_LIMIT, TOO_HEAVY = 1, 2, 3, 4
"""Errors: of the row in ERROR_SLOT of the side ERROR_SIDE."""


@kernel
def resolve(rows: int) -> None:
    """Write down where the slice's columns lie, and the hash of each of its rows."""
    size, inputs, resolved, hashes = (
        load(load(rows, SIZE), 0),
        load(rows, INPUTS),
        load(rows, RESOLVED),
        load(rows, HASHES),
    )
    for column in range(load(rows, COLUMNS)):
        store(resolved, column, load(load(inputs, column), 0))
    hash_columns(size, load(rows, COLUMNS), resolved, hashes)


@kernel
def hash_columns(size: int, columns: int, sources: int, hashes: int) -> None:
    """Hash rows to 31 bits."""
    for at in range(size):
        store(hashes, at, 0)
    for column in range(columns):
        source = load(sources, column)
        for at in range(size):
            mixed = (load(hashes, at) ^ load(source, at)) * -7046029254386353131
            store(hashes, at, mixed ^ (mixed >> 32))
    for at in range(size):
        store(hashes, at, load(hashes, at) & 0x7FFFFFFF)


BUCKET_SIZE, BUCKET_COLUMNS, BUCKET_INPUTS, BUCKET_SOURCES, BUCKETS, BUCKET_OUT = range(1, 7)


@kernel
def bucket(op: int) -> None:
    """Deal rows into BUCKETS by a hash of some columns: a vector of numbers from 0."""
    size, out, buckets, sources = (
        load(load(op, BUCKET_SIZE), 0),
        load(load(op, BUCKET_OUT), 0),
        load(op, BUCKETS),
        load(op, BUCKET_SOURCES),
    )
    for column in range(load(op, BUCKET_COLUMNS)):
        store(sources, column, load(load(load(op, BUCKET_INPUTS), column), 0))
    hash_columns(size, load(op, BUCKET_COLUMNS), sources, out)
    for at in range(size):
        store(out, at, load(out, at) * buckets >> 31)


@kernel
def crowded(rows: int) -> bool:
    """Would the rows of the slice need a larger table?"""
    return 2 * (load(rows, USED) + load(load(rows, SIZE), 0)) > load(rows, MASK) + 1


@kernel
def absorb(op: int, rows: int, at: int) -> int:
    """Add the updates of one time, from `at` on; return where the next time begins, -1 if a weight is too large."""
    size, times, diffs = load(load(rows, SIZE), 0), load(load(rows, TIME), 0), load(load(rows, DIFF), 0)
    hashes, table, mask, records = load(rows, HASHES), load(rows, TABLE), load(rows, MASK), load(rows, RECORDS)
    words, columns, resolved = 8 * load(rows, WORDS), load(rows, COLUMNS), load(rows, RESOLVED)
    groups, chain, touched, opened = load(op, GROUPS), load(rows, CHAIN), load(op, TOUCHED), load(op, OPEN)
    time, wrapped = load(times, at), 0
    while at < size and load(times, at) == time:
        prefetch(table + 8 * (load(hashes, at + FAR) & mask))
        prefetch(records + words * (load(table, load(hashes, at + NEAR) & mask) & 0xFFFFFFFF))
        hashed = load(hashes, at)
        place, slot = hashed & mask, 0
        while True:
            entry = load(table, place)
            if entry == 0:
                break
            if entry >> 32 == hashed:
                candidate = entry & 0xFFFFFFFF
                values, column = records + words * candidate + 8 * VALUES, 0
                while column < columns and load(values, column) == load(load(resolved, column), at):
                    column += 1
                if column == columns:
                    slot = candidate
                    break
            place = (place + 1) & mask
        if slot == 0:
            slot = _make(op, rows, at)
            store(table, place, hashed << 32 | slot)
        record = records + words * slot
        weight = load(record, WEIGHT)
        if load32(record, 2 * FOUND_BY) == 0:
            store(record, BEFORE, weight)
            group_id = load(record, GROUP)
            group = groups + 8 * GROUP_WORDS * group_id
            linked = load(group, chain)
            store32(record, 2 * FOUND_BY, linked if linked != 0 else LAST)
            store(group, chain, slot)
            store(touched, opened, group_id)
            opened += load(group, IS_OPEN) == 0
            store(group, IS_OPEN, 1)
        wrapped |= wraps(weight, load(diffs, at))
        store(record, WEIGHT, weight + load(diffs, at))
        at += 1
    store(op, OPEN, opened)
    if wrapped < 0:
        store(op, ERROR, TOO_HEAVY)
        return -1
    return at


@kernel
def _make(op: int, rows: int, at: int) -> int:
    """Make a row of weight 0 of an update; return its slot."""
    slot, words, keys = load(rows, FREE), 8 * load(rows, WORDS), load(op, KEYS)
    if slot != 0:
        record = load(rows, RECORDS) + words * slot
        store(rows, FREE, load(record, A))
    else:
        slot = load(rows, NEXT)
        store(rows, NEXT, slot + 1)
        record = load(rows, RECORDS) + words * slot
    key = load(load(load(rows, KEY), 0), at)
    store(record, WEIGHT, 0)
    store(record, A, 0)
    store(record, B, 0)
    store32(record, 2 * FOUND_BY, 0)
    store32(record, 2 * FOUND_BY + 1, load(load(rows, HASHES), at))
    store(record, GROUP, add(keys, key) if load(keys, HASHED) != 0 else key - load(keys, LOW))
    resolved = load(rows, RESOLVED)
    for column in range(load(rows, COLUMNS)):
        store(record, VALUES + column, load(load(resolved, column), at))
    store(rows, USED, load(rows, USED) + 1)
    return slot


@inline
def record_of(rows: int, slot: int) -> int:
    return load(rows, RECORDS) + 8 * load(rows, WORDS) * slot


@inline
def emit(op: int, record: int, diff: int) -> None:
    """Hand out a change of a row."""
    at = load(load(op, OUT_SIZE), 0)
    store(load(op, OUT_TIME), at, load(op, NOW))
    store(load(op, OUT_DIFF), at, diff)
    out = load(op, OUT)
    for column in range(load(load(op, ROWS), COLUMNS)):
        store(load(out, column), at, load(record, VALUES + column))
    store(load(op, OUT_SIZE), 0, at + 1)


@kernel
def release(rows: int, slot: int) -> None:
    """Forget a row, and free its slot."""
    record = record_of(rows, slot)
    take_out(load(rows, TABLE), load(rows, MASK), load32(record, 2 * FOUND_BY + 1), slot)
    store(record, A, load(rows, FREE))
    store(rows, FREE, slot)
    store(rows, USED, load(rows, USED) - 1)


@kernel
def replace(rows: int, slot: int, new: int) -> None:
    """Release one row, and let another have its slot, with what the operator keeps there."""
    record, other = record_of(rows, slot), record_of(rows, new)
    take_out(load(rows, TABLE), load(rows, MASK), load32(record, 2 * FOUND_BY + 1), slot)
    table, hashed = load(rows, TABLE), load32(other, 2 * FOUND_BY + 1)
    store(table, place_of(table, load(rows, MASK), hashed, new), hashed << 32 | slot)
    store32(record, 2 * FOUND_BY + 1, hashed)
    store(record, WEIGHT, load(other, WEIGHT))
    for word in range(GROUP, load(rows, WORDS)):
        store(record, word, load(other, word))
    store(other, A, load(rows, FREE))
    store(rows, FREE, new)
    store(rows, USED, load(rows, USED) - 1)


@kernel
def rehash(rows: int, table: int, mask: int) -> None:
    """Move to an empty table of another size."""
    move(load(rows, TABLE), load(rows, MASK), table, mask)
    store(rows, TABLE, table)
    store(rows, MASK, mask)


@kernel
def fail(op: int, error: int, side: int, slot: int) -> int:
    store(op, ERROR, error)
    store(op, ERROR_SIDE, side)
    store(op, ERROR_SLOT, slot)
    return error
