"""Settling: after the last reader of a slice, the updates of an arrangement become rows or cancel equal rows."""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements import row_lookup
from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock
from deltamark.dataflow.kernels.arrangements.row_lookup import RowLookup
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.hashing.hash_map import id_limit, id_of, remove
from deltamark.dataflow.kernels.status import DONE, FAILED, NEEDS_ROOM

MAX_PASSED = 64
"""Rows that a search may pass before all rows are hashed. Not measured."""


@kernel
def settle(op: ArrangementBlock) -> int:
    """Turn the updates of the slice into rows, unless a past time is held.

    Return NEEDS_ROOM if the row lookup is missing or too small, FAILED if a multiplicity is negative.
    """
    size, mark, lookup = op.size, op.mark, op.lookup
    if op.log_time.address != 0:
        op.first += size
        return DONE
    has_lookup = lookup.address != 0
    if not has_lookup and op.wants_lookup != 0:
        return NEEDS_ROOM
    if has_lookup and 2 * (lookup.used + size) > lookup.mask + 1:
        return NEEDS_ROOM
    if op.unit_inserts == 1 and op.free == 0 and op.negative_rows == 0:
        _settle_inserts(op, size)
        return DONE
    keys, holes, hashed = op.keys, op.holes, op.keys.hashed != 0
    holes[0] = 0
    op.stamp += 1
    end = mark
    for at in range(size):
        if op.settled[at] == op.stamp:
            continue
        key_id = id_of(keys, op.key[at])
        end = max(end, _settle_key(op, key_id))
        if end > mark + size:
            return FAILED
        if hashed and op.lists[2 * key_id] == 0 and op.lists[2 * key_id + 1] == 0:
            remove(keys, op.key[at])
    op.mark = end
    for index in range(1, holes[0] + 1):
        if holes[index] < end:
            _free(op, holes[index])
    return FAILED if op.negative_rows > 0 and op.negative_time < op.frontier else DONE


@kernel
def _settle_inserts(op: ArrangementBlock, size: int) -> None:
    """Settle a slice of insertions of weight 1: its updates become rows in their places."""
    mark = op.mark
    op.mark += size
    op.live += size
    if op.weighted != 0:
        for at in range(size):
            op.weight[mark + at] = 1
    if op.lookup.address != 0:
        for at in range(size):
            _add_to_lookup(op, mark + at, id_of(op.keys, op.key[at]))


@kernel
def _add_to_lookup(op: ArrangementBlock, slot: int, key_id: int) -> None:
    """Add a row, the first of its list, to the lookup."""
    row_lookup.prepend(op.lookup, slot, key_id, op.next)
    row_lookup.add_row(op.lookup, slot, row_lookup.hash_of(key_id, slot, op.columns, op.stored))


@kernel
def _settle_key(op: ArrangementBlock, key_id: int) -> int:
    """Settle the updates of a key in the order of their arrival; return the end of the slots in use behind `mark`."""
    mark, lists, following = op.mark, op.lists, op.next
    times, diffs, scratch = op.time, op.diff, op.scratch
    updates, link = 0, lists[2 * key_id]
    while link > mark:
        scratch[updates] = link - 1
        op.settled[link - 1 - mark] = op.stamp
        updates += 1
        link = following[link - 1]
    lists[2 * key_id] = link
    if op.lookup.address != 0 and link != 0:
        row_lookup.set_predecessor(op.lookup, link - 1, 0)
    negative = _negative_rows(op, key_id) if op.negative_rows > 0 else 0
    time, end = op.negative_time, mark
    for index in range(updates - 1, -1, -1):
        slot = scratch[index]
        at = slot - mark
        if negative > 0 and times[at] > time:
            op.negative_time = time
            return 2**62
        time = times[at]
        before = op.negative_rows
        left = _cancel(op, key_id, slot, diffs[at])
        negative += op.negative_rows - before
        if left == 0:
            _free(op, slot)
            continue
        slot = _place(op, slot, left)
        if left < 0:
            negative += 1
            op.negative_rows += 1
            op.negative_slot = slot
        following[slot] = lists[2 * key_id]
        lists[2 * key_id] = slot + 1
        if op.lookup.address != 0:
            _add_to_lookup(op, slot, key_id)
        end = max(end, slot + 1)
    if negative > 0:
        op.negative_time = time
    return end


@kernel
def _weight(op: ArrangementBlock, slot: int) -> int:
    return op.weight[slot] if op.weighted != 0 else 1


@kernel
def _negative_rows(op: ArrangementBlock, key_id: int) -> int:
    """Count the rows of negative weight under a key."""
    count = 0
    for which in range(2):
        link = op.lists[2 * key_id + which]
        while link != 0:
            if _weight(op, link - 1) < 0:
                count += 1
                op.negative_slot = link - 1
            link = op.next[link - 1]
    return count


@kernel
def _equal(op: ArrangementBlock, a: int, b: int) -> bool:
    """Return whether the rows of two slots are equal."""
    for column in range(op.columns):
        stored = op.stored[column]
        if stored[a] != stored[b]:
            return False
    return True


