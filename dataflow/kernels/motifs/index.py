"""Indexes: for each key the values that it has, sorted, with their multiplicities.

Three generations. What is settled lies in the pool of kernels.core.sorted_lists, one list a key. The updates of the
current slice lie beside it, sorted by key, value and time, where readers find those of a key and filter them by time.
When all readers have passed, `settle` merges each key's updates into its list. Lists that outgrow their blocks move;
when too much of the pool is free, all of them move together.

A row whose retraction precedes its insertion within a logical time is there with a negative weight until the time ends;
one that is left then is an error.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.hash_map import HASHED, add, key_of, remove
from deltamark.dataflow.kernels.core.hash_map import LOW as LOW_KEY
from deltamark.dataflow.kernels.core.memory import inline, kernel, load, load32, move, store, store32, wraps
from deltamark.dataflow.kernels.core.sort import by
from deltamark.dataflow.kernels.core.sorted_lists import (  # fmt: skip
    COUNT,
    END,
    HEADS,
    NEW,
    POOL,
    ROOM,
    START,
    UNIT,
    WEIGHTED,
    WEIGHTS,
    WIDTH,
    give,
    number,
    put,
    room_of,
    seek,
    size_of,
    take,
    wasteful,
)

SIZE, TIME, DIFF, KEY, VALUE, KEYS, FRONTIER, LOW, LIVE = range(9, 18)
"""LOW: a value is this plus its number."""
IDS, NUMBERS, ROWS, SPARE, COUNTS, UPDATES, RUNS, RUN_COUNT, ONE_TIME = range(18, 27)
"""IDS to COUNTS: scratch. UPDATES: those of the slice in order, UPDATE words each. RUNS: for each key that has any,
where its updates start, and its id. ONE_TIME: whether all of them are of one time."""
ADDED, REMOVED, DEBTS, DEBT_TIME, NEW_DEBTS, NEW_TIME, ERROR, ERROR_KEY, ERROR_NUMBER, ERROR_TIME = range(27, 37)
"""ADDED: (place, number, weight) of the rows that come into a list, REMOVED: the places of those that leave it. DEBTS:
rows of negative weight from slices before, of the time DEBT_TIME; NEW: from this slice."""
WORDS = 37

AT_NUMBER, AT_TIME, AT_DIFF, AT_STOP = range(4)
"""Of an update. AT_STOP: where the updates of its key end; only its first one has it."""
UPDATE = 4

CROWDED, FAILED = 1, 2
NEGATIVE, TOO_HEAVY = 1, 2
"""Errors."""


@kernel
def insert(op: int) -> None:
    """Lay out the slice's updates."""
    size, keys, low = load(load(op, SIZE), 0), load(op, KEYS), load(op, LOW)
    key, value, ids, numbers = load(load(op, KEY), 0), load(load(op, VALUE), 0), load(op, IDS), load(op, NUMBERS)
    times, diffs, rows = load(load(op, TIME), 0), load(load(op, DIFF), 0), load(op, ROWS)
    hashed, low_key = load(keys, HASHED) != 0, load(keys, LOW_KEY)
    for at in range(size):
        store(ids, at, add(keys, load(key, at)) if hashed else load(key, at) - low_key)
        store(numbers, at, load(value, at) - low)
        store(rows, at, at)
    rows = by(numbers, rows, load(op, SPARE), size, load(op, COUNTS))
    other = load(op, SPARE) if rows == load(op, ROWS) else load(op, ROWS)
    rows = by(ids, rows, other, size, load(op, COUNTS))
    updates, runs, count, before = load(op, UPDATES), load(op, RUNS), 0, -1
    for at in range(size):
        row = load(rows, at)
        update = updates + 8 * UPDATE * at
        store(update, AT_NUMBER, load(numbers, row))
        store(update, AT_TIME, load(times, row))
        store(update, AT_DIFF, load(diffs, row))
        if load(ids, row) != before:
            if count > 0:
                store(updates + 8 * UPDATE * load(runs, 2 * count - 2), AT_STOP, at)
            before = load(ids, row)
            store(runs, 2 * count, at)
            store(runs, 2 * count + 1, before)
            store32(load(op, HEADS), 4 * before + NEW, at + 1)
            count += 1
    if count > 0:
        store(updates + 8 * UPDATE * load(runs, 2 * count - 2), AT_STOP, size)
    store(op, RUN_COUNT, count)
    store(op, ONE_TIME, int(size == 0 or load(times, 0) == load(times, size - 1)))


@kernel
def settle(op: int) -> int:
    """Merge the slice's updates into the lists, after the last reader."""
    if wasteful(op):
        return CROWDED
    store(op, NEW_DEBTS, 0)
    for run in range(load(op, RUN_COUNT)):
        start, key_id = load(load(op, RUNS), 2 * run), load(load(op, RUNS), 2 * run + 1)
        if not _settle_key(op, key_id, start, load(load(op, UPDATES) + 8 * UPDATE * start, AT_STOP)):
            return FAILED
    store(op, RUN_COUNT, 0)
    if load(op, DEBTS) > 0 and load(op, DEBT_TIME) < load(load(op, FRONTIER), 0):
        _find_debt(op)
        return FAILED
    if load(op, NEW_DEBTS) > 0:
        store(op, DEBT_TIME, load(op, NEW_TIME))
    store(op, DEBTS, load(op, DEBTS) + load(op, NEW_DEBTS))
    return 0


