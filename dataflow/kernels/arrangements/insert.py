"""Insertion: the updates of a slice become visible under their keys."""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements.arrangement import PENDING, ROWS, UNITS, ArrangementBlock, number_of
from deltamark.dataflow.kernels.arrangements.lists import (
    MIN_SKIPPED,
    are_long,
    equal,
    is_searched,
    link_row,
    order,
    prefetch_row,
    skipped,
    weight_of,
)
from deltamark.dataflow.kernels.arrangements.slice_rows import FEW, hide_row, unmatched
from deltamark.dataflow.kernels.arrangements.slots import free_slot, take_slots, use_slots
from deltamark.dataflow.kernels.core.blocks import Array32
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import prefetch
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.hashing.hash_map import add, prefetch_entry

FAR, NEAR = 32, 16
"""The numbers of updates ahead at which the list of a key and the rows in it are prefetched. Measured on q17, q05 and
q08 in a window: 16 and 8 take 1.03 times as long, 64 and 32 take 1.02 times as long."""

MAX_SEARCHED = 16
"""The most rows that a retraction searches if the arrangement has debts. Not measured."""

CHEAP_PASSED = 4
"""The rows that a search passes in about the time of a debt. Not measured."""


@kernel
def insert(op: ArrangementBlock) -> None:
    """Add the updates of the slice."""
    size = op.size
    op.kind = _kind(op, size)
    op.passes += 1
    op.has_new_debts = 0
    first = take_slots(op, size)
    _find_ids(op, size)
    if op.kind == UNITS:
        _insert_units(op, size, first)
    else:
        _copy(op, size, first)
        if op.kind == PENDING:
            _add_pending(op, size, first)
        else:
            _link_rows(op, size, first)
        use_slots(op, size)
    if op.present.address != 0:
        key, low, present = op.key, op.keys.low, op.present
        for at in range(size):
            place = key[at] - low
            present[place >> 6] |= 1 << (place & 63)
    if op.log_time.address != 0:
        _log(op, size)


@kernel
def _kind(op: ArrangementBlock, size: int) -> int:
    """Return the kind of the slice."""
    diff, insertions, units = op.diff, 0, 0
    if op.log_time.address != 0:
        return PENDING
    for at in range(size):
        insertions += diff[at] == 1
        units += diff[at] == 1 or diff[at] == -1
    if op.negative_rows > 0 or (units < size and op.has_debts == 0):
        return PENDING
    return ROWS if insertions == size or units < size else UNITS


@kernel
def _copy(op: ArrangementBlock, size: int, first: int) -> None:
    """Store the columns of all updates."""
    for column in range(op.wide):
        source, target = op.inputs[column], op.stored[column][first:]
        for at in range(size):
            target[at] = source[at]
    for column in range(op.wide, op.columns):
        source, narrow = op.inputs[column], Array32(op.stored[column])[first:]
        for at in range(size):
            narrow[at] = source[at]


@kernel
def _find_ids(op: ArrangementBlock, size: int) -> None:
    """Find the ids of the keys of all updates; a key that has none gets one."""
    key, keys, ids = op.key, op.keys, op.ids
    if keys.hashed != 0:
        for at in range(size):
            prefetch_entry(keys, key[min(at + FAR, size - 1)])
            ids[at] = ids[at - 1] if at > 0 and key[at] == key[at - 1] else add(keys, key[at])
    else:
        low = keys.low
        for at in range(size):
            ids[at] = key[at] - low


@kernel
def _link_rows(op: ArrangementBlock, size: int, first: int) -> None:
    """Put all updates into the lists of their keys."""
    ids, lists, following, ordered = op.ids, op.lists, op.next, op.ordered != 0
    for at in range(size):
        prefetch(lists[2 * ids[min(at + FAR, size - 1)] :].address)
        if ordered:
            link_row(op, ids[at], first + at)
        else:
            following[first + at] = lists[2 * ids[at]]
            lists[2 * ids[at]] = first + at + 1


@kernel
def _add_pending(op: ArrangementBlock, size: int, first: int) -> None:
    """Add all updates to the pending ones of their keys."""
    op.ordered = 1
    op.has_pending = 1
    for at in range(size):
        op.next[first + at] = op.pending[op.ids[at]]
        op.pending[op.ids[at]] = first + at + 1


@kernel
def _insert_units(op: ArrangementBlock, size: int, first: int) -> None:
    """Add the insertions and the retractions, whose slots lie behind them."""
    op.ordered = 1
    diff, numbers, places, retractions = op.diff, op.numbers, op.places, op.scratch
    rows = count = 0
    for at in range(size):
        numbers[rows] = at
        places[at] = first + rows
        retractions[count] = at
        rows += diff[at] > 0
        count += diff[at] < 0
    for index in range(count):
        numbers[rows + index] = retractions[index]
    for column in range(op.wide):
        source, target = op.inputs[column], op.stored[column][first:]
        for slot in range(size):
            target[slot] = source[numbers[slot]]
    for column in range(op.wide, op.columns):
        source, narrow = op.inputs[column], Array32(op.stored[column])[first:]
        for slot in range(size):
            narrow[slot] = source[numbers[slot]]
    op.retractions = count
    op.known = 0
    _link_units(op, rows, first)
    use_slots(op, rows)
    if _take_rows(op, count, first + rows) > 0:
        use_slots(op, count)
        for index in range(count):
            if op.places[retractions[index]] != first + rows + index:
                free_slot(op, first + rows + index)


