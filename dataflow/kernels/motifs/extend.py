"""Extend rows by one more column: by every value that all of some indexes have for the row's key there.

The index with the fewest values proposes, the others validate, so that the work is that of the smallest set however
many rows the others have. No proposal is ever stored: one after another is held against the other indexes, whose lists
are searched from where the last search ended. Multiplicities are multiplied, by whoever proposes and by who validates.

A row sees of each index what is settled, and of the updates of the current slice those of times up to its own, or
(OLD) before it. A value that the row has already (BOUND) is validated by all.

Values that nobody reads (SUMMED) are not listed: the row is there once, its weight times how many values it has. Or
the row is there once with how many values the only index has for it at most (MEASURED).
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements.join import product_at
from deltamark.dataflow.kernels.core.hash_map import HASHED, find
from deltamark.dataflow.kernels.core.hash_map import LOW as LOW_KEY
from deltamark.dataflow.kernels.core.intersection import common
from deltamark.dataflow.kernels.core.memory import inline, kernel, load, load32, prefetch, store, wraps
from deltamark.dataflow.kernels.core.sorted_lists import (
    COUNT,
    HEADS,
    NEW,
    POOL,
    START,
    UNIT,
    WEIGHTED,
    WEIGHTS,
    WIDTH,
    number,
    seek,
)
from deltamark.dataflow.kernels.motifs import index
from deltamark.dataflow.kernels.motifs.index import AT_DIFF, AT_NUMBER, AT_STOP, AT_TIME, UPDATE

SIZE, TIME, DIFF, PARTS, PART_TABLE, BOUND, PROPOSER, OUT_SIZE, OUT_TIME, OVERFLOW = range(1, 11)
"""PARTS, PART_TABLE: how many indexes, and PART words each. BOUND: the cell of the values, or 0. PROPOSER: which part
proposes, or ANYBODY. OVERFLOW (where kernels.arrangements.join has it): set when a product of weights needs more than
64 bits."""
OUT_DIFF, OUT_ROW, OUT_VALUE, PROPOSALS, CROWD, COUNTED, MADE = range(11, 18)
"""OUT_ROW: the row that is extended. PROPOSALS, MADE: how many there have been, and how many rows. CROWD: a cell: see
kernels.interpreter."""

LISTED, SUMMED, MEASURED = range(3)
"""What becomes of the values that a row has: COUNTED says which."""

ANYBODY = -1
AHEAD = 8
"""Rows, before and after the places of their lists are known."""

FEW_UPDATES = 4
"""Two lists meet without their updates, which follow, if there are at most this many times fewer of these."""
FOREVER = 2**62

INDEX, KEY, SEES_OLD, AT, STOP, UPDATE_AT, UPDATE_STOP, POOL_OF, WIDTH_OF, BEFORE = range(10)
"""Of a part: its index, the cell of its keys, whether it sees only what was there before a row's time. For the row at
hand: where the rest of its list is, and of its updates, which count where their times are less than BEFORE."""
PART = 10


@kernel
def extend(op: int) -> int:
    parts, table, size = load(op, PARTS), load(op, PART_TABLE), load(load(op, SIZE), 0)
    bound, proposer, counted, out = load(op, BOUND), load(op, PROPOSER), load(op, COUNTED) != 0, 0
    measured = load(op, COUNTED) == MEASURED
    for part in range(parts):
        _aim(table + 8 * PART * part)
    for row in range(size):
        if row + 2 * AHEAD < size:
            _fetch(op, row)
        least, before = _locate(op, row), out
        if least < 0:
            continue
        if measured:
            out = _measure(op, row, table, out)
        elif bound != 0:
            out = _validate(op, row, load(load(bound, 0), row), 1, parts, out)
        elif parts == 1 and _is_plain(table) and _updates(table) == 0:
            out = _copy(op, row, table, out)
        elif parts == 2 and _are_alike(table) and proposer == ANYBODY:
            out = _intersect(op, row, table + 8 * PART * least, table + 8 * PART * (1 - least), out)
        elif parts > 2 and _are_all_alike(table, parts) and proposer == ANYBODY:
            out = _intersect_all(op, row, least, out)
        else:
            out = _propose(op, row, least, out)
        if counted and out > before + 1:
            out = _sum(op, before, out)
    store(load(op, OUT_SIZE), 0, out)
    store(op, MADE, load(op, MADE) + out)
    store(load(op, CROWD), 0, max(load(load(op, CROWD), 0), out))
    return load(op, OVERFLOW)


@inline
def _aim(part: int) -> None:
    """Note what is the same for all rows of a slice."""
    store(part, POOL_OF, load(load(part, INDEX), POOL))
    store(part, WIDTH_OF, load(load(part, INDEX), WIDTH))


@kernel
def _fetch(op: int, row: int) -> None:
    """Have the cache fetch where the lists of rows further on start, and of nearer ones what they begin with."""
    for which in range(load(op, PARTS)):
        part = load(op, PART_TABLE) + 8 * PART * which
        of, key = load(part, INDEX), load(load(part, KEY), 0)
        keys = load(of, index.KEYS)
        if load(keys, HASHED) == 0:
            heads = load(of, HEADS) - 16 * load(keys, LOW_KEY)
            prefetch(heads + 16 * load(key, row + 2 * AHEAD))
            start = load32(heads + 16 * load(key, row + AHEAD), START)
            for line in range(4):
                prefetch(load(part, POOL_OF) + load(part, WIDTH_OF) * UNIT * start + 64 * line)


@kernel
def _locate(op: int, row: int) -> int:
    """Find the lists of a row's keys; return which part proposes, or -1 where one of them has nothing."""
    time, table, proposer = load(load(load(op, TIME), 0), row), load(op, PART_TABLE), load(op, PROPOSER)
    least, fewest = 0, FOREVER
    for which in range(load(op, PARTS)):
        part = table + 8 * PART * which
        of, key = load(part, INDEX), load(load(load(part, KEY), 0), row)
        keys = load(of, index.KEYS)
        key_id = find(keys, key) if load(keys, HASHED) != 0 else key - load(keys, LOW_KEY)
        count = _open(part, of, load(of, HEADS) + 16 * key_id, time + 1 - load(part, SEES_OLD)) if key_id >= 0 else 0
        if count == 0:
            if proposer in (ANYBODY, which):
                return -1
            _close(part)
        if count < fewest:
            least, fewest = which, count
    return least if proposer == ANYBODY else proposer


