"""What a loop remembers: rows by key, each with the iteration at which it came, summed over the epochs that are over.

A row is a record: its weight, its place in the list of its key, the id of the key, the iteration, its values, and what
its operator keeps with it. It is found by a hash of all of that in an open table of (hash, slot).
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.hash_map import HASHED, LOW, add
from deltamark.dataflow.kernels.core.hash_set import put, take_out
from deltamark.dataflow.kernels.core.memory import inline, kernel, load, load32, prefetch, store, store32, wraps

SIZE, ITERATION, DIFF, KEY, KEYS, COLUMNS, INPUTS, RESOLVED, IDS, HASHES, SLOTS = range(11)
LISTS, WIDTH, TABLE, MASK, USED, RECORDS, WORDS, NEXT, FREE = range(11, 20)
"""The slice: cells of its size, iterations, weights and keys, and a table of COLUMNS cells; RESOLVED, IDS, HASHES and
SLOTS are scratch. LISTS: WIDTH int32s an id, the first is a list's first slot. RECORDS: WORDS a slot. NEXT: the first
slot that was never used, FREE: the first that is free again (slots count from 1)."""

WEIGHT, LINKS, TAGS, VALUES = range(4)
AFTER, PRECEDING, KEY_ID, CAME = range(2 * LINKS, 2 * VALUES)
"""Halves of LINKS and TAGS: the next and the previous slot in the list, the id of the key, the iteration."""

GONE = -1
"""The key of a slot that is free."""

FAR, NEAR = 16, 8
"""How many rows ahead the table and the records are fetched; what is read beyond the slice is of no consequence."""


@inline
def record_of(past: int, slot: int) -> int:
    return load(past, RECORDS) + 8 * load(past, WORDS) * slot


@inline
def _mixed(hashed: int, value: int) -> int:
    mixed = (hashed ^ value) * -7046029254386353131
    return mixed ^ (mixed >> 32)


@kernel
def _resolve(past: int, size: int) -> None:
    """Write down where the slice's columns lie, and the id of the key and the hash of each row."""
    columns, resolved, ids, hashes = load(past, COLUMNS), load(past, RESOLVED), load(past, IDS), load(past, HASHES)
    key, keys, iterations = load(load(past, KEY), 0), load(past, KEYS), load(load(past, ITERATION), 0)
    hashed, low = load(keys, HASHED) != 0, load(keys, LOW)
    for at in range(size):
        key_id = add(keys, load(key, at)) if hashed else load(key, at) - low
        store(ids, at, key_id)
        store(hashes, at, _mixed(key_id << 20, load(iterations, at)))
    for column in range(columns):
        source = load(load(load(past, INPUTS), column), 0)
        store(resolved, column, source)
        for at in range(size):
            store(hashes, at, _mixed(load(hashes, at), load(source, at)))
    for at in range(size):
        store(hashes, at, load(hashes, at) & 0x7FFFFFFF)
    for at in range(size, size + FAR):  # what is fetched ahead is there
        store(ids, at, 0)


