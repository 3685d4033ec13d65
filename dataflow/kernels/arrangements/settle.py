"""Settling: after the last reader of a slice, its updates become rows or cancel equal rows, and taken rows leave."""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements import row_lookup
from deltamark.dataflow.kernels.arrangements.arrangement import (
    DEAD,
    PENDING,
    UNITS,
    ArrangementBlock,
    number_of,
)
from deltamark.dataflow.kernels.arrangements.insert import CHEAP_PASSED, FAR, NEAR
from deltamark.dataflow.kernels.arrangements.lists import equal, hash_of, link_row, next_of, order, unlink, weight_of
from deltamark.dataflow.kernels.arrangements.row_lookup import RowLookup
from deltamark.dataflow.kernels.arrangements.slots import free_slot, has_many_dead, is_dead, move_together
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import prefetch
from deltamark.dataflow.kernels.hashing.hash_map import find, id_limit, id_of, remove
from deltamark.dataflow.kernels.status import DONE, FAILED, NEEDS_ROOM

LOOKUP_SHIFT, MIN_PASSED = 2, 256
"""The rows are hashed once searches have passed a quarter of their number, and these more. Not measured."""

WALKS = 16
"""The number of lists that are walked at once. Not measured."""


@kernel
def settle(op: ArrangementBlock) -> int:
    """Turn the updates of the slice into rows, unless a past time is held.

    Return NEEDS_ROOM if the row lookup is missing or too small, FAILED if a multiplicity is negative.
    """
    size = op.size
    if op.log_time.address != 0:
        op.first += size
        return DONE
    if size > 0:
        status = _settle_slice(op, size)
        if status != DONE:
            return status
    if op.negative_rows > 0 and op.negative_time < op.frontier:
        return FAILED
    if has_many_dead(op):
        move_together(op)
    return DONE


@kernel
def _settle_slice(op: ArrangementBlock, size: int) -> int:
    """Settle a slice that has updates; return the status."""
    lookup = op.lookup
    has_lookup = lookup.address != 0
    if not has_lookup and op.passed > (op.live >> LOOKUP_SHIFT) + MIN_PASSED:
        return NEEDS_ROOM
    if has_lookup and 2 * (lookup.used + size) > lookup.mask + 1:
        return NEEDS_ROOM
    if op.kind != PENDING:
        _settle_insertions(op, size - op.retractions if op.kind == UNITS else size)
    if op.kind == UNITS:
        _remove_taken(op)
    if op.has_pending != 0:
        if not _settle_pending(op):
            return FAILED
        _remove_keys(op)
        op.has_pending = 0
    op.mark = op.limit if op.kind == UNITS else op.mark + size
    return DONE


@kernel
def _settle_insertions(op: ArrangementBlock, rows: int) -> None:
    """Settle the insertions of a slice that has no pending ones."""
    op.live += rows
    if op.weighted != 0:
        for slot in range(op.mark, op.mark + rows):
            op.weight[slot] = 1
    if op.lookup.address != 0:
        _add_to_lookup(op, op.mark, op.mark + rows)


@kernel
def _add_to_lookup(op: ArrangementBlock, start: int, stop: int) -> None:
    """Add rows to the lookup, the entries of which are prefetched."""
    lookup = op.lookup
    for slot in range(start, min(start + FAR, stop)):
        _prefetch_entry(op, slot)
    for slot in range(start, stop):
        if slot + FAR < stop:
            _prefetch_entry(op, slot + FAR)
        row_lookup.add_row(lookup, slot, hash_of(op, row_lookup.key_id_of(lookup, slot), slot))


@inline
def _prefetch_entry(op: ArrangementBlock, slot: int) -> None:
    """Prefetch the entry of a row in the lookup."""
    lookup = op.lookup
    row_hash = hash_of(op, row_lookup.key_id_of(lookup, slot), slot)
    prefetch(lookup.table[row_hash & lookup.mask :].address)


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
        key_id = id_of(op.keys, op.key[at])
        op.pending[key_id] = 0
        left = _cancel(op, key_id, slot, at)
        if left == 0:
            free_slot(op, slot)
            continue
        if left != 1 and op.weighted == 0:
            for other in range(op.top):
                op.weight[other] = 1
            op.weighted = 1
        if op.weighted != 0:
            op.weight[slot] = left
        if left < 0:
            op.negative_rows += 1
            op.negative_time = op.time[at]
            op.negative_slot = slot
        op.live += 1
        _link_settled(op, key_id, slot)
    return True


