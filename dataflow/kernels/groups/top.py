"""Top: the first rows in order of their values, one after the other, up to a number of PLACES; the last row that finds
a place may find it only for a part of its weight.

All rows are kept in an order. A time whose changes all lie behind the last place hands out nothing; another walks the
places anew.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core import btree as tree
from deltamark.dataflow.kernels.core.memory import kernel, load, load32, store, store32
from deltamark.dataflow.kernels.groups.grouped_rows import (  # fmt: skip
    BEFORE,
    FIRST,
    FOUND_BY,
    FREE_PLACES,
    GROUP_CHAIN,
    NEGATIVE,
    ORDER,
    PLACES,
    ROWS,
    SHOWN,
    WEIGHT,
    A,
    B,
    emit,
    fail,
    record_of,
    release,
)

PLACED, PLACING = A, B
"""How much of a row's weight has a place, and will have one. FIRST: the slots of the SHOWN rows, in order."""


@kernel
def top(op: int, group: int) -> int:
    """End a time."""
    rows, order, slot, relevant = load(op, ROWS), load(op, ORDER), load(group, GROUP_CHAIN), False
    while slot > 0:
        record = record_of(rows, slot)
        before, now = load(record, BEFORE), load(record, WEIGHT)
        if now < 0:
            return fail(op, NEGATIVE, ROWS, slot)
        if before == 0 and now != 0:
            tree.insert(order, slot)
        elif before != 0 and now == 0:
            tree.delete(order, slot)
        relevant |= before != now and _matters(op, order, slot)
        slot = load32(record, 2 * FOUND_BY)
    if relevant:
        _walk(op, rows, order)
    slot = load(group, GROUP_CHAIN)
    store(group, GROUP_CHAIN, 0)
    while slot > 0:
        record = record_of(rows, slot)
        touched = load32(record, 2 * FOUND_BY)
        store32(record, 2 * FOUND_BY, 0)
        if load(record, WEIGHT) == 0:
            release(rows, slot)
        slot = touched
    return 0


@kernel
def _matters(op: int, order: int, slot: int) -> bool:
    """Does a row lie at or before the last place, or is a place free?"""
    shown = load(op, SHOWN)
    if load(op, FREE_PLACES) > 0 or shown == 0:
        return True
    return not tree.precedes(order, load(load(op, FIRST), shown - 1), slot)


@kernel
def _walk(op: int, rows: int, order: int) -> None:
    """Give the places out again, and hand out what that changes."""
    first, shown, places, position, number = load(op, FIRST), load(op, SHOWN), load(op, PLACES), tree.start(order), 0
    while places > 0 and position != 0:
        slot = tree.slot_at(order, position)
        record = record_of(rows, slot)
        placing = min(places, load(record, WEIGHT))
        if placing != load(record, PLACED):
            emit(op, record, placing - load(record, PLACED))
        places -= placing
        store(record, PLACING, placing)
        store(first, shown + number, slot)
        number += 1
        position = tree.following(order, position)
    for index in range(shown):
        record = record_of(rows, load(first, index))
        if load(record, PLACING) == 0:
            emit(op, record, -load(record, PLACED))
        store(record, PLACED, 0)
    for index in range(number):
        slot = load(first, shown + index)
        record = record_of(rows, slot)
        store(record, PLACED, load(record, PLACING))
        store(record, PLACING, 0)
        store(first, index, slot)
    store(op, SHOWN, number)
    store(op, FREE_PLACES, places)
