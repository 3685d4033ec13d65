"""Arrangements: rows by key, shared by every operator that joins on that key.

A settled row lies in a slot; the slots of a key form two lists, NEW (newest first, where rows are added) and OLD
(oldest first, where retractions look). A search that runs off the end of OLD turns NEW around and appends it, so each
row is turned around at most once, and rows that leave in the order they came are found at once. Where a search takes
LONG nevertheless, rows are found by a hash of their values from the next slice on: see kernels.arrangements.row_lookup.

The updates of the current slice lie behind the settled rows, from MARK on, in the order in which they came: update i
in slot MARK + i, linked into NEW like a row, with its time and diff in the slice's own vectors. So readers need no
time for settled rows, and inserting costs three stores a row. When all readers have passed, `settle` makes rows of
insertions and cancels retractions against equal rows, from the oldest on. Freed slots are used again.

While somebody holds a past time, updates since then are not settled: each slice's are appended behind those before,
with their times, diffs and keys in a log, and readers see all of them. They are settled up to the time that nobody asks
for any more, as if they were one slice's.

A row's weight is 1 unless WEIGHTED is set. A retraction that precedes its insertion within a logical time becomes a
row of negative weight until the time ends; one that is left then is an error.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements import row_lookup as found_by
from deltamark.dataflow.kernels.core.hash_map import HASHED, LOW, add, find, reach, remove
from deltamark.dataflow.kernels.core.memory import kernel, load, load32, store, store32

SIZE, TIME, DIFF, KEY, KEYS, FRONTIER, LISTS, NEXT, MARK, FREE, LIVE, WEIGHTED, WEIGHT, PLAIN = range(1, 15)
DEBTS, DEBT_TIME, DEBT, SCRATCH, HOLES, COLUMNS, INPUTS, STORED, SETTLED, STAMP, FOUND, SLOW = range(15, 27)
SEEN_TIME, SEEN_DIFF, FIRST, LOG_TIME, LOG_DIFF, LOG_KEY = range(27, 33)
"""LISTS: int32 pairs (NEW, OLD) an id, holding slot + 1, as NEXT and FREE do. DEBTS: rows of negative weight, the last
of them in slot DEBT since DEBT_TIME. INPUTS: the address of COLUMNS cells; STORED: of as many addresses. SETTLED: holds
STAMP for the updates that are done. FOUND: the block of kernels.arrangements.row_lookup, 0 until it is needed, which
SLOW says. SEEN_TIME, SEEN_DIFF: cells of the times and diffs of all updates behind MARK, of which the slice's begin
with number FIRST. LOG_*:
where updates are kept that are not to be settled; 0 where none are."""

LONG = 64
"""Rows that a search may pass."""

CROWDED, FAILED = 1, 2
"""Statuses of `settle`: the table of FOUND is missing or must grow, nothing was done; a multiplicity is negative."""


@kernel
def insert(op: int) -> int:
    """Append the slice's updates."""
    size, mark = load(load(op, SIZE), 0), load(op, MARK) + load(op, FIRST)
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
    if load(op, LOG_TIME) != 0:
        _log(op, size)
    return 0


@kernel
def _log(op: int, size: int) -> None:
    """Keep the slice's times, diffs and keys."""
    first, time, diff, key = load(op, FIRST), load(load(op, TIME), 0), load(load(op, DIFF), 0), load(load(op, KEY), 0)
    for at in range(size):
        store(load(op, LOG_TIME), first + at, load(time, at))
        store(load(op, LOG_DIFF), first + at, load(diff, at))
        store(load(op, LOG_KEY), first + at, load(key, at))


