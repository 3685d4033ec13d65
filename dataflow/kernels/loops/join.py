"""Join inside a loop: what changes in an iteration meets an arrangement from outside, which holds still.

All that the loop has ever put here is remembered, with its iteration; so when the arrangement changes, at the
beginning of an epoch, its updates meet that. Whichever side a pair is due to, it belongs to the iteration of the
loop's row. The rows of a slice go through the lists of their keys side by side: each step waits for memory, and so
they wait together.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements import arrangement
from deltamark.dataflow.kernels.arrangements.join import OVERFLOW, product_at
from deltamark.dataflow.kernels.core.hash_map import HASHED, HIGH, LOW, find, key_of, remove
from deltamark.dataflow.kernels.core.memory import OFTEN, heed_signals, kernel, load, load32, prefetch, store, store32
from deltamark.dataflow.kernels.loops import trace

SIZE, ITERATION, DIFF, KEY, PAST, OUTER, NOW, CURSOR, STOP = range(1, 10)
OUT_SIZE, OUT_ITERATION, OUT_DIFF, OUT_SLOT, OUT, HITS = range(11, 17)
"""OUTER: the block of the arrangement, whose updates of time NOW (a word) from CURSOR to STOP are to meet the past.
OUT: cells of the columns that the past has; OUT_SLOT: rows of the arrangement. HITS: scratch."""

FAILED = 2

AHEAD = 16


@kernel
def meet(op: int) -> int:
    remembered = load(op, PAST)
    out = _meet_past(op, remembered)
    out = _meet_outer(op, remembered, out)
    store(load(op, OUT_SIZE), 0, out)
    wrapped = trace.absorb(remembered)
    slots = load(remembered, trace.SLOTS)
    for at in range(load(load(op, SIZE), 0)):
        slot = load(slots, at)
        record = trace.record_of(remembered, slot)
        key_id = load32(record, trace.KEY_ID)
        if load(record, trace.WEIGHT) == 0 and key_id != trace.GONE:
            trace.forget(remembered, slot)
            if load32(load(remembered, trace.LISTS), key_id) == 0:
                remove(load(remembered, trace.KEYS), key_of(load(remembered, trace.KEYS), key_id))
    if wrapped < 0:
        store(op, OVERFLOW, 1)
    return FAILED if load(op, OVERFLOW) != 0 else 0


@kernel
def _meet_past(op: int, remembered: int) -> int:
    """Pair updates of the arrangement with what is remembered; return how many pairs there are."""
    outer, keys = load(op, OUTER), load(remembered, trace.KEYS)
    key, diffs = load(load(outer, arrangement.KEY), 0), load(load(outer, arrangement.DIFF), 0)
    first = load(outer, arrangement.MARK) + load(outer, arrangement.FIRST)
    lists, columns, out = load(remembered, trace.LISTS), load(remembered, trace.COLUMNS), 0
    out_iteration, out_diff = load(load(op, OUT_ITERATION), 0), load(load(op, OUT_DIFF), 0)
    out_slot = load(load(op, OUT_SLOT), 0)
    for at in range(load(op, CURSOR), load(op, STOP)):
        key_id = _id_of(keys, load(key, at))
        slot = load32(lists, key_id) if key_id >= 0 else 0
        while slot != 0:
            record = trace.record_of(remembered, slot)
            store(out_iteration, out, load32(record, trace.CAME))
            store(out_diff, out, product_at(op, load(diffs, at), load(record, trace.WEIGHT)))
            store(out_slot, out, first + at)
            for column in range(columns):
                store(load(load(load(op, OUT), column), 0), out, load(record, trace.VALUES + column))
            out += 1
            slot = load32(record, trace.AFTER)
    store(op, CURSOR, load(op, STOP))
    return out


@kernel
def _id_of(keys: int, key: int) -> int:
    """Return the id of a key, -1 for one that was never seen."""
    if load(keys, HASHED) != 0:
        return find(keys, key)
    return key - load(keys, LOW) if load(keys, LOW) <= key <= load(keys, HIGH) else -1


@kernel
def _meet_outer(op: int, remembered: int, out: int) -> int:
    """Pair the slice's rows with rows of the arrangement; return the new number of pairs."""
    outer, hits = load(op, OUTER), load(op, HITS)
    following, mark, weight = (
        load(outer, arrangement.NEXT),
        load(outer, arrangement.MARK),
        load(outer, arrangement.WEIGHT),
    )
    times, others = load(load(outer, arrangement.SEEN_TIME), 0), load(load(outer, arrangement.SEEN_DIFF), 0)
    end = load(outer, arrangement.FIRST) + load(load(outer, arrangement.SIZE), 0)
    now = load(load(op, NOW), 0)
    weighted, columns = load(outer, arrangement.WEIGHTED) != 0, load(remembered, trace.COLUMNS)
    iterations, diffs = load(load(op, ITERATION), 0), load(load(op, DIFF), 0)
    out_iteration, out_diff = load(load(op, OUT_ITERATION), 0), load(load(op, OUT_DIFF), 0)
    out_slot = load(load(op, OUT_SLOT), 0)
    active, heeded = _begin(op, outer, hits), out
    while active > 0:
        if out - heeded > OFTEN:
            heed_signals()
            heeded = out
        start, going = out, 0
        for index in range(active):
            prefetch(following + 4 * (load32(hits, 2 * (index + AHEAD) + 1) - 1))
            at, row = load32(hits, 2 * index), load32(hits, 2 * index + 1) - 1
            link = load32(following, row)
            store32(hits, 2 * going, at)
            store32(hits, 2 * going + 1, link)
            going += link != 0
            diff = load(diffs, at)
            if row >= mark:
                if row - mark >= end or load(times, row - mark) > now:
                    continue
                diff = product_at(op, diff, load(others, row - mark))
            elif weighted:
                diff = product_at(op, diff, load(weight, row))
            store(out_iteration, out, at)
            store(out_diff, out, diff)
            store(out_slot, out, row)
            out += 1
        for column in range(columns):
            source = load(load(load(remembered, trace.INPUTS), column), 0)
            target = load(load(load(op, OUT), column), 0)
            for pair in range(start, out):
                store(target, pair, load(source, load(out_iteration, pair)))
        for pair in range(start, out):
            store(out_iteration, pair, load(iterations, load(out_iteration, pair)))
        active = going
    return out


@kernel
def _begin(op: int, outer: int, hits: int) -> int:
    """Write down (row, link) for each list of the arrangement under the key of a row; return how many."""
    key, keys, lists, found = load(load(op, KEY), 0), load(outer, arrangement.KEYS), load(outer, arrangement.LISTS), 0
    size, hashed, low, high = load(load(op, SIZE), 0), load(keys, HASHED) != 0, load(keys, LOW), load(keys, HIGH)
    for at in range(size):
        if not hashed:
            prefetch(lists + 8 * (load(key, at + AHEAD) - low))
        key_id = find(keys, load(key, at)) if hashed else load(key, at) - low
        if key_id < 0 or (not hashed and key_id > high - low):
            continue
        for which in range(2):
            link = load32(lists, 2 * key_id + which)
            store32(hits, 2 * found, at)
            store32(hits, 2 * found + 1, link)
            found += link != 0
    return found
