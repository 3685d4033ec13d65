"""Extend rows by one more column: by every value that all of some indexes have for the row's key there.

The index with the fewest values proposes, the others validate, so that the work is that of the smallest set however
many rows the others have. No proposal is ever stored: one after another is held against the other indexes, whose lists
are searched from where the last search ended. Multiplicities are multiplied, by whoever proposes and by who validates.

A row sees of each index what is settled, and of the updates of the current slice those of times up to its own, or
(OLD) before it. A value that the row has already (BOUND) is validated by all.
"""

from __future__ import annotations

from dataflow.kernels import index
from dataflow.kernels.index import AT_DIFF, AT_NUMBER, AT_STOP, AT_TIME, UPDATE
from dataflow.kernels.join import product
from dataflow.kernels.keymap import HASHED, find
from dataflow.kernels.keymap import LOW as LOW_KEY
from dataflow.kernels.lists import COUNT, HEADS, NEW, POOL, START, UNIT, WEIGHTED, WEIGHTS, WIDTH, number, seek
from dataflow.kernels.memory import inline, kernel, load, load32, store

SIZE, TIME, DIFF, PARTS, PART_TABLE, BOUND, PROPOSER, OUT_SIZE, OUT_TIME, OVERFLOW = range(1, 11)
"""PARTS, PART_TABLE: how many indexes, and PART words each. BOUND: the cell of the values, or 0. PROPOSER: which part
proposes, or ANYBODY. OVERFLOW (where kernels.join has it): set when a product of weights needs more than 64 bits."""
OUT_DIFF, OUT_ROW, OUT_VALUE, PROPOSALS = range(11, 15)
"""OUT_ROW: the row that is extended. PROPOSALS: how many there have been."""

ANYBODY = -1
FOREVER = 2**62

INDEX, KEY, SEES_OLD, AT, STOP, UPDATE_AT, UPDATE_STOP, POOL_OF, WIDTH_OF, BEFORE = range(10)
"""Of a part: its index, the cell of its keys, whether it sees only what was there before a row's time. For the row at
hand: where the rest of its list is, and of its updates, which count where their times are less than BEFORE."""
PART = 10


@kernel
def extend(op: int) -> int:
    parts, table, size = load(op, PARTS), load(op, PART_TABLE), load(load(op, SIZE), 0)
    bound, out = load(op, BOUND), 0
    for part in range(parts):
        _aim(table + 8 * PART * part)
    for row in range(size):
        least = _locate(op, row)
        if least < 0:
            continue
        if bound != 0:
            out = _validate(op, row, load(load(bound, 0), row), 1, parts, out)
        elif parts == 1 and _is_plain(table):
            out = _copy(op, row, table, out)
        elif parts == 2 and _is_plain(table) and _is_plain(table + 8 * PART):
            out = _intersect(op, row, table + 8 * PART * least, table + 8 * PART * (1 - least), out)
        else:
            out = _propose(op, row, least, out)
    store(load(op, OUT_SIZE), 0, out)
    return load(op, OVERFLOW)


@inline
def _aim(part: int) -> None:
    """Note what is the same for all rows of a slice."""
    store(part, POOL_OF, load(load(part, INDEX), POOL))
    store(part, WIDTH_OF, load(load(part, INDEX), WIDTH))


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
    """Is a row's list a mere list of numbers?"""
    return load(part, UPDATE_AT) < 0 and load(load(part, INDEX), WEIGHTED) == 0


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
    for at in range(count):
        store(values, out + at, number(pool, width, start + at) + low)
    store(op, PROPOSALS, load(op, PROPOSALS) + count)
    return _fill(op, row, out, out + count)


@kernel
def _fill(op: int, row: int, start: int, stop: int) -> int:
    """Complete the rows that values have been written for."""
    time, diff = load(load(load(op, TIME), 0), row), load(load(load(op, DIFF), 0), row)
    times, diffs, rows = load(load(op, OUT_TIME), 0), load(load(op, OUT_DIFF), 0), load(load(op, OUT_ROW), 0)
    for at in range(start, stop):
        store(times, at, time)
        store(diffs, at, diff)
        store(rows, at, row)
    return stop


@kernel
def _intersect(op: int, row: int, mine: int, other: int, out: int) -> int:
    """Extend a row by the numbers that two lists have in common."""
    pool, width, at, stop = load(mine, POOL_OF), load(mine, WIDTH_OF), load(mine, AT), load(mine, STOP)
    others, other_width, place, end = load(other, POOL_OF), load(other, WIDTH_OF), load(other, AT), load(other, STOP)
    low = load(load(mine, INDEX), index.LOW)
    apart, values, start = low - load(load(other, INDEX), index.LOW), load(load(op, OUT_VALUE), 0), out
    store(op, PROPOSALS, load(op, PROPOSALS) + stop - at)
    while at < stop:
        value = number(pool, width, at) + apart
        place = seek(others, other_width, place, end, value)
        if place == end:
            break
        store(values, out, value - apart + low)
        out += number(others, other_width, place) == value
        at += 1
    return _fill(op, row, start, out)


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
    weight = product(op, weight, load(load(load(op, DIFF), 0), row))
    table = load(op, PART_TABLE)
    for which in range(load(op, PARTS)):
        if which != but:
            more = _weight(table + 8 * PART * which, value)
            if more == 0:
                return out
            weight = product(op, weight, more)
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