@kernel
def _link_units(op: ArrangementBlock, rows: int, first: int) -> None:
    """Put the insertions of a slice of units into the lists of their keys."""
    ids, lists, following, numbers = op.ids, op.lists, op.next, op.numbers
    for row in range(rows):
        prefetch(lists[2 * ids[numbers[min(row + FAR, rows - 1)]] :].address)
        near = 2 * ids[numbers[min(row + NEAR, rows - 1)]]
        link = lists[near + 1] if lists[near + 1] != 0 else lists[near]
        prefetch(following[link - 1 :].address)
        link_row(op, ids[numbers[row]], first + row)


@kernel
def _take_rows(op: ArrangementBlock, count: int, first: int) -> int:
    """Let each retraction, from slot `first` on, take a row; return the number of those that take none.

    Once lists are long, all later retractions are pending: none may take a row that an earlier one will cancel. If the
    arrangement has debts, a retraction that finds no row is a debt, and the lists of keys with few rows are searched.
    Once a key has had a few of either in the slice, such a retraction hides an equal row of the slice, if there is one.
    """
    retractions, ids, lists, places, left = op.scratch, op.ids, op.lists, op.places, 0
    searching, has_debts = True, op.has_debts != 0
    for index in range(count):
        at = retractions[index]
        key_id, slot = ids[at], first + index
        prefetch(lists[2 * ids[retractions[min(index + FAR, count - 1)]] :].address)
        prefetch_row(op, lists[2 * ids[retractions[min(index + NEAR, count - 1)]]] - 1)
        row = -1
        if not has_debts or is_searched(op, key_id):
            row = _oldest_row(op, key_id) if searching else -1
            if row >= 0 and _may_be_taken(op, row, at) and equal(op, row, slot):
                op.passed = max(op.passed - CHEAP_PASSED, 0)
            else:
                searching = searching and (has_debts or not are_long(op))
                row = _row_to_take(op, key_id, slot, at) if searching else -1
        if row >= 0:
            op.next[row] = ~op.next[row]
            op.taken_by[row] = at
            places[at] = row
            continue
        places[at] = slot
        left += 1
        if not has_debts:
            op.has_pending = 1
        earlier = unmatched(op, key_id)
        if earlier >= FEW and (has_debts or not searching) and hide_row(op, slot, at):
            continue
        op.older[slot] = earlier + 1
        if has_debts:
            op.has_new_debts = 1
            op.weight[slot] = -1
            link_row(op, key_id, slot)
            continue
        op.next[slot] = op.pending[key_id]
        op.pending[key_id] = slot + 1
    return left


@inline
def _oldest_row(op: ArrangementBlock, key_id: int) -> int:
    """Return the oldest row of a key that is not taken; -1 if a search is needed to find it."""
    if op.lists[2 * key_id + 1] == 0:
        return -1
    row = op.lists[2 * key_id] - 1
    for _ in range(CHEAP_PASSED):
        if op.next[row] >= 0:
            return row
        row = ~op.next[row] - 1
        if row < 0:
            break
    return -1


@inline
def _may_be_taken(op: ArrangementBlock, row: int, at: int) -> bool:
    """Return whether a row has weight 1, and is not later than a retraction."""
    is_new = op.mark <= row < op.limit
    return op.time[number_of(op, row)] <= op.time[at] if is_new else weight_of(op, row) == 1


@kernel
def _row_to_take(op: ArrangementBlock, key_id: int, slot: int, at: int) -> int:
    """Return the oldest row that is equal to that of a retraction, in a slot; -1 if none is found that may be taken."""
    if op.lists[2 * key_id] != 0 and op.lists[2 * key_id + 1] == 0:
        order(op, key_id)
    link, passed, found, taken, start = op.lists[2 * key_id], 0, -1, 0, 0
    most = MAX_SEARCHED if op.has_debts != 0 else op.top
    while link != 0 and passed < most:
        row = link - 1
        link = op.next[row]
        if link < 0:
            link = ~link
            taken += 1
            if taken == MIN_SKIPPED:
                start, noted = row, skipped(op, op.passes, row)
                link = noted if noted >= 0 else link
            continue
        if taken > MIN_SKIPPED:
            op.skips[start] = op.passes << 32 | (row + 1)
        taken = 0
        if equal(op, row, slot):
            found = row if _may_be_taken(op, row, at) else -1
            if found >= 0 or op.has_debts == 0:
                break
        passed += 1
    op.passed = max(op.passed + passed - CHEAP_PASSED, 0)
    return found


@kernel
def _log(op: ArrangementBlock, size: int) -> None:
    """Keep the times, diffs and keys of the slice."""
    first, time, diff, key = op.first, op.time, op.diff, op.key
    for at in range(size):
        op.log_time[first + at] = time[at]
        op.log_diff[first + at] = diff[at]
        op.log_key[first + at] = key[at]


INSERT = step(insert, idle=("size",))