@kernel
def settle(op: int) -> int:
    """Make rows of the slice's updates, after the last reader, unless a past time is held."""
    size, mark, found = load(load(op, SIZE), 0), load(op, MARK), load(op, FOUND)
    if load(op, LOG_TIME) != 0:
        store(op, FIRST, load(op, FIRST) + size)
        return 0
    if found == 0 and load(op, SLOW) != 0:
        return CROWDED
    if found != 0 and 2 * (load(found, found_by.USED) + size) > load(found, found_by.MASK) + 1:
        return CROWDED
    if load(op, PLAIN) == 1 and load(op, FREE) == 0 and load(op, DEBTS) == 0:
        store(op, MARK, mark + size)
        store(op, LIVE, load(op, LIVE) + size)
        if load(op, WEIGHTED) != 0:
            for at in range(size):
                store(load(op, WEIGHT), mark + at, 1)
        if found != 0:
            for at in range(size):
                _enter(op, found, mark + at, _key_id(op, at))
        return 0
    key, keys, lists = load(load(op, KEY), 0), load(op, KEYS), load(op, LISTS)
    store(load(op, HOLES), 0, 0)
    stamp = load(op, STAMP) + 1
    store(op, STAMP, stamp)
    end = mark
    for at in range(size):
        if load(load(op, SETTLED), at) == stamp:
            continue
        key_id = _key_id(op, at)
        end = max(end, _settle_key(op, key_id))
        if end > mark + size:
            return FAILED
        if load(lists, key_id) == 0:
            remove(keys, load(key, at))
    store(op, MARK, end)
    holes = load(op, HOLES)
    for index in range(1, load(holes, 0) + 1):
        if load(holes, index) < end:
            _free(op, load(holes, index))
    return FAILED if load(op, DEBTS) > 0 and load(op, DEBT_TIME) < load(load(op, FRONTIER), 0) else 0


@kernel
def _key_id(op: int, at: int) -> int:
    """Return the id of an update's key."""
    key, keys = load(load(load(op, KEY), 0), at), load(op, KEYS)
    return find(keys, key) if load(keys, HASHED) != 0 else key - load(keys, LOW)


@kernel
def _enter(op: int, found: int, slot: int, key_id: int) -> None:
    """Let a row, the first of its list, be found."""
    found_by.first(found, slot, key_id, load(op, NEXT))
    found_by.enter(found, slot, found_by.hash_of(key_id, slot, load(op, COLUMNS), load(op, STORED)))


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
    if load(op, FOUND) != 0 and link != 0:
        found_by.follow(load(op, FOUND), link - 1, 0)
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
        if load(op, FOUND) != 0:
            _enter(op, load(op, FOUND), slot, key_id)
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
    if load(op, FOUND) != 0:
        return _cancel_found(op, load(op, FOUND), key_id, slot, diff)
    lists, following = load(op, LISTS), load(op, NEXT)
    previous, link, passed = 0, load32(lists, 2 * key_id + 1), 0
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
            passed += 1
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
    if passed > LONG:
        store(op, SLOW, 1)
    return diff


@kernel
def _cancel_found(op: int, found: int, key_id: int, slot: int, diff: int) -> int:
    """Cancel an update against equal rows of the other sign that are found by their hash."""
    hashed = found_by.hash_of(key_id, slot, load(op, COLUMNS), load(op, STORED))
    place = hashed & load(found, found_by.MASK)
    while diff != 0:
        entry = load(load(found, found_by.TABLE), place)
        if entry == 0:
            break
        row = (entry & 0xFFFFFFFF) - 1
        place = (place + 1) & load(found, found_by.MASK)
        if entry >> 32 != hashed or found_by.key_of(found, row) != key_id or not _equal(op, row, slot):
            continue
        weight = _weight(op, row)
        if (weight > 0) == (diff > 0):
            continue
        if abs(weight) > abs(diff):
            store(load(op, WEIGHT), row, weight + diff)
            return 0
        diff += weight
        store(op, DEBTS, load(op, DEBTS) - (weight < 0))
        found_by.leave(found, row, hashed)
        found_by.unlink(found, row, load(op, LISTS), load(op, NEXT))
        _free(op, row)
        store(op, LIVE, load(op, LIVE) - 1)
        place = hashed & load(found, found_by.MASK)  # those behind it have moved up
    return diff


@kernel
def index(op: int, found: int) -> None:
    """Let all settled rows be found by a new block of kernels.arrangements.row_lookup, whose table has room for
    them.
    """
    keys, lists, following, mark = load(op, KEYS), load(op, LISTS), load(op, NEXT), load(op, MARK)
    for key_id in range(reach(keys)):
        last, link = 0, load32(lists, 2 * key_id)
        while link != 0:
            last, link = link, load32(following, link - 1)
        older = load32(lists, 2 * key_id + 1)
        if last == 0:
            store32(lists, 2 * key_id, older)
        else:
            store32(following, last - 1, older)
        store32(lists, 2 * key_id + 1, 0)
        previous, link = 0, load32(lists, 2 * key_id)
        while link != 0:
            if link <= mark:
                _enter(op, found, link - 1, key_id)
                found_by.follow(found, link - 1, previous)
            previous, link = link, load32(following, link - 1)
    store(op, FOUND, found)


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
