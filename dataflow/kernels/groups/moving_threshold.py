"""Moving threshold: the rows whose first value lies above the limit of their group; below, if both are negated.

The limit of a group is one number, because value * denominator > numerator is equivalent to
value > floor(numerator / denominator). This is exact, and no product can overflow. Rows are kept in order of group and
value, so when a limit moves, only the rows between the old and the new limit are visited.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.groups.grouped_rows import (
    BAD_DENOMINATOR,
    NEGATIVE,
    TWO_LIMITS,
    GroupedRowsBlock,
    RowGroup,
    emit,
    fail,
    group_step,
    record_at,
    release,
)
from deltamark.dataflow.kernels.hashing.hash_map import key_of, remove
from deltamark.dataflow.kernels.ordered import btree
from deltamark.dataflow.kernels.ordered.btree import BTree
from deltamark.dataflow.types import LARGEST


class MovingThresholdBlock(GroupedRowsBlock):
    """The rows above the limits of their groups."""

    order: BTree


class LimitedGroup(RowGroup):
    """The limit of a group, and the number of its records."""

    limit: int
    limits: int
    """The weight of all limits: 1 if the group has a limit, else 0."""
    rows: int


@inline
def _limit_of(group: LimitedGroup) -> int:
    return group.limit if group.limits != 0 else LARGEST


@kernel
def moving_threshold(op: MovingThresholdBlock, group_id: int, group: LimitedGroup) -> int:
    """End a time for a group; return an error, or 0."""
    old = _limit_of(group)
    if group.limit_chain != 0:
        error = _update_limit(op, group)
        if error != 0:
            return error
    new = _limit_of(group)
    if new != old and group.rows != 0:
        _move(op, group_id, old, new)
    if group.row_chain != 0:
        error = _apply_changes(op, group, old, new)
        if error != 0:
            return error
    if group.rows == 0 and group.limits == 0:
        remove(op.keys, key_of(op.keys, group_id))
    return 0


@kernel
def _update_limit(op: MovingThresholdBlock, group: LimitedGroup) -> int:
    """Compute the limit of a group after the time from its touched limits; return an error, or 0."""
    limits, slot, total, last = op.limits, group.limit_chain, group.limits, 0
    group.limit_chain = 0
    while slot > 0:
        row = record_at(limits, slot)
        weight, next_touched = row.weight, row.next_touched
        total += weight - row.old_weight
        row.next_touched = 0
        if weight < 0:
            return fail(op, NEGATIVE, 1, slot)
        if weight > 0:
            last = slot
        else:
            release(limits, slot)
        slot = next_touched
    group.limits = total
    if total > 1:
        return fail(op, TWO_LIMITS, 1, last)
    if last != 0:
        numerator, denominator = record_at(limits, last).values[0], record_at(limits, last).values[1]
        if denominator <= 0:
            return fail(op, BAD_DENOMINATOR, 1, last)
        group.limit = numerator // denominator
    return 0


@kernel
def _move(op: MovingThresholdBlock, group_id: int, old: int, new: int) -> None:
    """Emit the rows between two limits that no update has touched."""
    rows, order, high, sign = op.rows, op.order, max(old, new), 1 if new < old else -1
    probe = record_at(rows, 0)
    probe.group = group_id
    probe.values[0] = min(old, new) + 1
    position = btree.seek(order, 0)
    while position != 0:
        row = record_at(rows, btree.slot_at(order, position))
        if row.values[0] > high or row.group != group_id:
            break
        if row.next_touched == 0:
            emit(op, row.values, sign * row.weight)
        position = btree.following(order, position)


@kernel
def _apply_changes(op: MovingThresholdBlock, group: LimitedGroup, old: int, new: int) -> int:
    """Update the order of the touched rows, and emit their changes; return an error, or 0."""
    rows, order, slot, count = op.rows, op.order, group.row_chain, group.rows
    group.row_chain = 0
    while slot > 0:
        row = record_at(rows, slot)
        old_weight, weight, value, next_touched = row.old_weight, row.weight, row.values[0], row.next_touched
        row.next_touched = 0
        if weight < 0:
            return fail(op, NEGATIVE, 0, slot)
        change = (weight if value > new else 0) - (old_weight if value > old else 0)
        if change != 0:
            emit(op, row.values, change)
        count += (weight != 0) - (old_weight != 0)
        if old_weight == 0 and weight != 0:
            btree.insert(order, slot)
        elif old_weight != 0 and weight == 0:
            btree.delete(order, slot)
        if weight == 0:
            release(rows, slot)
        slot = next_touched
    group.rows = count
    return 0


MOVING_THRESHOLD = group_step(moving_threshold)
