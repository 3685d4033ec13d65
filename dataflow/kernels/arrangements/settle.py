"""Settling: after the last reader of a slice, its updates become rows or cancel equal rows, and taken rows leave."""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements.arrangement import (
    DEAD,
    PENDING,
    ROWS,
    UNITS,
    ArrangementBlock,
    number_of,
)
from deltamark.dataflow.kernels.arrangements.debts import begin, count_row, owe, pay
from deltamark.dataflow.kernels.arrangements.insert import CHEAP_PASSED
from deltamark.dataflow.kernels.arrangements.lists import (
    are_long,
    equal,
    link_row,
    next_of,
    order,
    unlink,
    weigh,
    weight_of,
)
from deltamark.dataflow.kernels.arrangements.slice_rows import show_rows
from deltamark.dataflow.kernels.arrangements.slots import (
    BLOCK_BITS,
    free_slot,
    free_slots,
    has_many_dead,
    move_together,
)
from deltamark.dataflow.kernels.core.blocks import Operator
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.steps import step, words_of
from deltamark.dataflow.kernels.hashing.hash_map import find, id_of, remove
from deltamark.dataflow.kernels.status import DONE, FAILED


@kernel
def settle(op: ArrangementBlock) -> int:
    """Turn the updates of the slice into rows, unless a past time is held.

    Return FAILED if a multiplicity is negative.
    """
    size = op.size
    if op.log_time.address != 0:
        op.first += size
        return DONE
    if size > 0 and not _settle_slice(op, size):
        return FAILED
    if op.negative_rows > 0 and op.negative_time < op.frontier:
        return FAILED
    if op.unpaid > 0 and op.unpaid <= op.frontier and not pay(op):
        return FAILED
    if has_many_dead(op):
        move_together(op)
    return DONE


@kernel
def _settle_slice(op: ArrangementBlock, size: int) -> bool:
    """Settle a slice that has updates; return whether no multiplicity was found to be negative."""
    if op.kind == ROWS:
        _settle_rows(op, size)
    elif op.kind == UNITS:
        if op.known > 0:
            show_rows(op)
        _settle_units(op, size - op.retractions)
        _remove_taken(op)
    if op.has_pending != 0:
        if not _settle_pending(op):
            return False
        _remove_keys(op)
        op.has_pending = 0
    op.mark = op.limit if op.kind == UNITS else op.mark + size
    return op.has_debts == 0 or owe(op)


@kernel
def _settle_rows(op: ArrangementBlock, rows: int) -> None:
    """Settle the updates of the slice that are rows."""
    op.live += rows
    if op.has_debts != 0:
        total = debts = 0
        for at in range(rows):
            diff = op.diff[at]
            op.weight[op.mark + at] = diff
            total += diff
            debts += diff < 0
        op.all_weight += total
        op.all_debts += debts
    elif op.weighted != 0:
        for slot in range(op.mark, op.mark + rows):
            op.weight[slot] = 1


@kernel
def _settle_units(op: ArrangementBlock, rows: int) -> None:
    """Settle the insertions of a slice of units, and the retractions that are debts."""
    if op.weighted != 0:
        for slot in range(op.mark, op.mark + rows):
            op.weight[slot] = 1
    op.live += rows
    if op.has_debts != 0:
        debts = 0
        for index in range(op.retractions):
            debts += op.places[op.scratch[index]] == op.mark + rows + index
        op.live += debts
        op.all_debts += debts
        op.all_weight += rows - op.retractions


@kernel
def _settle_pending(op: ArrangementBlock) -> bool:
    """Settle pending updates in the order of their arrival; return whether no row is negative after its time."""
    size = op.size
    for at in range(size):
        slot = op.mark + at if op.kind == PENDING else op.places[at]
        if op.kind == UNITS and (op.diff[at] > 0 or op.next[slot] == DEAD):
            continue  # a row, or the retraction of one that has been removed
        if op.negative_rows > 0 and op.time[at] > op.negative_time:
            return False
        if op.has_debts == 0 and are_long(op):
            begin(op)
        key_id = id_of(op.keys, op.key[at])
        op.pending[key_id] = 0
        left = _cancel(op, key_id, slot, at)
        if left == 0:
            free_slot(op, slot)
            continue
        if left != 1:
            weigh(op)
        if op.weighted != 0:
            op.weight[slot] = left
        if op.has_debts != 0:
            count_row(op, left)
        elif left < 0:
            op.negative_rows += 1
            op.negative_time = op.time[at]
            op.negative_slot = slot
        op.live += 1
        link_row(op, key_id, slot)
    return True


