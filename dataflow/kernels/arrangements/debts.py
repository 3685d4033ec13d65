"""Debts of an arrangement: retractions that are rows of negative weight until the list of their key is consolidated.

An arrangement has debts once searches for the rows to be retracted have passed many others. From then on every update
is a row, so it touches no other row. The list of a key is consolidated once its debts are as many as half of the rows
that were left the last time: equal rows become one, and those without weight leave. All lists are consolidated once
debts are a third of all rows, so that keys with few debts do not fill the memory. Whatever visits all keys waits until
the searches or debts before are a part of the possible keys.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements.arrangement import PENDING, ArrangementBlock
from deltamark.dataflow.kernels.arrangements.lists import equal, hash_of, prefetch_row, weigh
from deltamark.dataflow.kernels.arrangements.slots import free_slot
from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import prefetch, wraps
from deltamark.dataflow.kernels.hashing.hash_map import id_limit, id_of, key_of, remove
from deltamark.dataflow.kernels.ordered.shell_sort import sort_records

MIN_DEBTS = 8
"""The least number of debts for which a list is consolidated. Not measured."""

MIN_ROWS = 1 << 12
"""The least number of rows for which all lists are consolidated. Not measured."""

WALKS = 16
"""The number of lists that are prefetched at once. Not measured."""


@kernel
def begin(op: ArrangementBlock) -> None:
    """Let every update be a row from now on."""
    lists, keys, last = op.lists, 0, id_limit(op.keys)
    weigh(op)
    for key_id in range(last):
        keys += lists[2 * key_id] != 0
    for key_id in range(last):
        if lists[2 * key_id] != 0:
            op.debts[key_id] = _after(op.live // keys)
    op.has_debts, op.ordered = 1, 0


@inline
def _after(rows: int) -> int:
    """Return the number of debts of a key with which its count begins, by the rows that it has."""
    return MIN_DEBTS - max(MIN_DEBTS, rows >> 1)


@kernel
def pay(op: ArrangementBlock) -> bool:
    """Consolidate the lists that have too many debts; return whether no multiplicity was found to be negative.

    The updates of the slice have been settled, and are the newest in the lists.
    """
    due, count = op.scratch, 0
    for at in range(op.size):
        key_id = id_of(op.keys, op.key[at]) if op.kind == PENDING else op.ids[at]
        if op.diff[at] < 0 and key_id >= 0 and op.lists[2 * key_id] != 0:  # a key may have lost all rows before
            op.debts[key_id] += 1
            due[count] = key_id
            count += op.debts[key_id] == MIN_DEBTS
    if not _consolidate(op, due, count):
        return False
    return 3 * op.all_debts <= max(op.live, MIN_ROWS, id_limit(op.keys)) or _consolidate_all(op)


@kernel
def _consolidate_all(op: ArrangementBlock) -> bool:
    """Consolidate all lists."""
    due, key_id, last = op.scratch, 0, id_limit(op.keys)
    while key_id < last:
        count = 0
        while key_id < last and count < WALKS:
            due[count] = key_id
            count += op.lists[2 * key_id] != 0
            key_id += 1
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
    previous, link, kept, complete = 0, lists[2 * key_id], 0, op.time[op.size - 1] < op.frontier
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
            op.negative_time = op.time[op.size - 1]
            if complete:
                return False
        if previous == 0:
            lists[2 * key_id] = slot + 1
        else:
            following[previous - 1] = slot + 1
        following[slot] = 0
        previous = slot + 1
        kept += 1
    op.debts[key_id] = _after(kept)
    if kept == 0 and op.keys.hashed != 0:
        remove(op.keys, key_of(op.keys, key_id))
    return True
