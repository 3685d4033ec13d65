"""The tail of a motif that BiGJoin finds: counted, or listed side by side.

Variables at the end that do not depend on each other need not be listed to be counted: their numbers of values are
multiplied. Nor is each row needed to list them: a prefix, and what each of them may be, says as much. Counting one
value set of two lists scans a list against stamps of the other where that one stays the same from prefix to prefix,
unless it is much shorter.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.intersection import narrow
from deltamark.dataflow.kernels.core.memory import inline, kernel, load, load32, store, store32, wraps
from deltamark.dataflow.kernels.core.sorted_lists import POOL, WEIGHTED, WIDTH, number, seek
from deltamark.dataflow.kernels.motifs import index
from deltamark.dataflow.kernels.motifs.layout import (
    AT,
    BEFORE,
    COLUMNS,
    ERROR,
    INDEX,
    KEPT,
    KEPT_AT,
    KEPT_BUT,
    KEPT_SIZE,
    KEPT_TAIL,
    LEVELS,
    OUT,
    OUT_COUNT,
    PART,
    PART_TABLE,
    PARTS,
    REST,
    SPARE,
    STAMP,
    STAMPED,
    STAMPS,
    STOP,
    TOO_HEAVY,
    TOTAL,
    VALUE_COUNT,
    VALUES,
    WEIGHT,
    level_at,
    locate,
    times,
    weight_of,
)

MUCH_SHORTER = 8


@kernel
def count_tail(op: int, number_of: int, record: int) -> None:
    """Count the rows that a prefix is extended to by all variables of the tail."""
    total = load(record, load(level_at(op, number_of), COLUMNS) + WEIGHT)
    for tail in range(number_of, load(op, LEVELS)):
        level = level_at(op, tail)
        least = locate(level, record)
        if least < 0:
            return
        parts, table = load(level, PARTS), load(level, PART_TABLE)
        if parts == 1 and load(load(table, INDEX), WEIGHTED) == 0:
            found = load(table, STOP) - load(table, AT)
        elif parts == 2 and _are_plain(table, parts):
            found = _common(op, table, table + 8 * PART)
        elif parts > 2 and _are_plain(table, parts):
            found = _common_to_all(op, tail, table, parts)
        else:
            found = _met(op, table, parts, least)
        total = times(op, total, found)
        if total == 0:
            return
    if wraps(load(op, TOTAL), total) < 0:
        store(op, ERROR, TOO_HEAVY)
    store(op, TOTAL, load(op, TOTAL) + total)


@kernel
def list_tail(op: int, number_of: int, record: int) -> int:
    """List a prefix with the values of each variable of the tail, if all have some; return how many there are."""
    columns, levels = load(level_at(op, number_of), COLUMNS), load(op, LEVELS)
    into = load(op, OUT) + 8 * (columns + 1 + levels - number_of) * load(op, OUT_COUNT)
    start = end = load(op, VALUE_COUNT)
    for tail in range(number_of, levels):
        level, before = level_at(op, tail), end
        least = locate(level, record)
        if least >= 0:
            end = _list_values(op, tail, least, end)
        if end == before:
            return 0
        store(into, columns + 1 + tail - number_of, end - before)
    for column in range(columns):
        store(into, column, load(record, column))
    store(into, columns, load(record, columns + WEIGHT))
    store(op, OUT_COUNT, load(op, OUT_COUNT) + 1)
    store(op, VALUE_COUNT, end)
    return end - start


@kernel
def _list_values(op: int, tail: int, least: int, end: int) -> int:
    """List the values that all parts of a level have; return where they end."""
    level, values = level_at(op, tail), load(op, VALUES)
    parts, table = load(level, PARTS), load(level, PART_TABLE)
    part = table + 8 * PART * least
    of = load(part, INDEX)
    if parts > 1 and _are_plain(table, parts):
        found = _common_to_two(op, table) if parts == 2 else _common_to_all(op, tail, table, parts)
        for at in range(found):
            store(values, 2 * (end + at), load32(load(op, REST), at) + load(of, index.LOW))
            store(values, 2 * (end + at) + 1, 1)
        return end + found
    for at in range(load(part, AT), load(part, STOP)):
        value, weight = number(load(of, POOL), load(of, WIDTH), at) + load(of, index.LOW), index.weight_at(of, at)
        for other in range(parts):
            if other != least and weight != 0:
                weight = times(op, weight, weight_of(table + 8 * PART * other, value))
        if weight != 0:
            store(values, 2 * end, value)
            store(values, 2 * end + 1, weight)
            end += 1
    return end


@kernel
def _are_plain(table: int, parts: int) -> bool:
    """Do parts have each row once, of numbers that mean the same?"""
    plain, low = True, load(load(table, INDEX), index.LOW)
    for which in range(parts):
        of = load(table + 8 * PART * which, INDEX)
        plain &= load(of, WIDTH) == 4 and load(of, WEIGHTED) == 0 and load(of, index.LOW) == low
    return plain


@inline
def _common_to_two(op: int, a: int) -> int:
    """List what two lists have in common."""
    b = a + 8 * PART
    return narrow(_list(a), load(a, STOP) - load(a, AT), _list(b), load(b, STOP) - load(b, AT), 0, load(op, REST))


@kernel
def _common_to_all(op: int, tail: int, table: int, parts: int) -> int:
    """Count what several lists have in common: what all but one have is kept while it is that one that changes."""
    changed, last = 0, parts - 1
    for which in range(parts):
        part = table + 8 * PART * which
        if load(part, BEFORE) != _list(part):
            changed, last = changed + 1, which
            store(part, BEFORE, _list(part))
    if changed > 1 or load(op, KEPT_TAIL) != tail or load(op, KEPT_BUT) != last:
        kept, size = 0, -1
        for which in range(parts):
            part = table + 8 * PART * which
            if which != last and size < 0:
                kept, size = _list(part), load(part, STOP) - load(part, AT)
            elif which != last:
                into = load(op, KEPT) if kept != load(op, KEPT) else load(op, SPARE)
                size = narrow(kept, size, _list(part), load(part, STOP) - load(part, AT), 0, into)
                kept = into
        store(op, KEPT_AT, kept)
        store(op, KEPT_SIZE, size)
        store(op, KEPT_TAIL, tail)
        store(op, KEPT_BUT, last)
    part, rest = table + 8 * PART * last, load(op, REST)
    return narrow(load(op, KEPT_AT), load(op, KEPT_SIZE), _list(part), load(part, STOP) - load(part, AT), 0, rest)


@inline
def _list(part: int) -> int:
    return load(load(part, INDEX), POOL) + 4 * load(part, AT)


@kernel
def _met(op: int, table: int, parts: int, least: int) -> int:
    """Count the values that all of several lists have, as often as they have them."""
    part = table + 8 * PART * least
    of, found = load(part, INDEX), 0
    for at in range(load(part, AT), load(part, STOP)):
        value = number(load(of, POOL), load(of, WIDTH), at) + load(of, index.LOW)
        weight = index.weight_at(of, at)
        for other in range(parts):
            if other != least and weight != 0:
                weight = times(op, weight, weight_of(table + 8 * PART * other, value))
        found += weight
    return found


@kernel
def _common(op: int, a: int, b: int) -> int:
    """Count what two lists have in common."""
    a_list, a_size = _list(a), load(a, STOP) - load(a, AT)
    b_list, b_size = _list(b), load(b, STOP) - load(b, AT)
    a_again, b_again = load(a, BEFORE) == a_list, load(b, BEFORE) == b_list
    store(a, BEFORE, a_list)
    store(b, BEFORE, b_list)
    if load(op, STAMPS) != 0:
        if b_size <= MUCH_SHORTER * a_size and (a_again or load(op, STAMPED) == a_list):
            return _stamped(op, a_list, a_size, b_list, b_size)
        if a_size <= MUCH_SHORTER * b_size and (b_again or load(op, STAMPED) == b_list):
            return _stamped(op, b_list, b_size, a_list, a_size)
    if b_size <= a_size:
        return _searched(b_list, b_size, a_list, a_size)
    return _searched(a_list, a_size, b_list, b_size)


@kernel
def _stamped(op: int, slow: int, slow_size: int, fast: int, fast_size: int) -> int:
    """Count the numbers of one list that have the stamp of another one."""
    stamps, stamp, found = load(op, STAMPS), load(op, STAMP), 0
    if load(op, STAMPED) != slow:
        stamp += 1
        for at in range(slow_size):
            store32(stamps, load32(slow, at), stamp)
        store(op, STAMP, stamp)
        store(op, STAMPED, slow)
    for at in range(fast_size):
        found += load32(stamps, load32(fast, at)) == stamp
    return found


@kernel
def _searched(short: int, size: int, long: int, long_size: int) -> int:
    """Count the numbers of one list that are found in another one."""
    place, found = 0, 0
    for at in range(size):
        value = load32(short, at)
        place = seek(long, 4, place, long_size, value)
        if place == long_size:
            break
        found += load32(long, place) == value
    return found
