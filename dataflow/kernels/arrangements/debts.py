"""Debts of an arrangement: retractions that are rows of negative weight until the list of their key is consolidated.

An arrangement has debts once searches for the rows to be retracted have passed many others. From then on a retraction
from a long list is a row, so it touches no other row. The lists of keys with few rows are searched as before.
Consolidating a list makes equal rows one, and removes those without weight:

a list    is consolidated once its debts are as many as half of the rows that were left the last time
all       lists with debts are consolidated at the end of a time if more than a third of all rows are debts, or if there
          are more than three rows for each unit of weight; so keys with few debts do not fill the memory, and no row is
          left once all were retracted

In the second case a third or two thirds of all rows leave, and lists without debts are not visited. So the rows that
leave pay for the visits to those that stay, and an update costs a constant number of rows.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements.arrangement import DEAD, LAST_DEBTOR, PENDING, UNITS, ArrangementBlock
from deltamark.dataflow.kernels.arrangements.lists import equal, hash_of, is_searched, prefetch_row, weigh
from deltamark.dataflow.kernels.arrangements.slots import free_slot
from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import prefetch, wraps
from deltamark.dataflow.kernels.hashing.hash_map import id_limit, id_of, key_of, remove
from deltamark.dataflow.kernels.ordered.sorting import sort_records

MIN_DEBTS = 8
"""The least number of debts for which a list is consolidated. Not measured."""

WALKS = 16
"""The number of lists that are prefetched at once. Not measured."""


@kernel
def begin(op: ArrangementBlock) -> None:
    """Let retractions be rows from now on, if their lists are long."""
    lists, keys, last = op.lists, 0, id_limit(op.keys)
    for key_id in range(last):
        keys += lists[2 * key_id] != 0
    for key_id in range(last):
        if lists[2 * key_id] != 0:
            op.debts[2 * key_id] = _after(op.live // keys)
    if op.weighted == 0:
        weigh(op)
        op.all_weight = op.live
    else:
        _count_lists(op)
    op.has_debts, op.negative_rows = 1, 0


@kernel
def _count_lists(op: ArrangementBlock) -> None:
    """Count all rows, some of which may be negative because their time has not ended."""
    for key_id in range(id_limit(op.keys)):
        link = op.lists[2 * key_id]
        while link != 0:
            weight = op.weight[link - 1]
            count_row(op, weight)
            if weight < 0:
                _link_debtor(op, key_id)
            link = op.next[link - 1]


@inline
def count_row(op: ArrangementBlock, weight: int) -> None:
    """Count a row of an arrangement with debts."""
    op.all_weight += weight
    op.all_debts += weight < 0


@inline
def _link_debtor(op: ArrangementBlock, key_id: int) -> None:
    """Link a key that has debts, unless it is linked."""
    if op.debts[2 * key_id + 1] == 0:
        op.debts[2 * key_id + 1] = op.debtors
        op.debtors = key_id + 1


@inline
def _after(rows: int) -> int:
    """Return the number of debts of a key with which its count begins, by the rows that it has."""
    return MIN_DEBTS - max(MIN_DEBTS, rows >> 1)


@kernel
def owe(op: ArrangementBlock) -> bool:
    """Consolidate the lists that have too many debts; return whether no multiplicity was found to be negative.

    The updates of the slice have been settled, and are the newest in the lists.
    """
    due, count, are_units = op.scratch, 0, op.kind == UNITS
    op.unpaid = op.time[op.size - 1] + 1
    for index in range(op.retractions if are_units else op.size):
        at = due[index] if are_units else index
        key_id = id_of(op.keys, op.key[at]) if op.kind == PENDING else op.ids[at]
        if are_units and op.next[op.places[at]] == DEAD:
            continue  # it has taken a row
        if op.diff[at] < 0 and key_id >= 0 and op.lists[2 * key_id] != 0:  # a key may have lost all rows before
            _link_debtor(op, key_id)
            op.debts[2 * key_id] += 1
            due[count] = key_id
            count += op.debts[2 * key_id] == MIN_DEBTS
    return _consolidate(op, due, count)


@kernel
def pay(op: ArrangementBlock) -> bool:
    """Consolidate all lists with debts if these are too many at the end of a time.

    Return whether no multiplicity was found to be negative.
    """
    too_many = 3 * op.all_debts > op.live or -(-op.live // 3) > op.all_weight
    if op.all_debts > 0 and too_many and not _consolidate_all(op):
        return False
    op.unpaid = 0
    return True


@kernel
def _consolidate_all(op: ArrangementBlock) -> bool:
    """Consolidate all lists with debts."""
    due, debts = op.scratch, op.debts
    while op.debtors != LAST_DEBTOR:
        count = 0
        while op.debtors != LAST_DEBTOR and count < WALKS:
            key_id = op.debtors - 1
            op.debtors = debts[2 * key_id + 1]
            debts[2 * key_id + 1] = 0
            due[count] = key_id
            count += op.lists[2 * key_id] != 0
        if not _consolidate(op, due, count):
            return False
    return True


@kernel
def _consolidate(op: ArrangementBlock, due: Array, count: int) -> bool:
    """Consolidate the lists of some keys, which are prefetched. Behind the keys is scratch."""
    for start in range(0, count, WALKS):
        stop = min(start + WALKS, count)
        _prefetch_lists(op, due[start:], stop - start, due[count:])
        for at in range(start, stop):
            if not _consolidate_list(op, due[at], due[count:]):
                return False
    return True


@kernel
def _prefetch_lists(op: ArrangementBlock, due: Array, count: int, links: Array) -> None:
    """Walk the lists of some keys at once, since each row is far away, and prefetch the rows."""
    for walk in range(count):
        links[walk] = op.lists[2 * due[walk]]
    walking = True
    while walking:
        walking = False
        for walk in range(count):
            link = links[walk]
            if link != 0:
                prefetch_row(op, link - 1)
                prefetch(op.weight[link - 1 :].address)
                links[walk] = op.next[link - 1]
                walking = True


@kernel
def _consolidate_list(op: ArrangementBlock, key_id: int, records: Array) -> bool:
    """Consolidate the list of a key: equal rows become one."""
    weight, count, link = op.weight, 0, op.lists[2 * key_id]
    while link != 0:
        slot = link - 1
        records[count] = hash_of(op, slot) << 32 | slot
        op.all_debts -= weight[slot] < 0
        count += 1
        link = op.next[slot]
    sort_records(records, count, 1)
    for at in range(count):
        row_hash, slot = records[at] >> 32, records[at] & 0xFFFFFFFF
        other = at + 1
        while weight[slot] != 0 and other < count and records[other] >> 32 == row_hash:
            taken = records[other] & 0xFFFFFFFF
            if wraps(weight[slot], weight[taken]) >= 0 and equal(op, slot, taken):
                weight[slot] += weight[taken]
                weight[taken] = 0
            other += 1
    return _remove_weightless(op, key_id)


@kernel
def _remove_weightless(op: ArrangementBlock, key_id: int) -> bool:
    """Remove the rows of a key that have no weight, and the key if no row is left."""
    lists, following = op.lists, op.next
    previous, link, kept, complete = 0, lists[2 * key_id], 0, op.unpaid <= op.frontier
    is_ordered = lists[2 * key_id + 1] != 0
    lists[2 * key_id] = lists[2 * key_id + 1] = 0
    while link != 0:
        slot, link = link - 1, following[link - 1]
        weight = op.weight[slot]
        if weight == 0:
            free_slot(op, slot)
            op.live -= 1
            continue
        if weight < 0:
            op.all_debts += 1
            op.negative_slot = slot
            op.negative_time = op.unpaid - 1
            if complete:
                return False
        if previous == 0:
            lists[2 * key_id] = slot + 1
        else:
            following[previous - 1] = slot + 1
        following[slot] = 0
        previous = slot + 1
        kept += 1
    op.debts[2 * key_id] = _after(kept)
    if is_ordered and is_searched(op, key_id):
        lists[2 * key_id + 1] = previous
    if kept == 0 and op.keys.hashed != 0:
        remove(op.keys, key_of(op.keys, key_id))
    return True