@kernel
def absorb(past: int) -> int:
    """Add the slice's rows; return a negative number where a weight needs more than 64 bits.

    A row that has lost its weight stays until it is forgotten.
    """
    size = load(load(past, SIZE), 0)
    while 2 * (load(past, USED) + size) > load(past, MASK) + 1:
        _grow(past)
    _resolve(past, size)
    ids, hashes, slots, resolved = load(past, IDS), load(past, HASHES), load(past, SLOTS), load(past, RESOLVED)
    iterations, diffs, columns = load(load(past, ITERATION), 0), load(load(past, DIFF), 0), load(past, COLUMNS)
    table, mask, records, words = load(past, TABLE), load(past, MASK), load(past, RECORDS), 8 * load(past, WORDS)
    lists, width, wrapped = load(past, LISTS), load(past, WIDTH), 0
    for at in range(size):
        prefetch(table + 8 * (load(hashes, at + FAR) & mask))
        prefetch(lists + 4 * width * load(ids, at + FAR))
        prefetch(records + words * (load(table, load(hashes, at + NEAR) & mask) & 0xFFFFFFFF))
        hashed, key_id, iteration = load(hashes, at), load(ids, at), load(iterations, at)
        place, slot = hashed & mask, 0
        while True:
            entry = load(table, place)
            if entry == 0:
                break
            if entry >> 32 == hashed:
                record, column = records + words * (entry & 0xFFFFFFFF), 0
                if load32(record, KEY_ID) == key_id and load32(record, CAME) == iteration:
                    while column < columns and load(record, VALUES + column) == load(load(resolved, column), at):
                        column += 1
                    if column == columns:
                        slot = entry & 0xFFFFFFFF
                        break
            place = (place + 1) & mask
        if slot == 0:
            slot = _make(past, at, key_id, iteration)
            store(table, place, hashed << 32 | slot)
        record = records + words * slot
        weight = load(record, WEIGHT)
        wrapped |= wraps(weight, load(diffs, at))
        store(record, WEIGHT, weight + load(diffs, at))
        store(slots, at, slot)
    return wrapped


@kernel
def _make(past: int, at: int, key_id: int, iteration: int) -> int:
    """Make a row of weight 0, the first of its list; return its slot."""
    slot, lists, width, columns = load(past, FREE), load(past, LISTS), load(past, WIDTH), load(past, COLUMNS)
    if slot != 0:
        record = record_of(past, slot)
        store(past, FREE, load32(record, AFTER))
    else:
        slot = load(past, NEXT)
        store(past, NEXT, slot + 1)
        record = record_of(past, slot)
    first = load32(lists, width * key_id)
    store32(lists, width * key_id, slot)
    if first != 0:
        store32(record_of(past, first), PRECEDING, slot)
    store(record, WEIGHT, 0)
    store32(record, AFTER, first)
    store32(record, PRECEDING, 0)
    store32(record, KEY_ID, key_id)
    store32(record, CAME, iteration)
    for column in range(columns):
        store(record, VALUES + column, load(load(load(past, RESOLVED), column), at))
    for word in range(VALUES + columns, load(past, WORDS)):
        store(record, word, 0)
    store(past, USED, load(past, USED) + 1)
    return slot


@kernel
def forget(past: int, slot: int) -> None:
    """Take a row out of its list and out of the table, and free its slot."""
    record = record_of(past, slot)
    key_id, after, preceding = load32(record, KEY_ID), load32(record, AFTER), load32(record, PRECEDING)
    if preceding == 0:
        store32(load(past, LISTS), load(past, WIDTH) * key_id, after)
    else:
        store32(record_of(past, preceding), AFTER, after)
    if after != 0:
        store32(record_of(past, after), PRECEDING, preceding)
    _take_out(past, record, slot)
    store32(record, KEY_ID, GONE)
    store32(record, AFTER, load(past, FREE))
    store(past, FREE, slot)
    store(past, USED, load(past, USED) - 1)


@kernel
def _take_out(past: int, record: int, slot: int) -> None:
    """Take a row out of the table."""
    hashed = _mixed(load32(record, KEY_ID) << 20, load32(record, CAME))
    for column in range(load(past, COLUMNS)):
        hashed = _mixed(hashed, load(record, VALUES + column))
    take_out(load(past, TABLE), load(past, MASK), hashed & 0x7FFFFFFF, slot)


@kernel
def _grow(past: int) -> None:
    """Double the table where it lies.

    Entries move in order, those before the first gap last, for they may belong to the end; so none comes to lie behind
    one that has yet to move.
    """
    table, slots, waiting, at = load(past, TABLE), load(past, MASK) + 1, load(past, SLOTS), 0
    mask = 2 * slots - 1
    while load(table, at) != 0:
        store(waiting, at, load(table, at))
        store(table, at, 0)
        at += 1
    for place in range(at + 1, slots):
        entry = load(table, place)
        if entry != 0:
            store(table, place, 0)
            put(table, mask, entry)
    for index in range(at):
        put(table, mask, load(waiting, index))
    store(past, MASK, mask)