@inline
def _open(part: int, of: int, head: int, before: int) -> int:
    """Note where a key's rows are that a row sees; return how many they are at most."""
    start, count, new = load32(head, START) * UNIT, load32(head, COUNT), load32(head, NEW) - 1
    update = load(of, index.UPDATES) + 8 * UPDATE * new
    if new >= 0 and load(of, index.ONE_TIME) != 0 and load(update, AT_TIME) >= before:
        new = -1
    stop = load(update, AT_STOP) if new >= 0 else -1
    store(part, AT, start)
    store(part, STOP, start + count)
    store(part, UPDATE_AT, new)
    store(part, UPDATE_STOP, stop)
    store(part, BEFORE, before)
    return count + stop - new


@inline
def _close(part: int) -> None:
    """Note that a part has nothing for a row."""
    store(part, STOP, load(part, AT))
    store(part, UPDATE_AT, -1)
    store(part, UPDATE_STOP, -1)


@inline
def _is_plain(part: int) -> bool:
    """Is each of a part's settled rows there once?"""
    return load(load(part, INDEX), WEIGHTED) == 0


@inline
def _updates(part: int) -> int:
    return load(part, UPDATE_STOP) - load(part, UPDATE_AT)


@inline
def _are_alike(a: int) -> bool:
    """Are the lists of two parts mere numbers that mean the same, with few updates?"""
    b = a + 8 * PART
    fewest = min(load(a, STOP) - load(a, AT), load(b, STOP) - load(b, AT))
    few = FEW_UPDATES * (_updates(a) + _updates(b)) <= fewest
    low, other = load(load(a, INDEX), index.LOW), load(load(b, INDEX), index.LOW)
    narrow = load(a, WIDTH_OF) == 4 and load(b, WIDTH_OF) == 4
    return few and low == other and narrow and _is_plain(a) and _is_plain(b)


@kernel
def _are_all_alike(table: int, parts: int) -> bool:
    """Are the lists of all parts mere numbers that mean the same, without updates?"""
    alike, low = True, load(load(table, INDEX), index.LOW)
    for which in range(parts):
        part = table + 8 * PART * which
        alike &= load(part, WIDTH_OF) == 4 and _is_plain(part) and _updates(part) == 0
        alike &= load(load(part, INDEX), index.LOW) == low
    return alike


@inline
def _measure(op: int, row: int, part: int, out: int) -> int:
    """Extend a row by how many values a part has for it at most."""
    store(load(load(op, OUT_TIME), 0), out, load(load(load(op, TIME), 0), row))
    store(load(load(op, OUT_DIFF), 0), out, load(load(load(op, DIFF), 0), row))
    store(load(load(op, OUT_ROW), 0), out, row)
    store(load(load(op, OUT_VALUE), 0), out, load(part, STOP) - load(part, AT) + _updates(part))
    return out + 1


