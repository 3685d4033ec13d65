"""Sums per group, handed out as data: at the end of each time a changed group's old row leaves, its new one arrives.

A group's record is its number of rows, its sums and a mark, two words each: the numbers are 128 bits wide, so that no
sum wraps unseen. A group exists while its number of rows is not zero; its id is free again once all of its record is
zero. A time saves each record that it touches (the mark says where) and compares when it ends; a time that a slice
leaves open stays so. Most times touch one row: those save nothing.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.hash_map import HASHED, LOW, add, key_of, remove
from deltamark.dataflow.kernels.core.memory import add_product, inline, kernel, load, store
from deltamark.dataflow.types import NULL

SIZE, TIME, DIFF, KEY, KEYS, FRONTIER, SUMS, VALUES, STATE, SAVED, TOUCHED, OPEN, NOW, RESOLVED = range(1, 15)
OUT_SIZE, OUT_TIME, OUT_DIFF, OUT_KEY, OUT, LIVE, ERROR_KEY = range(15, 22)
"""SUMS: how many; VALUES: the address of their cells, 0 for a count. STATE: a record an id. SAVED: records of the OPEN
touched ids, those of time NOW. OUT: the address of 2 * SUMS cells: low and high word of each sum, cell 0 for a high
word that must not be needed. RESOLVED: scratch for what those cells hold."""

NEGATIVE, OVERFLOW = 1, 2
"""Statuses: the group of ERROR_KEY has a negative number of rows, or more than 64 bits hold; one of its sums needs more
than 64 bits."""


@kernel
def aggregate(op: int) -> int:
    size, times, diffs = load(load(op, SIZE), 0), load(load(op, TIME), 0), load(load(op, DIFF), 0)
    key, keys, sums, state = load(load(op, KEY), 0), load(op, KEYS), load(op, SUMS), load(op, STATE)
    saved, touched, values, out = load(op, SAVED), load(op, TOUCHED), load(op, RESOLVED), resolve(op)
    words, frontier = 2 * sums + 4, load(load(op, FRONTIER), 0)
    opened, now, rows, live, status = load(op, OPEN), load(op, NOW), 0, load(op, LIVE), 0
    hashed, low = load(keys, HASHED) != 0, load(keys, LOW)
    for at in range(size):
        time = load(times, at)
        if time != now:
            if opened > 0:
                rows, live, status = flush(op, out, rows, live, opened)
                opened = 0
                if status != 0:
                    break
            now = time
            store(op, NOW, now)
        key_id = add(keys, load(key, at)) if hashed else load(key, at) - low  # after the flush, which frees ids
        record = state + 8 * words * key_id
        alone = opened == 0 and (load(times, at + 1) != time if at + 1 < size else time < frontier)
        if alone:
            had = load(record, 0) != 0
            if had:
                _emit(op, out, rows, key_of(keys, key_id), record, now, -1)
        elif load(record, words - 2) == 0:
            for word in range(words - 2):
                store(saved, opened * words + word, load(record, word))
            store(touched, opened, key_id)
            opened += 1
            store(record, words - 2, opened)
        diff = load(diffs, at)
        add_product(record, diff, 1)
        moved = False
        for index in range(sums):
            column = load(values, index)
            if column != 0:
                value = load(column, at)
                moved |= value != 0
                add_product(record + 16 * index + 16, diff, value)
            else:
                moved = True
        if alone:
            has = load(record, 0) != 0
            if load(record, 1) != 0:
                status = NEGATIVE
            elif moved or not had or not has:
                rows += had
                if has:
                    if _emit(op, out, rows, key_of(keys, key_id), record, now, 1):
                        status = OVERFLOW
                    rows += 1
                else:
                    _forget(keys, key_id, record, words)
                live += has - had
            if status != 0:
                store(op, ERROR_KEY, key_id)
                break
    if status == 0 and opened > 0 and now < frontier:
        rows, live, status = flush(op, out, rows, live, opened)
        opened = 0
    store(load(op, OUT_SIZE), 0, rows)
    store(op, OPEN, opened)
    store(op, LIVE, live)
    return status


@kernel
def resolve(op: int) -> int:
    """Write down where the values and the outputs of this slice lie; return the address of the outputs."""
    sums, resolved = load(op, SUMS), load(op, RESOLVED)
    for index in range(sums):
        cell = load(load(op, VALUES), index)
        store(resolved, index, 0 if cell == 0 else load(cell, 0))
    for index in range(2 * sums):
        cell = load(load(op, OUT), index)
        store(resolved, sums + index, 0 if cell == 0 else load(cell, 0))
    return resolved + 8 * sums


@kernel
def flush(op: int, out: int, rows: int, live: int, opened: int) -> tuple[int, int, int]:
    """End a time: hand out what changed."""
    sums, keys, now, values = load(op, SUMS), load(op, KEYS), load(op, NOW), load(op, VALUES)
    words = 2 * sums + 4
    for place in range(opened):
        key_id = load(load(op, TOUCHED), place)
        new, old = load(op, STATE) + 8 * words * key_id, load(op, SAVED) + 8 * words * place
        store(new, words - 2, 0)
        had, has, changed = load(old, 0) != 0, load(new, 0) != 0, False
        for index in range(sums):
            number = 16 * index + 16 if load(values, index) != 0 else 0
            changed |= load(new + number, 0) != load(old + number, 0) or load(new + number, 1) != load(old + number, 1)
        key, overflow = key_of(keys, key_id), False
        if changed or had != has:
            if had:
                _emit(op, out, rows, key, old, now, -1)
                rows += 1
            if has:
                overflow = _emit(op, out, rows, key, new, now, 1)
                rows += 1
        if overflow or load(new, 1) != 0:
            store(op, ERROR_KEY, key_id)
            return rows, live, NEGATIVE
        live += has - had
        if not has:
            _forget(keys, key_id, new, words)
    return rows, live, 0


@inline
def _emit(op: int, out: int, at: int, key: int, record: int, time: int, diff: int) -> bool:
    """Write an output row; return whether a sum does not fit."""
    store(load(load(op, OUT_TIME), 0), at, time)
    store(load(load(op, OUT_DIFF), 0), at, diff)
    store(load(load(op, OUT_KEY), 0), at, key)
    sums, values, wide, least = load(op, SUMS), load(op, VALUES), 0, 0
    for index in range(sums):
        number = record + (16 * index + 16 if load(values, index) != 0 else 0)
        low, high = load(number, 0), load(number, 1)
        store(load(out, 2 * index), at, low)
        if load(out, 2 * index + 1) != 0:
            store(load(out, 2 * index + 1), at, high)
        else:
            wide |= high ^ (low >> 63)
            least = min(least, low)
    return wide != 0 or least == NULL


@kernel
def _forget(keys: int, key_id: int, record: int, words: int) -> None:
    """Give an id back, unless sums without rows are left (they are, while weights of both signs are live)."""
    for word in range(words):
        if load(record, word) != 0:
            return
    remove(keys, key_of(keys, key_id))