@kernel
def _cancel(op: ArrangementBlock, key_id: int, slot: int, diff: int) -> int:
    """Cancel an update against equal rows of the other sign, the oldest first; return the rest of its diff."""
    if diff > 0 and op.negative_rows == 0:
        return diff
    if op.lookup.address != 0:
        return _cancel_by_lookup(op, key_id, slot, diff)
    lists, following = op.lists, op.next
    previous, link, passed = 0, lists[2 * key_id + 1], 0
    while diff != 0:
        if link == 0:
            link = _reverse(op, key_id, previous)
            if link == 0:
                break
        row = link - 1
        weight = _weight(op, row)
        link = following[row]
        if (weight > 0) == (diff > 0) or not _equal(op, row, slot):
            previous = row + 1
            passed += 1
            continue
        if abs(weight) > abs(diff):
            op.weight[row] = weight + diff
            return 0
        diff += weight
        if previous == 0:
            lists[2 * key_id + 1] = link
        else:
            following[previous - 1] = link
        _drop(op, row, weight)
    if passed > MAX_PASSED:
        op.wants_lookup = 1
    return diff


@kernel
def _cancel_by_lookup(op: ArrangementBlock, key_id: int, slot: int, diff: int) -> int:
    """Cancel an update against equal rows of the other sign, which are found by their hash."""
    lookup = op.lookup
    row_hash = row_lookup.hash_of(key_id, slot, op.columns, op.stored)
    place = row_hash & lookup.mask
    while diff != 0:
        entry = lookup.table[place]
        if entry == 0:
            break
        row = (entry & 0xFFFFFFFF) - 1
        place = (place + 1) & lookup.mask
        if entry >> 32 != row_hash or row_lookup.key_id_of(lookup, row) != key_id or not _equal(op, row, slot):
            continue
        weight = _weight(op, row)
        if (weight > 0) == (diff > 0):
            continue
        if abs(weight) > abs(diff):
            op.weight[row] = weight + diff
            return 0
        diff += weight
        row_lookup.remove_row(lookup, row, row_hash)
        row_lookup.unlink(lookup, row, op.lists, op.next)
        _drop(op, row, weight)
        place = row_hash & lookup.mask  # the entries behind it have moved up
    return diff


@kernel
def _drop(op: ArrangementBlock, slot: int, weight: int) -> None:
    """Forget a row that is in no list any more."""
    op.negative_rows -= weight < 0
    _free(op, slot)
    op.live -= 1


@kernel
def build_lookup(op: ArrangementBlock, lookup: RowLookup) -> None:
    """Add all settled rows to a new lookup, whose table has room for them."""
    lists, following, mark = op.lists, op.next, op.mark
    for key_id in range(id_limit(op.keys)):
        last, link = 0, lists[2 * key_id]
        while link != 0:
            last, link = link, following[link - 1]
        older = lists[2 * key_id + 1]
        if last == 0:
            lists[2 * key_id] = older
        else:
            following[last - 1] = older
        lists[2 * key_id + 1] = 0
        previous, link = 0, lists[2 * key_id]
        while link != 0:
            if link <= mark:
                row_lookup.prepend(lookup, link - 1, key_id, following)
                row_hash = row_lookup.hash_of(key_id, link - 1, op.columns, op.stored)
                row_lookup.add_row(lookup, link - 1, row_hash)
                row_lookup.set_predecessor(lookup, link - 1, previous)
            previous, link = link, following[link - 1]
    op.lookup = lookup


@kernel
def _reverse(op: ArrangementBlock, key_id: int, last: int) -> int:
    """Append NEW, reversed, to OLD, whose last link is `last`; return the link of the first row appended."""
    lists, following = op.lists, op.next
    link, reversed_link = lists[2 * key_id], 0
    lists[2 * key_id] = 0
    while link != 0:
        after = following[link - 1]
        following[link - 1] = reversed_link
        reversed_link, link = link, after
    if last == 0:
        lists[2 * key_id + 1] = reversed_link
    else:
        following[last - 1] = reversed_link
    return reversed_link


@kernel
def _place(op: ArrangementBlock, slot: int, weight: int) -> int:
    """Turn an update into a row, in a free slot if there is one; return the slot."""
    target = slot
    if op.free != 0:
        target = op.free - 1
        op.free = op.next[target]
        for column in range(op.columns):
            stored = op.stored[column]
            stored[target] = stored[slot]
        _free(op, slot)
    if weight != 1 and op.weighted == 0:
        for other in range(op.mark + op.size):  # the slice may have placed rows behind `mark`
            op.weight[other] = 1
        op.weighted = 1
    if op.weighted != 0:
        op.weight[target] = weight
    op.live += 1
    return target


@kernel
def _free(op: ArrangementBlock, slot: int) -> None:
    """Free a slot; a slot behind `mark` waits in `holes` until the end of the rows is known."""
    if slot >= op.mark:
        holes = op.holes
        holes[0] += 1
        holes[holes[0]] = slot
        return
    op.next[slot] = op.free
    op.free = slot + 1
