"""Sums per group, handed out as data: at the end of each time a changed group's old row leaves, its new one arrives.

A group's record is its number of rows and then its sums, each 128 bits wide, so that no sum wraps unseen; a group
exists while its number of rows is not zero, and its id is free again once every word of the record is zero. A record
is saved when a time first touches it, and compared when the time ends. A time that a slice leaves open stays so.
"""

from __future__ import annotations

from dataflow.kernels.keymap import add, key_of, remove
from dataflow.kernels.memory import add_product, kernel, load, store

SIZE, TIME, DIFF, KEY, KEYS, FRONTIER, SUMS, VALUES, STATE, SAVED, STAMP, TOUCHED, OPEN, NOW = range(1, 15)
OUT_SIZE, OUT_TIME, OUT_DIFF, OUT_KEY, OUT, LIVE, ERROR_KEY = range(15, 22)
"""SUMS: how many; VALUES: the address of their cells, 0 for a count. STATE: SUMS+1 numbers of two words an id.
SAVED: as much for each of the OPEN touched ids, those of time NOW. STAMP: 1 + place in TOUCHED, an id.
OUT: the address of 2 * SUMS cells: low and high word of each sum, cell 0 for a high word that must not be needed."""

NEGATIVE, OVERFLOW = 1, 2
"""Statuses: the group of ERROR_KEY has a negative number of rows; one of its sums needs more than 64 bits."""


@kernel
def aggregate(op: int) -> int:
    size, times, diffs = load(load(op, SIZE), 0), load(load(op, TIME), 0), load(load(op, DIFF), 0)
    key, keys, sums, values = load(load(op, KEY), 0), load(op, KEYS), load(op, SUMS), load(op, VALUES)
    state, words = load(op, STATE), 2 * (sums + 1)
    store(load(op, OUT_SIZE), 0, 0)
    for at in range(size):
        if load(times, at) != load(op, NOW):
            status = _flush(op)
            if status != 0:
                return status
            store(op, NOW, load(times, at))
        key_id = add(keys, load(key, at))
        record = state + 8 * words * key_id
        if load(load(op, STAMP), key_id) == 0:
            _save(op, key_id, record, words)
        diff = load(diffs, at)
        add_product(record, diff, 1)
        for index in range(sums):
            cell = load(values, index)
            if cell != 0:
                add_product(record + 16 * (index + 1), diff, load(load(cell, 0), at))
    return _flush(op) if load(op, NOW) < load(load(op, FRONTIER), 0) else 0


@kernel
def _save(op: int, key_id: int, record: int, words: int) -> None:
    """Remember a record as it was before this time."""
    place = load(op, OPEN)
    for word in range(words):
        store(load(op, SAVED), place * words + word, load(record, word))
    store(load(op, TOUCHED), place, key_id)
    store(load(op, STAMP), key_id, place + 1)
    store(op, OPEN, place + 1)


@kernel
def _flush(op: int) -> int:
    """End a time: hand out what changed."""
    words, sums = 2 * (load(op, SUMS) + 1), load(op, SUMS)
    for place in range(load(op, OPEN)):
        key_id = load(load(op, TOUCHED), place)
        store(load(op, STAMP), key_id, 0)
        new, old = load(op, STATE) + 8 * words * key_id, load(op, SAVED) + 8 * words * place
        if load(new, 1) < 0:
            store(op, ERROR_KEY, key_id)
            return NEGATIVE
        had, has = load(old, 0) != 0, load(new, 0) != 0
        changed = had != has
        for index in range(sums):
            if load(load(op, VALUES), index) != 0:
                changed |= load(new, 2 * index + 2) != load(old, 2 * index + 2)
                changed |= load(new, 2 * index + 3) != load(old, 2 * index + 3)
            else:
                changed |= load(new, 0) != load(old, 0)
        if had and changed:
            _emit(op, key_id, old, -1)
        if has and changed and _emit(op, key_id, new, 1) != 0:
            store(op, ERROR_KEY, key_id)
            return OVERFLOW
        store(op, LIVE, load(op, LIVE) + has - had)
        if not has:
            _forget(op, key_id, new, words)
    store(op, OPEN, 0)
    return 0


@kernel
def _emit(op: int, key_id: int, record: int, diff: int) -> int:
    at, bad = load(load(op, OUT_SIZE), 0), 0
    store(load(load(op, OUT_TIME), 0), at, load(op, NOW))
    store(load(load(op, OUT_DIFF), 0), at, diff)
    store(load(load(op, OUT_KEY), 0), at, key_of(load(op, KEYS), key_id))
    for index in range(load(op, SUMS)):
        number = record + (16 * (index + 1) if load(load(op, VALUES), index) != 0 else 0)
        low, high = load(load(op, OUT), 2 * index), load(load(op, OUT), 2 * index + 1)
        store(load(low, 0), at, load(number, 0))
        if high != 0:
            store(load(high, 0), at, load(number, 1))
        else:
            bad |= load(number, 1) != load(number, 0) >> 63
    store(load(op, OUT_SIZE), 0, at + 1)
    return bad


@kernel
def _forget(op: int, key_id: int, record: int, words: int) -> None:
    """Give an id back, unless sums without rows are left (they are, while weights of both signs are live)."""
    for word in range(words):
        if load(record, word) != 0:
            return
    remove(load(op, KEYS), key_of(load(op, KEYS), key_id))
