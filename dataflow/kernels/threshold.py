"""Rows of which at least LEAST are live, once each: a key arrives when its count reaches LEAST at the end of a time."""

from __future__ import annotations

from dataflow.kernels.keymap import add, key_of, remove
from dataflow.kernels.memory import kernel, load, store

SIZE, TIME, DIFF, KEY, KEYS, FRONTIER, LEAST, COUNT, SAVED, STAMP, TOUCHED, OPEN, NOW = range(1, 14)
OUT_SIZE, OUT_TIME, OUT_DIFF, OUT_KEY, LIVE, ERROR_KEY = range(14, 20)
"""COUNT: a word an id; SAVED: that of each of the OPEN touched ids before time NOW. STAMP: 1 + place in TOUCHED."""

NEGATIVE = 1


@kernel
def threshold(op: int) -> int:
    size, times, diffs = load(load(op, SIZE), 0), load(load(op, TIME), 0), load(load(op, DIFF), 0)
    key, keys, counts, stamps = load(load(op, KEY), 0), load(op, KEYS), load(op, COUNT), load(op, STAMP)
    store(load(op, OUT_SIZE), 0, 0)
    for at in range(size):
        if load(times, at) != load(op, NOW):
            status = _flush(op)
            if status != 0:
                return status
            store(op, NOW, load(times, at))
        key_id = add(keys, load(key, at))
        if load(stamps, key_id) == 0:
            place = load(op, OPEN)
            store(load(op, SAVED), place, load(counts, key_id))
            store(load(op, TOUCHED), place, key_id)
            store(stamps, key_id, place + 1)
            store(op, OPEN, place + 1)
        store(counts, key_id, load(counts, key_id) + load(diffs, at))
    return _flush(op) if load(op, NOW) < load(load(op, FRONTIER), 0) else 0


@kernel
def _flush(op: int) -> int:
    """End a time: hand out the keys whose count crossed LEAST."""
    counts, least = load(op, COUNT), load(op, LEAST)
    for place in range(load(op, OPEN)):
        key_id = load(load(op, TOUCHED), place)
        store(load(op, STAMP), key_id, 0)
        new, old = load(counts, key_id), load(load(op, SAVED), place)
        if new < 0:
            store(op, ERROR_KEY, key_id)
            return NEGATIVE
        if (new >= least) != (old >= least):
            at = load(load(op, OUT_SIZE), 0)
            store(load(load(op, OUT_TIME), 0), at, load(op, NOW))
            store(load(load(op, OUT_DIFF), 0), at, 1 if new >= least else -1)
            store(load(load(op, OUT_KEY), 0), at, key_of(load(op, KEYS), key_id))
            store(load(op, OUT_SIZE), 0, at + 1)
        store(op, LIVE, load(op, LIVE) + (new != 0) - (old != 0))
        if new == 0:
            remove(load(op, KEYS), key_of(load(op, KEYS), key_id))
    store(op, OPEN, 0)
    return 0
