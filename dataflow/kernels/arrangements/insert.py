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

MAX_RUN = 512
"""The most retractions that take a run of rows at once. Not measured."""

MAX_RUN_WALK = 8
"""The taken rows that are passed to find the first row of a run: more than an order of TPC-H has lines."""

MIN_RUN = 16
"""The retractions of a long run, and those that search after one that begins no run. Not measured, but if short runs
were sought throughout, q21 took 1.3 times as long with `update`."""

NARROW = (1 << 32) - 1
"""The bits of a value of 4 bytes."""

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
    op.retractions = count
    op.known = 0
    _store(op, 0, rows)
    _link_units(op, rows, first)
    use_slots(op, rows)
    if _take_rows(op, rows, count) > 0:
        use_slots(op, count)
        for index in range(count):
            if op.places[retractions[index]] != first + rows + index:
                free_slot(op, first + rows + index)


@kernel
def _store(op: ArrangementBlock, start: int, stop: int) -> None:
    """Store the columns of some updates of a slice of units, by their slots from `mark` on."""
    numbers = op.numbers
    for column in range(op.wide):
        source, target = op.inputs[column], op.stored[column][op.mark :]
        for slot in range(start, stop):
            target[slot] = source[numbers[slot]]
    for column in range(op.wide, op.columns):
        source, narrow = op.inputs[column], Array32(op.stored[column])[op.mark :]
        for slot in range(start, stop):
            narrow[slot] = source[numbers[slot]]


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
def _take_rows(op: ArrangementBlock, rows: int, count: int) -> int:
    """Let each retraction take a row; return the number of those that take none. rows: the number of insertions.

    Rows often leave in the order of their arrival. So runs of retractions take runs of rows, as long as most of the
    retractions are in long runs; the others search.

    Once lists are long, all later retractions are pending: none may take a row that an earlier one will cancel. If the
    arrangement has debts, a retraction that finds no row is a debt, and the lists of keys with few rows are searched.
    Once a key has had a few of either in the slice, such a retraction hides an equal row of the slice, if there is one.
    """
    retractions, ids, lists, places, left, missed = op.scratch, op.ids, op.lists, op.places, 0, 0
    searching, has_debts, first, index = True, op.has_debts != 0, op.mark + rows, 0
    while index < count:
        has_runs = searching and not has_debts and op.weighted == 0 and 2 * missed <= index + MIN_RUN
        if has_runs:
            taken = _take_run(op, index, min(index + MAX_RUN, count))
            index += taken
            if taken > 0:
                missed += taken if taken < MIN_RUN else 0
                continue
        stop = min(index + MIN_RUN, count) if has_runs else count
        missed += stop - index
        _store(op, rows + index, rows + stop)
        for number in range(index, stop):
            at = retractions[number]
            key_id, slot = ids[at], first + number
            prefetch(lists[2 * ids[retractions[min(number + FAR, count - 1)]] :].address)
            prefetch_row(op, lists[2 * ids[retractions[min(number + NEAR, count - 1)]]] - 1)
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
        index = stop
    return left


@kernel
def _take_run(op: ArrangementBlock, start: int, stop: int) -> int:
    """Let successive retractions take rows that lie in successive slots; return their number, at most those to `stop`.

    Each of these rows is the oldest one of its key, and equal to that of the retraction. All weights are 1.
    """
    retractions, ids, lists, following, last = op.scratch, op.ids, op.lists, op.next, op.retractions - 1
    first = _oldest_link(op, ids[retractions[start]]) - 1
    if first < 0 or op.mark <= first < op.limit:
        return 0
    most = min(stop - start, op.mark - first) if first < op.mark else stop - start
    count, before, link, taken = 0, -1, 0, 0
    while count < most:
        key_id, row = ids[retractions[start + count]], first + count
        prefetch(lists[2 * ids[retractions[min(start + count + FAR, last)]] :].address)
        oldest = lists[2 * key_id]
        oldest += (link - oldest) * (key_id == before)  # without a branch, because keys have few rows each
        is_known = oldest == row + 1 and following[row] >= 0 and lists[2 * key_id + 1] != 0
        if not is_known and _oldest_link(op, key_id) != row + 1:
            break
        link = following[row]
        following[row] = ~link
        before = key_id
        count += 1
    if not _are_equal(op, start, first, count):
        while _are_equal(op, start + taken, first + taken, 1):
            taken += 1
        for row in range(first + taken, first + count):
            following[row] = ~following[row]
        count = taken
    taken_by, places = op.taken_by, op.places
    for at in range(count):
        taken_by[first + at] = retractions[start + at]
        places[retractions[start + at]] = first + at
    op.passed = max(op.passed - CHEAP_PASSED * count, 0)
    return count


@kernel
def _are_equal(op: ArrangementBlock, start: int, first: int, count: int) -> bool:
    """Return whether retractions, from number `start` on, are equal to the rows in the slots from `first` on."""
    retractions, differences = op.scratch[start:], 0
    for column in range(op.wide):
        source, stored = op.inputs[column], op.stored[column][first:]
        for at in range(count):
            differences |= source[retractions[at]] ^ stored[at]
    for column in range(op.wide, op.columns):
        source, narrow = op.inputs[column], Array32(op.stored[column])[first:]
        for at in range(count):
            differences |= (source[retractions[at]] ^ narrow[at]) & NARROW
    return differences == 0


@kernel
def _oldest_link(op: ArrangementBlock, key_id: int) -> int:
    """Order the list of a key; return the link of its oldest row that is not taken, or 0 if no cheap walk finds it."""
    if op.lists[2 * key_id] == 0:
        return 0
    order(op, key_id)
    link = op.lists[2 * key_id]
    for _ in range(MAX_RUN_WALK):
        if link == 0 or op.next[link - 1] >= 0:
            return link
        link = ~op.next[link - 1]
    return 0


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