@kernel
def _link_settled(op: ArrangementBlock, key_id: int, slot: int) -> None:
    """Put a row that was pending into the list of its key, and into the lookup."""
    link_row(op, key_id, slot)
    if op.lookup.address != 0:
        _add_to_lookup(op, slot, slot + 1)


@kernel
def _cancel(op: ArrangementBlock, key_id: int, slot: int, at: int) -> int:
    """Cancel an update against equal rows of the other sign, the oldest first; return the rest of its diff."""
    diff = op.diff[at]
    if diff > 0 and op.negative_rows == 0:
        return diff
    if op.lookup.address != 0:
        return _cancel_by_lookup(op, key_id, slot, at)
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
def _cancel_by_lookup(op: ArrangementBlock, key_id: int, slot: int, at: int) -> int:
    """Cancel an update against equal rows of the other sign, which are found by their hash."""
    lookup, diff = op.lookup, op.diff[at]
    row_hash = hash_of(op, key_id, slot)
    place = row_hash & lookup.mask
    while diff != 0:
        entry = lookup.table[place]
        if entry == 0:
            break
        row = (entry & 0xFFFFFFFF) - 1
        place = (place + 1) & lookup.mask
        if entry >> 32 != row_hash or row_lookup.key_id_of(lookup, row) != key_id or not _is_met(op, row, slot, at):
            continue
        weight = weight_of(op, row)
        if (weight > 0) == (diff > 0):
            continue
        if abs(weight) > abs(diff):
            op.weight[row] = weight + diff
            return 0
        diff += weight
        _drop(op, key_id, row_lookup.predecessor_of(lookup, row), row, weight)
        place = row_hash & lookup.mask  # the entries behind it have moved up
    return diff


@kernel
def _remove_taken(op: ArrangementBlock) -> None:
    """Remove the rows that the retractions of the slice have taken."""
    hashed = op.keys.hashed != 0
    for index in range(op.retractions):
        at = op.scratch[index]
        key_id, row = op.ids[at], op.places[at]
        if op.next[row] >= 0 or op.next[row] == DEAD:
            continue
        if op.lookup.address != 0:
            _prefetch_neighbours(op, op.places[op.scratch[min(index + NEAR, op.retractions - 1)]])
            _drop(op, key_id, row_lookup.predecessor_of(op.lookup, row), row, 1)
        else:
            _remove_taken_until(op, key_id, row)
        if hashed and op.lists[2 * key_id] == 0 and op.has_pending == 0:
            remove(op.keys, op.key[at])


@inline
def _prefetch_neighbours(op: ArrangementBlock, row: int) -> None:
    """Prefetch the links of the rows before and behind a row in its list."""
    prefetch(op.next[row_lookup.predecessor_of(op.lookup, row) - 1 :].address)
    prefetch(op.lookup.links[2 * (next_of(op, row) - 1) :].address)


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
    if op.lookup.address != 0:
        row_lookup.remove_row(op.lookup, slot, hash_of(op, key_id, slot))
    unlink(op, key_id, previous, slot)
    free_slot(op, slot)
    op.live -= 1
    op.negative_rows -= weight < 0


@kernel
def build_lookup(op: ArrangementBlock, lookup: RowLookup) -> None:
    """Add all settled rows to a new lookup, whose table has room for them."""
    _find_predecessors(op, lookup)
    op.lookup = lookup
    start = 0
    while start < op.top:
        stop = start
        while stop < op.top and not is_dead(op, stop) and not op.mark <= stop < op.limit:
            stop += 1
        _add_to_lookup(op, start, stop)
        start = stop + 1


@kernel
def _find_predecessors(op: ArrangementBlock, lookup: RowLookup) -> None:
    """Record the key and the predecessor of every row. Several lists are walked at once, since each row is far away."""
    ids, walks, key_id = id_limit(op.keys), op.scratch[op.retractions :], 0  # the retractions are still needed
    for walk in range(WALKS):
        walks[3 * walk] = 0
    running = 1
    while running > 0:
        running = 0
        for walk in range(WALKS):
            link = walks[3 * walk]
            while link == 0 and key_id < ids:
                link = op.lists[2 * key_id]
                walks[3 * walk + 1] = 0
                walks[3 * walk + 2] = key_id
                key_id += 1
            if link != 0:
                row_lookup.follow(lookup, link - 1, walks[3 * walk + 2], walks[3 * walk + 1])
                walks[3 * walk + 1] = link
                walks[3 * walk] = next_of(op, link - 1)
                running += 1
