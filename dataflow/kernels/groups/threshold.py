"""Rows of which at least LEAST are live, once each: a key arrives when its count reaches LEAST at the end of a time."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.hash_map import HASHED, LOW, add, key_of, remove
from deltamark.dataflow.kernels.core.memory import kernel, load, store, wraps

SIZE, TIME, DIFF, KEY, KEYS, FRONTIER, LEAST, STATE, SAVED, TOUCHED, OPEN, NOW = range(1, 13)
OUT_SIZE, OUT_TIME, OUT_DIFF, OUT_KEY, LIVE, ERROR_KEY, OVERFLOW = range(13, 20)
"""STATE: the count of an id, and 1 + its place in TOUCHED; SAVED: the counts of the OPEN touched ids before NOW.
OVERFLOW: negative where a count needs more than 64 bits."""

FAILED = 1


@kernel
def threshold(op: int) -> int:
    size, times, diffs = load(load(op, SIZE), 0), load(load(op, TIME), 0), load(load(op, DIFF), 0)
    key, keys, state = load(load(op, KEY), 0), load(op, KEYS), load(op, STATE)
    saved, touched = load(op, SAVED), load(op, TOUCHED)
    opened, now, rows, frontier, wrapped = load(op, OPEN), load(op, NOW), 0, load(load(op, FRONTIER), 0), 0
    hashed, low = load(keys, HASHED) != 0, load(keys, LOW)
    for at in range(size):
        time = load(times, at)
        if time != now:
            if opened > 0:
                rows = _flush(op, rows, opened)
                opened = 0
                if rows < 0:
                    store(op, OVERFLOW, wrapped)
                    return FAILED
            now = time
            store(op, NOW, now)
        key_id = add(keys, load(key, at)) if hashed else load(key, at) - low  # after the flush, which frees ids
        count, place = load(state, 2 * key_id), load(state, 2 * key_id + 1)
        store(saved, opened, count)  # without a branch: it counts only if the key was not touched before
        store(touched, opened, key_id)
        opened += place == 0
        store(state, 2 * key_id + 1, place if place != 0 else opened)
        wrapped |= wraps(count, load(diffs, at))
        store(state, 2 * key_id, count + load(diffs, at))
    if opened > 0 and now < frontier:
        rows = _flush(op, rows, opened)
        opened = 0
        if rows < 0:
            store(op, OVERFLOW, wrapped)
            return FAILED
    store(op, OPEN, opened)
    store(op, OVERFLOW, wrapped)
    store(load(op, OUT_SIZE), 0, rows)
    return FAILED if wrapped < 0 else 0


@kernel
def _flush(op: int, rows: int, opened: int) -> int:
    """End a time: hand out the keys whose count crossed LEAST; return the new number of output rows, or -1."""
    state, least, keys, now, live = load(op, STATE), load(op, LEAST), load(op, KEYS), load(op, NOW), load(op, LIVE)
    saved, touched = load(op, SAVED), load(op, TOUCHED)
    out_time, out_diff, out_key = load(load(op, OUT_TIME), 0), load(load(op, OUT_DIFF), 0), load(load(op, OUT_KEY), 0)
    for place in range(opened):
        key_id, old = load(touched, place), load(saved, place)
        new = load(state, 2 * key_id)
        store(state, 2 * key_id + 1, 0)
        if new < 0:
            store(op, ERROR_KEY, key_id)
            return -1
        store(out_time, rows, now)
        store(out_diff, rows, 1 if new >= least else -1)
        store(out_key, rows, key_of(keys, key_id))
        rows += (new >= least) != (old >= least)
        live += (new != 0) - (old != 0)
        if new == 0:
            remove(keys, key_of(keys, key_id))
    store(op, LIVE, live)
    return rows
