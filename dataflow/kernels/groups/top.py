"""Top: the first rows in order of their values, up to a total weight of `places`.

The last of these rows may have a place for a part of its weight only. All rows are kept in order. A time whose changes
all lie behind the last place emits nothing; any other time assigns the places anew.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Inline
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.groups.grouped_rows import (
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
)
from deltamark.dataflow.kernels.ordered import btree
from deltamark.dataflow.kernels.ordered.btree import BTree


class TopBlock(GroupedRowsBlock):
    """The first rows of an order."""

    order: BTree
    places: int
    free_places: int
    placed: Array
    """The slots of the rows that have a place, in order, and behind them those of the next assignment."""
    placed_count: int = 0


class PlacedRow(RowHeader):
    """A record, and how much of its weight has a place."""

    placed_weight: int
    new_placed_weight: int
    """As in the next assignment, while places are assigned anew; else 0."""
    group: int
    values: Inline


@inline
def _row_at(rows: RowTable, slot: int) -> PlacedRow:
    return PlacedRow(record_at(rows, slot).address)


@kernel
def top(op: TopBlock, group: RowGroup) -> int:
    """End a time; return an error, or 0."""
    rows, order, slot, matters = op.rows, op.order, group.row_chain, False
    while slot > 0:
        row = _row_at(rows, slot)
        old, new = row.old_weight, row.weight
        if new < 0:
            return fail(op, NEGATIVE, 0, slot)
        if old == 0 and new != 0:
            btree.insert(order, slot)
        elif old != 0 and new == 0:
            btree.delete(order, slot)
        matters |= old != new and _matters(op, order, slot)
        slot = row.next_touched
    if matters:
        _assign_places(op, rows, order)
    slot = group.row_chain
    group.row_chain = 0
    while slot > 0:
        row = _row_at(rows, slot)
        next_touched = row.next_touched
        row.next_touched = 0
        if row.weight == 0:
            release(rows, slot)
        slot = next_touched
    return 0


@kernel
def _matters(op: TopBlock, order: BTree, slot: int) -> bool:
    """Return whether a place is free, or a row lies at or before the last place."""
    if op.free_places > 0 or op.placed_count == 0:
        return True
    return not btree.precedes(order, op.placed[op.placed_count - 1], slot)


@kernel
def _assign_places(op: TopBlock, rows: RowTable, order: BTree) -> None:
    """Assign the places anew, and emit the changes."""
    old_count, places, position, count = op.placed_count, op.places, btree.start(order), 0
    old, new = op.placed, op.placed[old_count:]
    while places > 0 and position != 0:
        slot = btree.slot_at(order, position)
        row = _row_at(rows, slot)
        weight = min(places, row.weight)
        if weight != row.placed_weight:
            emit(op, row.values, weight - row.placed_weight)
        places -= weight
        row.new_placed_weight = weight
        new[count] = slot
        count += 1
        position = btree.following(order, position)
    for index in range(old_count):
        row = _row_at(rows, old[index])
        if row.new_placed_weight == 0:
            emit(op, row.values, -row.placed_weight)
        row.placed_weight = 0
    for index in range(count):
        slot = new[index]
        row = _row_at(rows, slot)
        row.placed_weight = row.new_placed_weight
        row.new_placed_weight = 0
        old[index] = slot
    op.placed_count = count
    op.free_places = places


TOP = group_step(top)
