"""Arrangements: rows by key, shared by every operator that joins on that key.

A settled row lies in a slot; the slots of a key form two lists, NEW (newest first, where rows are added) and OLD
(oldest first, where retractions look). A search that runs off the end of OLD turns NEW around and appends it, so each
row is turned around at most once, and rows that leave in the order they came are found at once.

The updates of the current slice lie behind the settled rows, from MARK on, in the order in which they came: update i
in slot MARK + i, linked into NEW like a row, with its time and diff in the slice's own vectors. So readers need no
time for settled rows, and inserting costs three stores a row. When all readers have passed, `settle` makes rows of
insertions and cancels retractions against equal rows, from the oldest on. Freed slots are used again.

A row's weight is 1 unless WEIGHTED is set. A retraction that precedes its insertion within a logical time becomes a
row of negative weight until the time ends; one that is left then is an error.
"""

from __future__ import annotations

from dataflow.kernels.keymap import HASHED, LOW, add, find, remove
from dataflow.kernels.memory import kernel, load, load32, store, store32

SIZE, TIME, DIFF, KEY, KEYS, FRONTIER, LISTS, NEXT, MARK, FREE, LIVE, WEIGHTED, WEIGHT, PLAIN = range(1, 15)
DEBTS, DEBT_TIME, DEBT, SCRATCH, HOLES, COLUMNS, INPUTS, STORED, SETTLED, STAMP = range(15, 25)
"""LISTS: int32 pairs (NEW, OLD) an id, holding slot + 1, as NEXT and FREE do. DEBTS: rows of negative weight, the last
of them in slot DEBT since DEBT_TIME. INPUTS: the address of COLUMNS cells; STORED: of as many addresses. SETTLED: holds
STAMP for the updates that are done."""


@kernel
def insert(op: int) -> int:
    """Append the slice's updates."""
    size, mark = load(load(op, SIZE), 0), load(op, MARK)
    for column in range(load(op, COLUMNS)):
        source, target = load(load(load(op, INPUTS), column), 0), load(load(op, STORED), column) + 8 * mark
        for at in range(size):
            store(target, at, load(source, at))
    key, diff, keys = load(load(op, KEY), 0), load(load(op, DIFF), 0), load(op, KEYS)
    lists, following = load(op, LISTS), load(op, NEXT)
    plain, hashed, low = 1, load(keys, HASHED) != 0, load(keys, LOW)
    for at in range(size):
        key_id = add(keys, load(key, at)) if hashed else load(key, at) - low
        slot = mark + at
        store32(following, slot, load32(lists, 2 * key_id))
        store32(lists, 2 * key_id, slot + 1)
        plain &= load(diff, at) == 1
    store(op, PLAIN, plain)
    return 0


@kernel
def settle(op: int) -> int:
    """Make rows of the slice's updates, after the last reader. Status 1: a multiplicity is negative (see DEBT)."""
    size, mark = load(load(op, SIZE), 0), load(op, MARK)
    if load(op, PLAIN) == 1 and load(op, FREE) == 0 and load(op, DEBTS) == 0:
        store(op, MARK, mark + size)
        store(op, LIVE, load(op, LIVE) + size)
        if load(op, WEIGHTED) != 0:
            for at in range(size):
                store(load(op, WEIGHT), mark + at, 1)
        return 0
    key, keys, lists = load(load(op, KEY), 0), load(op, KEYS), load(op, LISTS)
    store(load(op, HOLES), 0, 0)
    stamp = load(op, STAMP) + 1
    store(op, STAMP, stamp)
    end, hashed, low = mark, load(keys, HASHED) != 0, load(keys, LOW)
    for at in range(size):
        if load(load(op, SETTLED), at) == stamp:
            continue
        key_id = find(keys, load(key, at)) if hashed else load(key, at) - low
        end = max(end, _settle_key(op, key_id))
        if end > mark + size:
            return 1
        if load(lists, key_id) == 0:
            remove(keys, load(key, at))
    store(op, MARK, end)
    holes = load(op, HOLES)
    for index in range(1, load(holes, 0) + 1):
        if load(holes, index) < end:
            _free(op, load(holes, index))
    return 1 if load(op, DEBTS) > 0 and load(op, DEBT_TIME) < load(load(op, FRONTIER), 0) else 0


