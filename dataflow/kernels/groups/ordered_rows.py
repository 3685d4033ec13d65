"""Rows of groups in order: what the operators share that carry values along the order, or compute them from places."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.groups.grouped_rows import (
    NEGATIVE,
    GroupedRowsBlock,
    RowGroup,
    fail,
    record_at,
    release,
)
from deltamark.dataflow.kernels.hashing import hash_map
from deltamark.dataflow.kernels.hashing.hash_map import remove
from deltamark.dataflow.kernels.ordered import btree
from deltamark.dataflow.kernels.ordered.btree import BTree

MAX_COPIES = 1 << 24
"""The most copies of a row that may have different values, each of which is a row of the result."""


class OrderedRowsBlock(GroupedRowsBlock):
    """Rows in order of their group, then of columns."""

    order: BTree
    peer_words: int
    """The number of values in which peers are equal."""
    changed: Array
    """The slots of the rows that the time has changed, in order."""
    functions: int
    bounds: Array
    """For each function its least and its largest value."""
    by_copy: int
    """Whether the copies of a row may have different values."""
    old_out: Array
    """The values of the functions before the time."""
    new_out: Array


class OrderedGroup(RowGroup):
    """The rows of a group."""

    rows: int
    last: int
    """With a limit, the last row whose state is up to date, or 0 if all are."""


@inline
def state_of(op: OrderedRowsBlock, slot: int) -> Array:
    """Return the words of the operator in a record."""
    return record_at(op.rows, slot).values[op.rows.columns :]


@kernel
def put_in_order(op: OrderedRowsBlock, group: OrderedGroup) -> int:
    """Insert the new rows into the order, and sort the changed ones; return their number, or -1 for an error."""
    rows, slot, count, changed = op.rows, group.row_chain, 0, op.changed
    group.row_chain = 0
    while slot > 0:
        row = record_at(rows, slot)
        next_touched, old, new = row.next_touched, row.old_weight, row.weight
        if new < 0:
            fail(op, NEGATIVE, 0, slot)
            return -1
        if old == new:
            row.next_touched = 0
            if new == 0:
                release(rows, slot)
        else:
            if old == 0:
                if op.order.items != 0:
                    btree.clear_copies(op.order, slot)
                btree.insert(op.order, slot)
                group.rows += 1
            changed[count] = slot
            count += 1
        slot = next_touched
    _sort(op.order, changed, count)
    return count


@kernel
def _sort(order: BTree, slots: Array, count: int) -> None:
    """Sort slots by the order of their rows: heapsort."""
    for start in range(count // 2 - 1, -1, -1):
        _sift(order, slots, start, count)
    for end in range(count - 1, 0, -1):
        last = slots[end]
        slots[end] = slots[0]
        slots[0] = last
        _sift(order, slots, 0, end)


@kernel
def _sift(order: BTree, slots: Array, start: int, count: int) -> None:
    """Move a slot down a heap, whose largest slot is first, to its place."""
    slot, at = slots[start], start
    while 2 * at + 1 < count:
        child = 2 * at + 1
        if child + 1 < count and btree.precedes(order, slots[child], slots[child + 1]):
            child += 1
        if not btree.precedes(order, slot, slots[child]):
            break
        slots[at] = slots[child]
        at = child
    slots[at] = slot


@kernel
def settle_rows(op: OrderedRowsBlock, group_id: int, group: OrderedGroup, count: int) -> None:
    """End a time for its changed rows: those without weight leave the order, and an empty group leaves the keys."""
    rows, order = op.rows, op.order
    for at in range(count):
        slot = op.changed[at]
        row = record_at(rows, slot)
        row.next_touched = 0
        if row.weight == 0:
            btree.delete(order, slot)
            release(rows, slot)
            group.rows -= 1
    if group.rows == 0:
        group.last = 0
        remove(op.keys, hash_map.key_of(op.keys, group_id))


@kernel
def are_peers(op: OrderedRowsBlock, a: int, b: int) -> bool:
    """Return whether two rows are in one group and equal in order; slot 0 is no row."""
    if a == 0:
        return False
    one, other = record_at(op.rows, a), record_at(op.rows, b)
    equal = one.group == other.group
    for word in range(op.peer_words):
        equal &= one.values[word] == other.values[word]
    return equal


@kernel
def emit_with(op: OrderedRowsBlock, values: Array, functions: Array, diff: int) -> None:
    """Write an update of a row with its functions to the output."""
    if diff == 0:
        return
    at, columns = op.out_size, op.rows.columns
    op.out_time[at] = op.open_time
    op.out_diff[at] = diff
    for column in range(columns):
        op.out[column][at] = values[column]
    for function in range(op.functions):
        op.out[columns + function][at] = functions[function]
    op.out_size = at + 1
