"""Folds: what a loop remembers of a key, added up value by value as the iterations of an epoch go by.

A key that is looked at again and again in an epoch would have its whole list gone through each time. Its second look
makes a fold instead: the sums of all rows up to the iteration, in order of value, and the later rows in order of
iteration. Then a look adds the rows that have come since the one before, and reads the least value off the sums. Rows
that come while iterations are looked at belong to the next iteration, so no row that was added changes any more. All
folds are thrown away when the epoch ends.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.memory import inline, kernel, load, load32, move, store
from deltamark.dataflow.kernels.loops import trace

HEAD, PENDING, PENDING_AT, PENDING_END, SUMS, COUNT, ROOM, NEGATIVE, HAD, DEBTS = range(10)
WORDS = 10
"""A fold. HEAD: the slot before which the list of the key has rows
that are not. PENDING: pairs (iteration, slot) of rows that were there when the fold was made, from PENDING_AT on not in
the sums. SUMS: COUNT records, with room for ROOM. NEGATIVE: may a row have a negative weight, so that nothing is sure?
HAD: had any value a weight before the epoch? DEBTS: how many sums are negative now."""

VALUE, NOW, BEFORE, SINCE = range(4)
SUM_WORDS = 4
"""A sum: a value, its weight now and before the epoch, and 1 + the iteration of the first row of positive weight."""

NEVER = 2**62
ZEROS = 8
"""Sums of zero that are passed at the front before they are taken out."""


@kernel
def begin(area: int, used: int, remembered: int, first: int, before: int, iteration: int, rows: int, count: int) -> int:
    """Make a fold in an area of which so many words are used; return how many are used then.

    first: the first slot of the key's list; before: which word of a row is its weight before the epoch; rows: COUNT
    records (value, weight, weight before, iteration) of the rows up to the iteration, in order of value.
    """
    fold, used = area + 8 * used, used + WORDS
    room = 2 * count + 16
    sums, used = area + 8 * used, used + SUM_WORDS * room
    store(fold, HEAD, first)
    store(fold, SUMS, sums)
    store(fold, COUNT, 0)
    store(fold, ROOM, room)
    store(fold, NEGATIVE, 0)
    store(fold, HAD, 0)
    store(fold, DEBTS, 0)
    for at in range(count):
        row = rows + 32 * at
        _append(fold, load(row, 0), load(row, 1), load(row, 2), load(row, 3))
    pending, found, slot = area + 8 * used, 0, first
    while slot != 0:
        record = trace.record_of(remembered, slot)
        if load32(record, trace.CAME) > iteration:
            store(pending, 2 * found, load32(record, trace.CAME))
            store(pending, 2 * found + 1, slot)
            found += 1
        _judge(fold, load(record, trace.WEIGHT), load(record, before))
        slot = load32(record, trace.AFTER)
    _sort(pending, found)
    store(fold, PENDING, pending)
    store(fold, PENDING_AT, 0)
    store(fold, PENDING_END, found)
    return used + 2 * found


@inline
def _judge(fold: int, weight: int, before: int) -> None:
    if weight < 0 or before < 0:
        store(fold, NEGATIVE, 1)
    if before != 0:
        store(fold, HAD, 1)


@kernel
def _append(fold: int, value: int, weight: int, before: int, came: int) -> None:
    """Add a row whose value is not less than any that was added."""
    count = load(fold, COUNT)
    last = load(fold, SUMS) + 8 * SUM_WORDS * (count - 1)
    if count == 0 or load(last, VALUE) != value:
        last += 8 * SUM_WORDS
        _set(last, value)
        store(fold, COUNT, count + 1)
    _increase(fold, last, weight, before, came)


@inline
def _set(record: int, value: int) -> None:
    store(record, VALUE, value)
    store(record, NOW, 0)
    store(record, BEFORE, 0)
    store(record, SINCE, 0)


@inline
def _increase(fold: int, record: int, weight: int, before: int, came: int) -> None:
    now = load(record, NOW) + weight
    store(fold, DEBTS, load(fold, DEBTS) + (now < 0) - (load(record, NOW) < 0))
    store(record, NOW, now)
    store(record, BEFORE, load(record, BEFORE) + before)
    since = load(record, SINCE)
    if weight > 0 and (since == 0 or came + 1 < since):
        store(record, SINCE, came + 1)


@kernel
def _sort(pairs: int, count: int) -> None:
    """Put pairs in order of their first words."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for start in range(gap, count):
            a, b, at = load(pairs, 2 * start), load(pairs, 2 * start + 1), start
            while at >= gap and load(pairs, 2 * (at - gap)) > a:
                store(pairs, 2 * at, load(pairs, 2 * (at - gap)))
                store(pairs, 2 * at + 1, load(pairs, 2 * (at - gap) + 1))
                at -= gap
            store(pairs, 2 * at, a)
            store(pairs, 2 * at + 1, b)
        gap //= 3