@kernel
def _copy(op: int, row: int, part: int, out: int) -> int:
    """Extend a row by all numbers of a list."""
    pool, width, low, start = (
        load(part, POOL_OF),
        load(part, WIDTH_OF),
        load(load(part, INDEX), index.LOW),
        load(part, AT),
    )
    values, count = load(load(op, OUT_VALUE), 0), load(part, STOP) - start
    if load(op, COUNTED) != 0:
        return _fill(op, row, out, out + count)
    for at in range(count):
        store(values, out + at, number(pool, width, start + at) + low)
    store(op, PROPOSALS, load(op, PROPOSALS) + count)
    return _fill(op, row, out, out + count)


@kernel
def _fill(op: int, row: int, start: int, stop: int) -> int:
    """Complete the rows that values have been written for."""
    time, diff = load(load(load(op, TIME), 0), row), load(load(load(op, DIFF), 0), row)
    if load(op, COUNTED) != 0:
        diff, stop = product_at(op, diff, stop - start), min(stop, start + 1)
    times, diffs, rows = load(load(op, OUT_TIME), 0), load(load(op, OUT_DIFF), 0), load(load(op, OUT_ROW), 0)
    for at in range(start, stop):
        store(times, at, time)
        store(diffs, at, diff)
        store(rows, at, row)
    return stop


@kernel
def _sum(op: int, start: int, stop: int) -> int:
    """Add the rows that values of one row have become to the first of them; return the new size of the output."""
    diffs = load(load(op, OUT_DIFF), 0)
    total = load(diffs, start)
    for at in range(start + 1, stop):
        if wraps(total, load(diffs, at)) < 0:
            store(op, OVERFLOW, 1)
        total += load(diffs, at)
    store(diffs, start, total)
    return start + (total != 0)


@kernel
def _intersect(op: int, row: int, mine: int, other: int, out: int) -> int:
    """Extend a row by the numbers that two lists have in common, and by what their updates add and take away."""
    start, others_start, low = load(mine, AT), load(other, AT), load(load(mine, INDEX), index.LOW)
    size, others_size = load(mine, STOP) - start, load(other, STOP) - others_start
    a, b = load(mine, POOL_OF) + 4 * start, load(other, POOL_OF) + 4 * others_start
    found = common(a, size, b, others_size, low, load(load(op, OUT_VALUE), 0) + 8 * out)
    store(op, PROPOSALS, load(op, PROPOSALS) + size + _updates(mine) + _updates(other))
    out = _fill(op, row, out, out + found)
    if _updates(mine) > 0:
        out = _propose_updates(op, row, mine, other, out)
    if _updates(other) > 0:
        store(mine, UPDATE_AT, load(mine, UPDATE_STOP))  # those have met already
        store(mine, AT, start)
        out = _propose_updates(op, row, other, mine, out)
    return out


@kernel
def _intersect_all(op: int, row: int, least: int, out: int) -> int:
    """Extend a row by the numbers that more than two lists have in common: those of two, without what a third lacks."""
    table, values = load(op, PART_TABLE), load(load(op, OUT_VALUE), 0) + 8 * out
    mine, met = table + 8 * PART * least, 1 if least == 0 else 0
    size, low = load(mine, STOP) - load(mine, AT), load(load(mine, INDEX), index.LOW)
    other = table + 8 * PART * met
    a, b = load(mine, POOL_OF) + 4 * load(mine, AT), load(other, POOL_OF) + 4 * load(other, AT)
    found = common(a, size, b, load(other, STOP) - load(other, AT), low, values)
    store(op, PROPOSALS, load(op, PROPOSALS) + size)
    for which in range(load(op, PARTS)):
        if which not in (least, met):
            part, kept = table + 8 * PART * which, 0
            pool, place, stop = load(part, POOL_OF), load(part, AT), load(part, STOP)
            for at in range(found):
                value = load(values, at)
                place = seek(pool, 4, place, stop, value - low)
                if place == stop:
                    break
                store(values, kept, value)
                kept += load32(pool, place) == value - low
            found = kept
    return _fill(op, row, out, out + found)