@kernel
def _cancel(op: ArrangementBlock, key_id: int, slot: int, at: int) -> int:
    """Cancel an update against equal rows of the other sign, the oldest first; return the rest of its diff."""
    diff = op.diff[at]
    if op.has_debts != 0 or (diff > 0 and op.negative_rows == 0):
        return diff
    if op.lists[2 * key_id] != 0:
        order(op, key_id)
    previous, link, passed = 0, op.lists[2 * key_id], 0
    while diff != 0 and link != 0:
        row = link - 1
        weight = weight_of(op, row)
        if (weight > 0) == (diff > 0) or not _is_met(op, row, slot, at):
            previous, link = link, next_of(op, row)
            passed += 1
            continue
        if abs(weight) > abs(diff):
            op.weight[row] = weight + diff
            return 0
        diff += weight
        link = next_of(op, row)
        _drop(op, key_id, previous, row, weight)
    op.passed = max(op.passed + passed - CHEAP_PASSED, 0)
    return diff


@kernel
def _is_met(op: ArrangementBlock, row: int, slot: int, at: int) -> bool:
    """Return whether a row is equal to that of an update, and not later than the update."""
    if not equal(op, row, slot):
        return False
    return op.kind != UNITS or not op.mark <= row < op.limit or op.time[number_of(op, row)] <= op.time[at]


@kernel
def _remove_taken(op: ArrangementBlock) -> None:
    """Remove the rows that the retractions of the slice have taken. Those of one block of slots are freed at once."""
    retractions, ids, places, lists, following = op.scratch, op.ids, op.places, op.lists, op.next
    has_more, block, count = op.keys.hashed != 0 or op.has_debts != 0, 0, 0
    for index in range(op.retractions):
        at = retractions[index]
        key_id, row = ids[at], places[at]
        link = following[row]
        if link >= 0 or link == DEAD:
            continue  # a row that an earlier one has removed, or a debt
        if lists[2 * key_id] == row + 1:
            lists[2 * key_id] = ~link
            lists[2 * key_id + 1] >>= 63 * (~link == 0)  # without a branch, because keys have few rows each
            if row >> BLOCK_BITS != block:
                free_slots(op, block, count)
                op.live -= count
                block, count = row >> BLOCK_BITS, 0
            following[row] = DEAD
            count += 1
        else:
            _remove_taken_until(op, key_id, row)
        if has_more and lists[2 * key_id] == 0:
            _remove_key(op, key_id, at)
    free_slots(op, block, count)
    op.live -= count


@kernel
def _remove_key(op: ArrangementBlock, key_id: int, at: int) -> None:
    """Forget the key of an update, which has no rows any more, unless it may have pending updates."""
    if op.has_debts != 0:
        op.debts[2 * key_id] = 0
    if op.keys.hashed != 0 and op.has_pending == 0:
        remove(op.keys, op.key[at])


@kernel
def _remove_taken_until(op: ArrangementBlock, key_id: int, row: int) -> None:
    """Remove the rows of a key that were taken, from the first to a certain one."""
    previous, link = 0, op.lists[2 * key_id]
    while True:
        slot, after = link - 1, next_of(op, link - 1)
        if op.next[slot] < 0:
            _drop(op, key_id, previous, slot, 1)
            if slot == row:
                break
        else:
            previous = link
        link = after


@kernel
def _remove_keys(op: ArrangementBlock) -> None:
    """Forget the keys of the slice that have no rows."""
    keys = op.keys
    if keys.hashed != 0:
        for at in range(op.size):
            key_id = find(keys, op.key[at])
            if key_id >= 0 and op.lists[2 * key_id] == 0:
                remove(keys, op.key[at])


@kernel
def _drop(op: ArrangementBlock, key_id: int, previous: int, slot: int, weight: int) -> None:
    """Remove a row. previous: the link of the row before it."""
    unlink(op, key_id, previous, slot)
    free_slot(op, slot)
    op.live -= 1
    op.negative_rows -= weight < 0


class SettleBlock(Operator):
    """The operator that settles the slice of an arrangement."""

    arrangement: ArrangementBlock


def _idle(op: SettleBlock) -> tuple[int, ...]:
    return words_of(op.arrangement, "size", "negative_rows", "unpaid")


SETTLE = step(settle, field_of=(SettleBlock, "arrangement"), idle=_idle)
