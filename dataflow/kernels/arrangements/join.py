"""Join two arrangements that already have the slice's updates.

A left update of the slice meets the right rows of times up to its own, a right update the left rows of earlier times;
so a pair that is new on both sides is met once, and its time is that of the update that came last. What earlier slices
brought is there for both, whatever its time; what later slices bring, which a log of the past may have already, is
there for neither. Two passes: the first
collects the updates whose key has rows on the other side, without a branch (most have none); the second merges those
of both sides by time and walks the rows. So the output is in order of time.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements import arrangement
from deltamark.dataflow.kernels.core.hash_map import HASHED, LOW, find
from deltamark.dataflow.kernels.core.memory import OFTEN, heed_signals, inline, kernel, load, load32, store, too_wide

LEFT, RIGHT, OUT_SIZE, OUT_TIME, OUT_DIFF, OUT_LEFT, OUT_RIGHT, LEFT_HITS, RIGHT_HITS, OVERFLOW = range(1, 11)
LEFT_PASSES, LEFT_BIT, RIGHT_PASSES, RIGHT_BIT = range(11, 15)
"""LEFT, RIGHT: blocks of arrangements. OUT_LEFT, OUT_RIGHT: slots of the rows that are paired. HITS: scratch.
OVERFLOW: set, and returned as the status, when a product of weights needs more than 64 bits. PASSES: the address of a
word a slot, of which BIT says whether the row is in what is joined; 0 where all rows are."""

FOREVER = 2**62


@kernel
def join(op: int) -> int:
    left, right = load(op, LEFT), load(op, RIGHT)
    left_hits, right_hits = load(op, LEFT_HITS), load(op, RIGHT_HITS)
    lefts = _passing(op, LEFT_PASSES, left, left_hits, _hits(left, right, left_hits))
    rights = _passing(op, RIGHT_PASSES, right, right_hits, _hits(right, left, right_hits))
    i = j = size = heeded = 0
    while i < lefts or j < rights:
        if size - heeded > OFTEN:
            heed_signals()
            heeded = size
        left_time = _time(left, load(left_hits, 2 * i)) if i < lefts else FOREVER
        right_time = _time(right, load(right_hits, 2 * j)) if j < rights else FOREVER
        if left_time <= right_time:
            size = _walk(op, left, right, left_hits + 16 * i, 1, size)
            i += 1
        else:
            size = _walk(op, right, left, right_hits + 16 * j, 0, size)
            j += 1
    store(load(op, OUT_SIZE), 0, size)
    return load(op, OVERFLOW)


@inline
def product(op: int, a: int, b: int) -> int:
    """Multiply weights."""
    if too_wide(a, b) != 0:
        store(op, OVERFLOW, 1)
    return a * b


@kernel
def _time(side: int, at: int) -> int:
    return load(load(load(side, arrangement.TIME), 0), at)


@kernel
def _hits(mine: int, other: int, hits: int) -> int:
    """Collect (update, id of its key on the other side) where the other side has rows; both lists are one word."""
    size, key, keys = (
        load(load(mine, arrangement.SIZE), 0),
        load(load(mine, arrangement.KEY), 0),
        load(other, arrangement.KEYS),
    )
    lists, low, found = load(other, arrangement.LISTS), load(keys, LOW), 0
    if load(keys, HASHED) == 0:
        for at in range(size):
            key_id = load(key, at) - low
            store(hits, 2 * found, at)
            store(hits, 2 * found + 1, key_id)
            found += load(lists, key_id) != 0
    else:
        for at in range(size):
            key_id = find(keys, load(key, at))
            store(hits, 2 * found, at)
            store(hits, 2 * found + 1, key_id)
            found += key_id >= 0
    return found


@kernel
def _passing(op: int, which: int, mine: int, hits: int, found: int) -> int:
    """Keep those hits whose rows pass; return how many these are."""
    passes, bit = load(op, which), load(op, which + 1)
    if passes == 0:
        return found
    first, kept = load(mine, arrangement.MARK) + load(mine, arrangement.FIRST), 0
    for index in range(found):
        at = load(hits, 2 * index)
        store(hits, 2 * kept, at)
        store(hits, 2 * kept + 1, load(hits, 2 * index + 1))
        kept += load(passes, first + at) >> bit & 1
    return kept


@kernel
def _walk(op: int, mine: int, other: int, hit: int, is_left: int, size: int) -> int:
    """Pair one update with the rows of the other side that it meets; return the new size of the output."""
    at, key_id = load(hit, 0), load(hit, 1)
    time, diff = _time(mine, at), load(load(load(mine, arrangement.DIFF), 0), at)
    slot = load(mine, arrangement.MARK) + load(mine, arrangement.FIRST) + at
    out_time, out_diff = load(load(op, OUT_TIME), 0), load(load(op, OUT_DIFF), 0)
    out_mine = load(load(op, OUT_LEFT if is_left else OUT_RIGHT), 0)
    out_other = load(load(op, OUT_RIGHT if is_left else OUT_LEFT), 0)
    mark, following, weight = (
        load(other, arrangement.MARK),
        load(other, arrangement.NEXT),
        load(other, arrangement.WEIGHT),
    )
    times, diffs = load(load(other, arrangement.SEEN_TIME), 0), load(load(other, arrangement.SEEN_DIFF), 0)
    first = load(other, arrangement.FIRST)
    end = first + load(load(other, arrangement.SIZE), 0)
    weighted = load(other, arrangement.WEIGHTED) != 0
    theirs = RIGHT_PASSES if is_left else LEFT_PASSES
    passes, bit = load(op, theirs), load(op, theirs + 1)
    for which in range(2):
        link = load32(load(other, arrangement.LISTS), 2 * key_id + which)
        while link != 0:
            row = link - 1
            link = load32(following, row)
            if passes != 0 and load(passes, row) >> bit & 1 == 0:
                continue
            met = diff
            if row >= mark:
                update = row - mark
                if update >= first and (update >= end or load(times, update) >= time + is_left):
                    continue
                met = product(op, diff, load(diffs, update))
            elif weighted:
                met = product(op, diff, load(weight, row))
            store(out_time, size, time)
            store(out_diff, size, met)
            store(out_mine, size, slot)
            store(out_other, size, row)
            size += 1
    return size