@kernel
def _find_debt(op: int) -> None:
    """Name a row of negative weight that should not be there any more."""
    heads, key_id, place = load(op, HEADS), 0, 0
    while True:
        start, count = load32(heads, 4 * key_id + START) * UNIT, load32(heads, 4 * key_id + COUNT)
        place = start
        while place < start + count and weight_at(op, place) > 0:
            place += 1
        if place < start + count:
            break
        key_id += 1
    store(op, ERROR, NEGATIVE)
    store(op, ERROR_KEY, key_id)
    store(op, ERROR_NUMBER, number(load(op, POOL), load(op, WIDTH), place))
    store(op, ERROR_TIME, load(op, DEBT_TIME))


@kernel
def _settle_key(op: int, key_id: int, start: int, stop: int) -> bool:
    """Settle one key's updates; return whether all of them can be."""
    head = load(op, HEADS) + 16 * key_id
    pool, width, updates = load(op, POOL), load(op, WIDTH), load(op, UPDATES)
    first, count = load32(head, START) * UNIT, load32(head, COUNT)
    added = removed = 0
    place, at = first, start
    while at < stop:
        value = load(updates + 8 * UPDATE * at, AT_NUMBER)
        place = seek(pool, width, place, first + count, value)
        there = place < first + count and number(pool, width, place) == value
        before = weight_at(op, place) if there else 0
        end = at
        while end < stop and load(updates + 8 * UPDATE * end, AT_NUMBER) == value:
            end += 1
        weight = _sum(op, before, at, end)
        if load(op, ERROR) != 0:
            store(op, ERROR_KEY, key_id)
            return False
        at = end
        if there and weight == 0:
            store(load(op, REMOVED), removed, place)
            removed += 1
        elif there:
            _weigh(op, place, weight)
        elif weight != 0:
            into = load(op, ADDED) + 24 * added
            store(into, 0, place - removed)
            store(into, 1, value)
            store(into, 2, weight)
            added += 1
    _remove(op, first, count, removed)
    _add(op, head, count - removed, added)
    store32(head, NEW, 0)
    store(op, LIVE, load(op, LIVE) + added - removed)
    if count - removed + added == 0:
        remove(load(op, KEYS), key_of(load(op, KEYS), key_id))
    return True


@kernel
def _sum(op: int, before: int, start: int, stop: int) -> int:
    """Add the updates of one row to its weight, which may be negative only within a time that is still open."""
    updates, weight, wrapped = load(op, UPDATES), before, 0
    time = load(op, DEBT_TIME) if before < 0 else load(updates + 8 * UPDATE * start, AT_TIME)
    for at in range(start, stop):
        update = updates + 8 * UPDATE * at
        if load(update, AT_TIME) != time:
            if weight < 0:
                break
            time = load(update, AT_TIME)
        wrapped |= wraps(weight, load(update, AT_DIFF))
        weight += load(update, AT_DIFF)
    over = time < max(load(load(op, FRONTIER), 0), load(updates + 8 * UPDATE * (stop - 1), AT_TIME))
    if wrapped < 0 or (weight < 0 and over):
        store(op, ERROR, TOO_HEAVY if wrapped < 0 else NEGATIVE)
        store(op, ERROR_NUMBER, load(updates + 8 * UPDATE * start, AT_NUMBER))
        store(op, ERROR_TIME, time)
        return 0
    store(op, DEBTS, load(op, DEBTS) - (before < 0))
    if weight < 0:
        store(op, NEW_DEBTS, load(op, NEW_DEBTS) + 1)
        store(op, NEW_TIME, time)
    return weight


@inline
def weight_at(op: int, place: int) -> int:
    return load(load(op, WEIGHTS), place) if load(op, WEIGHTED) != 0 else 1


@kernel
def _weigh(op: int, place: int, weight: int) -> None:
    """Say how often a row is there."""
    if weight != 1 and load(op, WEIGHTED) == 0:
        for other in range(load(op, END)):
            store(load(op, WEIGHTS), other, 1)
        store(op, WEIGHTED, 1)
    if load(op, WEIGHTED) != 0:
        store(load(op, WEIGHTS), place, weight)


@kernel
def _remove(op: int, first: int, count: int, removed: int) -> None:
    """Close the gaps that rows leave in a list."""
    if removed == 0:
        return
    places, target = load(op, REMOVED), load(load(op, REMOVED), 0)
    for index in range(removed):
        source = load(places, index) + 1
        stop = load(places, index + 1) if index + 1 < removed else first + count
        _move(op, target, source, stop - source)
        target += stop - source


@inline
def _move(op: int, target: int, source: int, numbers: int) -> None:
    pool, width = load(op, POOL), load(op, WIDTH)
    move(pool + width * target, pool + width * source, width * numbers)
    if load(op, WEIGHTED) != 0:
        move(load(op, WEIGHTS) + 8 * target, load(op, WEIGHTS) + 8 * source, 8 * numbers)


@kernel
def _add(op: int, head: int, count: int, added: int) -> None:
    """Merge rows into a list of so many, from its end on: in its block, or in a larger one."""
    old, room = load32(head, START) * UNIT, load32(head, ROOM)
    new, total, asked = old, count + added, 0
    if total > room:
        asked = total + (total >> 3 if room > 0 else 0)
        new = take(op, asked)
    stop = old + count
    for index in range(added - 1, -1, -1):
        row = load(op, ADDED) + 24 * index
        place = load(row, 0)
        _move(op, new + place - old + index + 1, place, stop - place)
        put(load(op, POOL), load(op, WIDTH), new + place - old + index, load(row, 1))
        _weigh(op, new + place - old + index, load(row, 2))
        stop = place
    if new != old:
        _move(op, new, old, stop - old)
    if room > 0 and (new != old or total == 0):
        give(op, old, room)
    store32(head, COUNT, total)
    if new != old or total == 0:
        store32(head, START, new // UNIT if total > 0 else 0)
        store32(head, ROOM, room_of(size_of(asked)) if total > 0 else 0)