@kernel
def add_until(area: int, used: int, fold: int, remembered: int, first: int, before: int, stop: int) -> int:
    """Add the rows of iterations before `stop`; return how many words of the area are used then.

    Rows that came while iterations were looked at are in front of HEAD, the latest iteration first.
    """
    pending, at = load(fold, PENDING), load(fold, PENDING_AT)
    while at < load(fold, PENDING_END) and load(pending, 2 * at) < stop:
        used = _add(area, used, fold, trace.record_of(remembered, load(pending, 2 * at + 1)), before)
        at += 1
    store(fold, PENDING_AT, at)
    slot, head = first, load(fold, HEAD)
    while slot != head and load32(trace.record_of(remembered, slot), trace.CAME) >= stop:
        slot = load32(trace.record_of(remembered, slot), trace.AFTER)
    store(fold, HEAD, slot)
    while slot != head:
        record = trace.record_of(remembered, slot)
        used = _add(area, used, fold, record, before)
        slot = load32(record, trace.AFTER)
    return used


@kernel
def following(fold: int, remembered: int, first: int) -> int:
    """Return the first iteration of which rows are not in the sums."""
    found = NEVER
    if load(fold, PENDING_AT) < load(fold, PENDING_END):
        found = load(load(fold, PENDING), 2 * load(fold, PENDING_AT))
    slot = first
    while slot != load(fold, HEAD):
        record = trace.record_of(remembered, slot)
        found = min(found, load32(record, trace.CAME))
        slot = load32(record, trace.AFTER)
    return found


@kernel
def _add(area: int, used: int, fold: int, record: int, before: int) -> int:
    """Add a row; return how many words of the area are used then."""
    value, weight, earlier = load(record, trace.VALUES), load(record, trace.WEIGHT), load(record, before)
    _judge(fold, weight, earlier)
    if weight == 0 and earlier == 0:
        return used
    low, high = 0, load(fold, COUNT)
    while low < high:
        middle = (low + high) >> 1
        if load(load(fold, SUMS) + 8 * SUM_WORDS * middle, VALUE) < value:
            low = middle + 1
        else:
            high = middle
    place = load(fold, SUMS) + 8 * SUM_WORDS * low
    if low == load(fold, COUNT) or load(place, VALUE) != value:
        used = _make_room(area, used, fold)
        place = load(fold, SUMS) + 8 * SUM_WORDS * low
        move(place + 8 * SUM_WORDS, place, 8 * SUM_WORDS * (load(fold, COUNT) - low))
        _set(place, value)
        store(fold, COUNT, load(fold, COUNT) + 1)
    _increase(fold, place, weight, earlier, load32(record, trace.CAME))
    return used


@kernel
def _make_room(area: int, used: int, fold: int) -> int:
    """See to room for one more sum; return how many words of the area are used then."""
    count, room = load(fold, COUNT), load(fold, ROOM)
    if count == room:
        sums = area + 8 * used
        move(sums, load(fold, SUMS), 8 * SUM_WORDS * count)
        store(fold, SUMS, sums)
        store(fold, ROOM, 2 * room)
        used += SUM_WORDS * 2 * room
    return used


@kernel
def least(fold: int, column: int, weight: int) -> int:
    """Return the place of the least value of at least a weight in a column, -1 where there is none."""
    if column == BEFORE and load(fold, HAD) == 0:
        return -1
    sums, zeros = load(fold, SUMS), 0
    for at in range(load(fold, COUNT)):
        record = sums + 8 * SUM_WORDS * at
        if load(record, column) >= weight:
            if zeros <= ZEROS:
                return at
            _take_out_zeros(fold)
            return at - zeros
        zeros += load(record, NOW) == 0 and load(record, BEFORE) == 0
    if zeros > ZEROS:
        _take_out_zeros(fold)
    return -1


@kernel
def _take_out_zeros(fold: int) -> None:
    sums, kept = load(fold, SUMS), 0
    for at in range(load(fold, COUNT)):
        record, target = sums + 8 * SUM_WORDS * at, sums + 8 * SUM_WORDS * kept
        if load(record, NOW) != 0 or load(record, BEFORE) != 0:
            for word in range(SUM_WORDS):
                store(target, word, load(record, word))
            kept += 1
    store(fold, COUNT, kept)


@inline
def value_at(fold: int, place: int) -> int:
    """Return the value of a sum; NEVER for place -1."""
    return load(load(fold, SUMS) + 8 * SUM_WORDS * place, VALUE) if place >= 0 else NEVER


@inline
def since_at(fold: int, place: int) -> int:
    return load(load(fold, SUMS) + 8 * SUM_WORDS * place, SINCE) if place >= 0 else 0


@kernel
def negative(fold: int) -> int:
    """Return the place of a sum that is negative now, -1 where none is."""
    if load(fold, DEBTS) == 0:
        return -1
    for at in range(load(fold, COUNT)):
        if load(load(fold, SUMS) + 8 * SUM_WORDS * at, NOW) < 0:
            return at
    return -1