@kernel
def _propose_updates(op: int, row: int, mine: int, other: int, out: int) -> int:
    """Extend a row by the updates of one part, where the other part has their values."""
    which = (mine - load(op, PART_TABLE)) // (8 * PART)
    updates, before = load(load(mine, INDEX), index.UPDATES), load(mine, BEFORE)
    low, theirs = load(load(mine, INDEX), index.LOW), load(other, UPDATE_AT)
    for at in range(load(mine, UPDATE_AT), load(mine, UPDATE_STOP)):
        update = updates + 8 * UPDATE * at
        if load(update, AT_TIME) < before:
            store(other, UPDATE_AT, theirs)  # the same value may come again
            out = _validate(op, row, load(update, AT_NUMBER) + low, load(update, AT_DIFF), which, out)
    store(other, UPDATE_AT, theirs)
    return out


@kernel
def _propose(op: int, row: int, which: int, out: int) -> int:
    """Extend a row by the values that one part proposes and all others have, whatever their weights and updates."""
    part = load(op, PART_TABLE) + 8 * PART * which
    of, pool, width = load(part, INDEX), load(part, POOL_OF), load(part, WIDTH_OF)
    at, stop, update, update_stop = load(part, AT), load(part, STOP), load(part, UPDATE_AT), load(part, UPDATE_STOP)
    low, updates, before = load(of, index.LOW), load(of, index.UPDATES), load(part, BEFORE)
    weighted, proposals = load(of, WEIGHTED) != 0, 0
    while at < stop or update < update_stop:
        settled = number(pool, width, at) if at < stop else FOREVER
        value = min(settled, load(updates + 8 * UPDATE * update, AT_NUMBER)) if update < update_stop else settled
        weight = 0
        if settled == value:
            weight = load(load(of, WEIGHTS), at) if weighted else 1
            at += 1
        while update < update_stop and load(updates + 8 * UPDATE * update, AT_NUMBER) == value:
            if load(updates + 8 * UPDATE * update, AT_TIME) < before:
                weight += load(updates + 8 * UPDATE * update, AT_DIFF)
            update += 1
        if weight != 0:
            proposals += 1
            out = _validate(op, row, value + low, weight, which, out)
    store(op, PROPOSALS, load(op, PROPOSALS) + proposals)
    return out


@kernel
def _validate(op: int, row: int, value: int, weight: int, but: int, out: int) -> int:
    """Extend a row by a value if all parts but one have it; return the new size of the output."""
    weight = product_at(op, weight, load(load(load(op, DIFF), 0), row))
    table = load(op, PART_TABLE)
    for which in range(load(op, PARTS)):
        if which != but:
            more = _weight(table + 8 * PART * which, value)
            if more == 0:
                return out
            weight = product_at(op, weight, more)
    store(load(load(op, OUT_TIME), 0), out, load(load(load(op, TIME), 0), row))
    store(load(load(op, OUT_DIFF), 0), out, weight)
    store(load(load(op, OUT_ROW), 0), out, row)
    store(load(load(op, OUT_VALUE), 0), out, value)
    return out + 1


@kernel
def _weight(part: int, value: int) -> int:
    """Return how often a part has a value, searching from where the last search ended: values come in order."""
    of, weight = load(part, INDEX), 0
    value -= load(of, index.LOW)
    place, stop = (
        seek(load(part, POOL_OF), load(part, WIDTH_OF), load(part, AT), load(part, STOP), value),
        load(part, STOP),
    )
    store(part, AT, place)
    if place < stop and number(load(part, POOL_OF), load(part, WIDTH_OF), place) == value:
        weight = index.weight_at(of, place)
    update, end = load(part, UPDATE_AT), load(part, UPDATE_STOP)
    if update < end:
        updates, before = load(of, index.UPDATES), load(part, BEFORE)
        update = _seek_update(updates, update, end, value)
        while update < end and load(updates + 8 * UPDATE * update, AT_NUMBER) == value:
            if load(updates + 8 * UPDATE * update, AT_TIME) < before:
                weight += load(updates + 8 * UPDATE * update, AT_DIFF)
            update += 1
        store(part, UPDATE_AT, update)
    return weight


@kernel
def _seek_update(updates: int, start: int, stop: int, value: int) -> int:
    """Return the place of the first update whose number is not less than a value: by doubling, then halving."""
    if start >= stop or load(updates + 8 * UPDATE * start, AT_NUMBER) >= value:
        return start
    step, low = 1, start
    while low + step < stop and load(updates + 8 * UPDATE * (low + step), AT_NUMBER) < value:
        low += step
        step += step
    high = min(low + step, stop)
    while high - low > 1:
        middle = (low + high) >> 1
        if load(updates + 8 * UPDATE * middle, AT_NUMBER) < value:
            low = middle
        else:
            high = middle
    return high
