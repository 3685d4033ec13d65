"""Extreme: the rows of each group whose first value is the largest, ties included; the smallest is complemented first.

The rows of a group form two lists: those that have the best value, and the others. So a row that does not beat the best
value is added and removed in constant time, and one that does costs the rows that it emits. The others are searched
only when the last of the best rows has gone.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Inline
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.groups.grouped_rows import (
    LAST,
    NEGATIVE,
    GroupedRowsBlock,
    RowGroup,
    RowHeader,
    RowTable,
    emit,
    fail,
    group_step,
    record_at,
    release,
    replace,
)
from deltamark.dataflow.kernels.hashing.hash_map import key_of, remove

BEST, OTHERS = 0, 1
"""The lists of a group."""


class ExtremeGroup(RowGroup):
    """The lists of a group, and the value of its best rows."""

    best: int
    lists: Inline
    """The first slot of BEST and of OTHERS, or 0."""


class ListedRow(RowHeader):
    """A record in one of the lists of its group."""

    previous: int
    following: int
    group: int
    values: Inline


@inline
def _row_at(rows: RowTable, slot: int) -> ListedRow:
    return ListedRow(record_at(rows, slot).address)


@kernel
def extreme(op: GroupedRowsBlock, group_id: int, group: ExtremeGroup) -> int:
    """End a time for a group; return an error, or 0."""
    rows = op.rows
    found, best, slot = False, 0, group.row_chain
    while slot != LAST:
        row = _row_at(rows, slot)
        weight, value = row.weight, row.values[0]
        if weight < 0:
            return fail(op, NEGATIVE, 0, slot)
        if weight > 0 and (not found or value > best):
            found, best = True, value
        slot = row.next_touched
    if found and (group.lists[BEST] == 0 or best > group.best):
        _set_best(op, rows, group, best)
    _apply_changes(op, rows, group)
    if group.lists[BEST] == 0:
        if group.lists[OTHERS] != 0:
            _find_best(op, rows, group)
        else:
            remove(op.keys, key_of(op.keys, group_id))
    return 0


@kernel
def _set_best(op: GroupedRowsBlock, rows: RowTable, group: ExtremeGroup, best: int) -> None:
    """Retract the best rows, since a better value has come."""
    slot = group.lists[BEST]
    while slot != 0:
        row = _row_at(rows, slot)
        emit(op, row.values, -(row.old_weight if row.next_touched != 0 else row.weight))
        following = row.following
        _link(rows, group, OTHERS, slot)
        slot = following
    group.lists[BEST] = 0
    group.best = best


@kernel
def _apply_changes(op: GroupedRowsBlock, rows: RowTable, group: ExtremeGroup) -> None:
    """Emit the changes of the best rows; link the touched rows that are new, and unlink those of weight zero."""
    slot, best, waiting = group.row_chain, group.best, 0
    group.row_chain = 0
    while slot != LAST:
        row = _row_at(rows, slot)
        next_touched = row.next_touched
        row.next_touched = 0
        if row.old_weight == 0 and row.weight == 0:
            release(rows, slot)
        elif row.values[0] == best:
            _apply_best(op, rows, group, slot)
        else:
            waiting = _apply_other(rows, group, slot, waiting)
        slot = next_touched
    _change_others(rows, group, waiting)


@kernel
def _apply_other(rows: RowTable, group: ExtremeGroup, slot: int, waiting: int) -> int:
    """Let a new row take the place of a removed one in a list, which saves four accesses to neighbours.

    Return the row that now waits for such a pair: its slot if it has gone, -slot if it is new, or 0.
    """
    row = _row_at(rows, slot)
    old, new = row.old_weight, row.weight
    if old != 0 and new != 0:
        return waiting
    change = slot if new == 0 else -slot
    if waiting == 0:
        return change
    if (waiting > 0) == (change > 0):
        _change_others(rows, group, change)
        return waiting
    replace(rows, max(waiting, change), -min(waiting, change))
    return 0


@kernel
def _change_others(rows: RowTable, group: ExtremeGroup, waiting: int) -> None:
    """Unlink or link a row that found no pair."""
    if waiting > 0:
        _remove(rows, group, OTHERS, waiting)
    elif waiting < 0:
        _link(rows, group, OTHERS, -waiting)


@kernel
def _apply_best(op: GroupedRowsBlock, rows: RowTable, group: ExtremeGroup, slot: int) -> None:
    """Emit the change of a row that has the best value."""
    row = _row_at(rows, slot)
    old, new = row.old_weight, row.weight
    if new != old:
        emit(op, row.values, new - old)
    if old == 0:
        _link(rows, group, BEST, slot)
    elif new == 0:
        _remove(rows, group, BEST, slot)


@kernel
def _remove(rows: RowTable, group: ExtremeGroup, which: int, slot: int) -> None:
    _unlink(rows, group, which, _row_at(rows, slot))
    release(rows, slot)


@kernel
def _find_best(op: GroupedRowsBlock, rows: RowTable, group: ExtremeGroup) -> None:
    """Find the best of the other rows."""
    slot = group.lists[OTHERS]
    best = _row_at(rows, slot).values[0]
    while slot != 0:
        row = _row_at(rows, slot)
        best = max(best, row.values[0])
        slot = row.following
    group.best = best
    slot = group.lists[OTHERS]
    while slot != 0:
        row = _row_at(rows, slot)
        following = row.following
        if row.values[0] == best:
            _unlink(rows, group, OTHERS, row)
            _link(rows, group, BEST, slot)
            emit(op, row.values, row.weight)
        slot = following


@kernel
def _link(rows: RowTable, group: ExtremeGroup, which: int, slot: int) -> None:
    """Put a row at the front of a list."""
    row, first = _row_at(rows, slot), group.lists[which]
    row.previous = 0
    row.following = first
    if first != 0:
        _row_at(rows, first).previous = slot
    group.lists[which] = slot


@kernel
def _unlink(rows: RowTable, group: ExtremeGroup, which: int, row: ListedRow) -> None:
    """Remove a row from its list."""
    previous, following = row.previous, row.following
    if previous != 0:
        _row_at(rows, previous).following = following
    else:
        group.lists[which] = following
    if following != 0:
        _row_at(rows, following).previous = previous


EXTREME = group_step(extreme)