@kernel
def _settle_key(op: int, key_id: int) -> int:
    """Settle one key's updates in the order they came; return one past the last slot behind MARK that is in use."""
    mark, lists, following = load(op, MARK), load(op, LISTS), load(op, NEXT)
    times, diffs, scratch = load(load(op, TIME), 0), load(load(op, DIFF), 0), load(op, SCRATCH)
    updates, link = 0, load32(lists, 2 * key_id)
    while link > mark:
        store(scratch, updates, link - 1)
        store(load(op, SETTLED), link - 1 - mark, load(op, STAMP))
        updates += 1
        link = load32(following, link - 1)
    store32(lists, 2 * key_id, link)
    debts = _debts(op, key_id) if load(op, DEBTS) > 0 else 0
    time, end = load(op, DEBT_TIME), mark
    for index in range(updates - 1, -1, -1):
        slot = load(scratch, index)
        at = slot - mark
        if debts > 0 and load(times, at) > time:
            store(op, DEBT_TIME, time)
            return 2**62
        time = load(times, at)
        before = load(op, DEBTS)
        left = _cancel(op, key_id, slot, load(diffs, at))
        debts += load(op, DEBTS) - before
        if left == 0:
            _free(op, slot)
            continue
        slot = _place(op, slot, left)
        if left < 0:
            debts += 1
            store(op, DEBTS, load(op, DEBTS) + 1)
            store(op, DEBT, slot)
        store32(following, slot, load32(lists, 2 * key_id))
        store32(lists, 2 * key_id, slot + 1)
        end = max(end, slot + 1)
    if debts > 0:
        store(op, DEBT_TIME, time)
    return end


@kernel
def _weight(op: int, slot: int) -> int:
    return load(load(op, WEIGHT), slot) if load(op, WEIGHTED) != 0 else 1


@kernel
def _debts(op: int, key_id: int) -> int:
    """Count the rows of negative weight under a key."""
    count = 0
    for which in range(2):
        link = load32(load(op, LISTS), 2 * key_id + which)
        while link != 0:
            if _weight(op, link - 1) < 0:
                count += 1
                store(op, DEBT, link - 1)
            link = load32(load(op, NEXT), link - 1)
    return count


@kernel
def _equal(op: int, a: int, b: int) -> bool:
    """Are the rows of two slots equal?"""
    for column in range(load(op, COLUMNS)):
        stored = load(load(op, STORED), column)
        if load(stored, a) != load(stored, b):
            return False
    return True


@kernel
def _cancel(op: int, key_id: int, slot: int, diff: int) -> int:
    """Cancel an update against equal rows of the other sign, oldest first; return what is left of it."""
    if diff > 0 and load(op, DEBTS) == 0:
        return diff
    lists, following = load(op, LISTS), load(op, NEXT)
    previous, link = 0, load32(lists, 2 * key_id + 1)
    while diff != 0:
        if link == 0:
            link = _turn_around(op, key_id, previous)
            if link == 0:
                break
        row = link - 1
        weight = _weight(op, row)
        link = load32(following, row)
        if (weight > 0) == (diff > 0) or not _equal(op, row, slot):
            previous = row + 1
            continue
        if abs(weight) > abs(diff):
            store(load(op, WEIGHT), row, weight + diff)
            return 0
        diff += weight
        store(op, DEBTS, load(op, DEBTS) - (weight < 0))
        if previous == 0:
            store32(lists, 2 * key_id + 1, link)
        else:
            store32(following, previous - 1, link)
        _free(op, row)
        store(op, LIVE, load(op, LIVE) - 1)
    return diff


@kernel
def _turn_around(op: int, key_id: int, last: int) -> int:
    """Append NEW, turned around, to OLD, whose last link is `last`; return the link of what was appended."""
    lists, following = load(op, LISTS), load(op, NEXT)
    link, turned = load32(lists, 2 * key_id), 0
    store32(lists, 2 * key_id, 0)
    while link != 0:
        after = load32(following, link - 1)
        store32(following, link - 1, turned)
        turned, link = link, after
    if last == 0:
        store32(lists, 2 * key_id + 1, turned)
    else:
        store32(following, last - 1, turned)
    return turned


@kernel
def _place(op: int, slot: int, weight: int) -> int:
    """Make a row of an update: in a free slot, else where it lies."""
    target = slot
    if load(op, FREE) != 0:
        target = load(op, FREE) - 1
        store(op, FREE, load32(load(op, NEXT), target))
        for column in range(load(op, COLUMNS)):
            stored = load(load(op, STORED), column)
            store(stored, target, load(stored, slot))
        _free(op, slot)
    if weight != 1 and load(op, WEIGHTED) == 0:
        for other in range(load(op, MARK)):
            store(load(op, WEIGHT), other, 1)
        # rows that this slice has placed behind MARK so far had weight 1 too
        for other in range(load(load(op, SIZE), 0)):
            store(load(op, WEIGHT), load(op, MARK) + other, 1)
        store(op, WEIGHTED, 1)
    if load(op, WEIGHTED) != 0:
        store(load(op, WEIGHT), target, weight)
    store(op, LIVE, load(op, LIVE) + 1)
    return target


@kernel
def _free(op: int, slot: int) -> None:
    """Give a slot back; one behind MARK waits in HOLES until it is known where the rows end."""
    if slot >= load(op, MARK):
        holes = load(op, HOLES)
        store(holes, 0, load(holes, 0) + 1)
        store(holes, load(holes, 0), slot)
        return
    store32(load(op, NEXT), slot, load(op, FREE))
    store(op, FREE, slot + 1)
