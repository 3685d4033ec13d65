"""Bound: the rows whose first value lies above the limit of their group (below: both are negated).

A group's limit is one number, since value * denominator > numerator says value > floor(numerator / denominator); that
is exact, and no product can overflow. Rows are kept in order of group and value, so when a limit moves only the rows
between the old and the new one are visited.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core import btree as tree
from deltamark.dataflow.kernels.core.hash_map import key_of, remove
from deltamark.dataflow.kernels.core.memory import kernel, load, load32, store, store32
from deltamark.dataflow.kernels.groups.grouped_rows import (  # fmt: skip
    BEFORE,
    BEST,
    FOUND_BY,
    GROUP,
    GROUP_CHAIN,
    HEAD,
    KEYS,
    LIMIT_CHAIN,
    LIMITS,
    NEGATIVE,
    NO_LIMIT,
    ORDER,
    REST,
    ROWS,
    TWO_LIMITS,
    VALUES,
    WEIGHT,
    emit,
    fail,
    record_of,
    release,
)
from deltamark.dataflow.types import LARGEST

LIMIT, IS_LIMITED, MEMBERS = BEST, HEAD, REST
"""Of a group: its limit if it has one, and how many different rows."""


@kernel
def bound(op: int, group_id: int, group: int) -> int:
    """End a time for a group."""
    old = load(group, LIMIT) if load(group, IS_LIMITED) != 0 else LARGEST
    if load(group, LIMIT_CHAIN) != 0 and _limit(op, group) != 0:
        return 1
    new = load(group, LIMIT) if load(group, IS_LIMITED) != 0 else LARGEST
    if new != old and load(group, MEMBERS) != 0:
        _move(op, group_id, old, new)
    if load(group, GROUP_CHAIN) != 0 and _settle(op, group, old, new) != 0:
        return 1
    if load(group, MEMBERS) == 0 and load(group, IS_LIMITED) == 0:
        remove(load(op, KEYS), key_of(load(op, KEYS), group_id))
    return 0


@kernel
def _limit(op: int, group: int) -> int:
    """Find the group's limit after the time, if it was touched."""
    limits, slot, left, last = load(op, LIMITS), load(group, LIMIT_CHAIN), load(group, IS_LIMITED), 0
    store(group, LIMIT_CHAIN, 0)
    while slot > 0:
        record = record_of(limits, slot)
        now, touched = load(record, WEIGHT), load32(record, 2 * FOUND_BY)
        left += now - load(record, BEFORE)
        store32(record, 2 * FOUND_BY, 0)
        if now < 0:
            return fail(op, NEGATIVE, LIMITS, slot)
        if now > 0:
            last = slot
        else:
            release(limits, slot)
        slot = touched
    store(group, IS_LIMITED, left)
    if left > 1:
        return fail(op, TWO_LIMITS, LIMITS, last)
    if last != 0:
        values = record_of(limits, last) + 8 * VALUES
        if load(values, 1) <= 0:
            return fail(op, NO_LIMIT, LIMITS, last)
        store(group, LIMIT, load(values, 0) // load(values, 1))
    return 0


@kernel
def _move(op: int, group_id: int, old: int, new: int) -> None:
    """Visit the rows between two limits that no update has touched."""
    rows, order, high, diff = load(op, ROWS), load(op, ORDER), max(old, new), 1 if new < old else -1
    probe = record_of(rows, 0)
    store(probe, GROUP, group_id)
    store(probe, VALUES, min(old, new) + 1)
    position = tree.seek(order, 0)
    while position != 0:
        record = record_of(rows, tree.slot_at(order, position))
        if load(record, VALUES) > high or load(record, GROUP) != group_id:
            break
        if load32(record, 2 * FOUND_BY) == 0:
            emit(op, record, diff * load(record, WEIGHT))
        position = tree.following(order, position)


@kernel
def _settle(op: int, group: int, old: int, new: int) -> int:
    """Put the touched rows in order, and hand out what changed of them."""
    rows, order, slot, members = load(op, ROWS), load(op, ORDER), load(group, GROUP_CHAIN), load(group, MEMBERS)
    store(group, GROUP_CHAIN, 0)
    while slot > 0:
        record = record_of(rows, slot)
        before, now, value = load(record, BEFORE), load(record, WEIGHT), load(record, VALUES)
        touched = load32(record, 2 * FOUND_BY)
        store32(record, 2 * FOUND_BY, 0)
        if now < 0:
            return fail(op, NEGATIVE, ROWS, slot)
        change = (now if value > new else 0) - (before if value > old else 0)
        if change != 0:
            emit(op, record, change)
        members += (now != 0) - (before != 0)
        if before == 0 and now != 0:
            tree.insert(order, slot)
        elif before != 0 and now == 0:
            tree.delete(order, slot)
        if now == 0:
            release(rows, slot)
        slot = touched
    store(group, MEMBERS, members)
    return 0
