"""Extend: the operator that extends the rows of a slice by a column.

The index with the fewest values proposes, and the others validate; so the work follows the smallest set of values,
however large the others are. Plain lists are intersected instead, a whole list at a time.

Extenders: indexes that propose and validate the values by which rows are extended.

For the current row an extender holds the list of values that its index has under the row's key. Searches in the list go
on from the end of the last search, because values come in order.

A delta extender also sees updates of the current slice: those of times up to the row's own, or of earlier times only.

Extension of rows by a column: by each value that all of several indexes have under the row's key.

One index proposes values, and the others validate each of them: proposals are not stored. The multiplicity of an output
row is the product of that of the row and of those that the indexes have.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import NONE, Array, Array32, Block, Cell, Operator, Vector
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import prefetch, too_wide, wraps
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap, find
from deltamark.dataflow.kernels.motifs.index import IndexBlock, update_at
from deltamark.dataflow.kernels.ordered.sorted_lists import (
    UNIT,
    ListHead,
    head_of,
    intersect,
    number_at,
    seek,
    weight_at,
)
from deltamark.dataflow.kernels.status import DONE, FAILED
from deltamark.dataflow.types import FOREVER


class Extender(Block):
    """An index, and the rest of the list of the current row's key."""

    index: IndexBlock
    pool: Array = NONE
    width: int = 0
    """As in the index."""
    at: int = 0
    stop: int = 0


class DeltaExtender(Extender):
    """An extender of the rows of a slice, which sees updates of the slice."""

    key: Vector
    """The keys of the rows."""
    sees_old: int
    """Whether it sees only updates of earlier times than a row's."""
    update_at: int = 0
    update_stop: int = 0
    """The rest of the updates of the current row's key."""
    before: int = 0
    """The time before which updates are seen."""
    last: int = -1
    """The first place of the list of the row before."""


@inline
def id_in(keys: KeyMap, key: int) -> int:
    """Return the id of a key, negative if a hashed map does not have it."""
    return find(keys, key) if keys.hashed != 0 else key - keys.low


@inline
def is_plain(extender: Extender) -> bool:
    """Return whether all settled rows have the multiplicity 1."""
    return extender.index.weighted == 0


@inline
def size_of(extender: Extender) -> int:
    """Return the size of the rest of the list."""
    return extender.stop - extender.at


@inline
def settled_weight(extender: Extender, value: int) -> int:
    """Return the multiplicity of a value in the list, and move on to its place."""
    index, pool, width, stop = extender.index, extender.pool, extender.width, extender.stop
    number = value - index.low
    place = seek(pool, width, extender.at, stop, number)
    extender.at = place
    return weight_at(index, place) if place < stop and number_at(pool, width, place) == number else 0


@inline
def open_list(extender: DeltaExtender, index: IndexBlock, head: ListHead, before: int) -> int:
    """Go to the rows of a key that are visible before a time; return an upper bound of their number."""
    start, count, first = head.start * UNIT, head.count, head.first_update - 1
    if first >= 0 and index.one_time != 0 and update_at(index.updates, first).time >= before:
        first = -1
    stop = update_at(index.updates, first).stop if first >= 0 else -1
    extender.at = start
    extender.stop = start + count
    extender.update_at = first
    extender.update_stop = stop
    extender.before = before
    return count + stop - first


@inline
def close_list(extender: DeltaExtender) -> None:
    """Go to an empty list, without updates."""
    extender.stop = extender.at
    extender.update_at = -1
    extender.update_stop = -1


@inline
def update_count(extender: DeltaExtender) -> int:
    """Return the number of updates of the current row's key that are left."""
    return extender.update_stop - extender.update_at


@kernel
def visible_weight(extender: DeltaExtender, value: int) -> int:
    """Return the multiplicity of a value, settled and of visible updates, and move on to its place."""
    weight = settled_weight(extender, value)
    update, stop = extender.update_at, extender.update_stop
    if update < stop:
        index = extender.index
        updates, number, before = index.updates, value - index.low, extender.before
        update = _seek_update(updates, update, stop, number)
        while update < stop and update_at(updates, update).number == number:
            if update_at(updates, update).time < before:
                weight += update_at(updates, update).diff
            update += 1
        extender.update_at = update
    return weight


@kernel
def _seek_update(updates: Array, start: int, stop: int, number: int) -> int:
    """Return the first update whose number is not less, by galloping and then binary search."""
    if start >= stop or update_at(updates, start).number >= number:
        return start
    step, low = 1, start
    while low + step < stop and update_at(updates, low + step).number < number:
        low += step
        step += step
    high = min(low + step, stop)
    while high - low > 1:
        middle = (low + high) >> 1
        if update_at(updates, middle).number < number:
            low = middle
        else:
            high = middle
    return high


LISTED, SUMMED, MEASURED = range(3)
"""Modes: an output row for each value of a row; one output row with the sum of their multiplicities, if the values are
not read; or one output row with an upper bound of the number of values of the only index."""

FEWEST = -1
"""The proposer, if it is the index with the fewest values."""


class ExtendBlock(Operator):
    """The extension of the rows of a slice."""

    size: Cell
    time: Vector
    diff: Vector
    extender_count: int
    extenders: Array
    """A `DeltaExtender` for each index."""
    is_bound: int
    bound: Vector = NONE
    """The values of the column, if it has values already."""
    proposer: int
    """The number of the extender that proposes, or FEWEST."""
    mode: int
    out_size: Cell
    out_time: Vector
    out_diff: Vector
    out_row: Vector
    """The rows that are extended."""
    out_value: Vector
    fan_out: Cell
    """The most rows that such an operator has written in this slice; see `interpreter`."""
    overflow: int = 0
    """Set, and returned as the status, if a product or a sum of weights needs more than 64 bits."""
    proposals: int = 0
    extended: int = 0
    """The total number of output rows."""


EXTENDER_WORDS = DeltaExtender.size_in_words


@inline
def extender_at(extenders: Array, which: int) -> DeltaExtender:
    """Return an extender by its number."""
    return DeltaExtender(extenders[EXTENDER_WORDS * which :].address)


@inline
def product(op: ExtendBlock, a: int, b: int) -> int:
    """Multiply weights."""
    if too_wide(a, b) != 0:
        op.overflow = 1
    return a * b


@inline
def emit(op: ExtendBlock, row: int, value: int, weight: int, out: int) -> int:
    """Write an output row; return the new size of the output."""
    op.out_time[out] = op.time[row]
    op.out_diff[out] = weight
    op.out_row[out] = row
    op.out_value[out] = value
    return out + 1


@kernel
def complete(op: ExtendBlock, row: int, start: int, stop: int) -> int:
    """Complete output rows whose values are written; return the new size of the output."""
    time, diff = op.time[row], op.diff[row]
    if op.mode != LISTED:
        diff, stop = product(op, diff, stop - start), min(stop, start + 1)
    times, diffs, rows = op.out_time, op.out_diff, op.out_row
    for at in range(start, stop):
        times[at] = time
        diffs[at] = diff
        rows[at] = row
    return stop


@kernel
def propose_updates(op: ExtendBlock, row: int, mine: DeltaExtender, other: DeltaExtender, which: int, out: int) -> int:
    """Extend a row by the visible updates of extender `which`, `mine`, whose values the other extender has."""
    updates, low, before, others = mine.index.updates, mine.index.low, mine.before, other.update_at
    for at in range(mine.update_at, mine.update_stop):
        update = update_at(updates, at)
        if update.time < before:
            other.update_at = others  # the same value may come again
            out = validate(op, row, update.number + low, update.diff, which, out)
    other.update_at = others
    return out


@kernel
def propose(op: ExtendBlock, row: int, which: int, out: int) -> int:
    """Extend a row by the values that an extender proposes and all others have, whatever their weights and updates."""
    extender = extender_at(op.extenders, which)
    index, pool, width = extender.index, extender.pool, extender.width
    at, stop, update, update_stop = extender.at, extender.stop, extender.update_at, extender.update_stop
    low, updates, before, weights = index.low, index.updates, extender.before, index.weights
    weighted, proposals = index.weighted != 0, 0
    while at < stop or update < update_stop:
        settled = number_at(pool, width, at) if at < stop else FOREVER
        number = min(settled, update_at(updates, update).number) if update < update_stop else settled
        weight = 0
        if settled == number:
            weight = weights[at] if weighted else 1
            at += 1
        while update < update_stop and update_at(updates, update).number == number:
            if update_at(updates, update).time < before:
                weight += update_at(updates, update).diff
            update += 1
        if weight != 0:
            proposals += 1
            out = validate(op, row, number + low, weight, which, out)
    op.proposals += proposals
    return out


@kernel
def validate(op: ExtendBlock, row: int, value: int, weight: int, proposer: int, out: int) -> int:
    """Extend a row by a value if all extenders but the proposer have it; return the new size of the output."""
    weight, extenders = product(op, weight, op.diff[row]), op.extenders
    for which in range(op.extender_count):
        if which != proposer:
            multiplicity = visible_weight(extender_at(extenders, which), value)
            if multiplicity == 0:
                return out
            weight = product(op, weight, multiplicity)
    return emit(op, row, value, weight, out)


AHEAD_ROWS = 8
"""The distance of prefetching, once from heads to lists and once from lists to rows. Not measured."""

MIN_NUMBERS_PER_UPDATE = 4
"""Settled lists are intersected apart from the updates of the slice if the shorter list has at least this many numbers
for each update. Not measured."""


@kernel
def extend(op: ExtendBlock) -> int:
    """Extend the rows of the slice."""
    count, extenders = op.extender_count, op.extenders
    is_bound, by_fewest, mode, out = op.is_bound != 0, op.proposer == FEWEST, op.mode, 0
    size = 0 if _are_old_rows_missing(extenders, count) else op.size
    for which in range(count):
        _begin_slice(extender_at(extenders, which))
    for row in range(size):
        if row + 2 * AHEAD_ROWS < size:
            _prefetch(op, row)
        least, before = _open_lists(op, row), out
        if least < 0:
            continue
        if mode == MEASURED:
            out = _measure(op, row, extender_at(extenders, 0), out)
        elif is_bound:
            out = validate(op, row, op.bound[row], 1, count, out)
        elif count == 1 and is_plain(extender_at(extenders, 0)) and update_count(extender_at(extenders, 0)) == 0:
            out = _copy(op, row, extender_at(extenders, 0), out)
        elif count == 2 and by_fewest and _can_intersect_two(extender_at(extenders, 0), extender_at(extenders, 1)):
            out = _intersect_two(op, row, extender_at(extenders, least), extender_at(extenders, 1 - least), least, out)
        elif count > 2 and by_fewest and _can_intersect_all(extenders, count):
            out = _intersect_all(op, row, least, out)
        else:
            out = propose(op, row, least, out)
        if mode != LISTED and out > before + 1:
            out = _sum(op, before, out)
    op.out_size = out
    op.extended += out
    op.fan_out = max(op.fan_out, out)
    return FAILED if op.overflow != 0 else DONE


@kernel
def _are_old_rows_missing(extenders: Array, count: int) -> bool:
    """Return whether an extender sees only earlier times than the slice's, and its index has none of their rows."""
    missing = False
    for which in range(count):
        extender = extender_at(extenders, which)
        missing |= extender.sees_old != 0 and extender.index.loaded != 0
    return missing


@inline
def _begin_slice(extender: DeltaExtender) -> None:
    """Copy the fields of the index that are equal for all rows of a slice, and forget lists that may have moved."""
    index = extender.index
    extender.pool = index.pool
    extender.width = index.width
    extender.last = -1
    index.stamped = -1


@kernel
def _prefetch(op: ExtendBlock, row: int) -> None:
    """Prefetch the list heads of rows far ahead, and the beginnings of the lists of nearer ones."""
    for which in range(op.extender_count):
        extender = extender_at(op.extenders, which)
        index, key = extender.index, extender.key
        keys = index.keys
        if keys.hashed == 0:
            heads, low = index.heads, keys.low
            prefetch(heads[2 * (key[row + 2 * AHEAD_ROWS] - low) :].address)
            start = ListHead(heads[2 * (key[row + AHEAD_ROWS] - low) :].address).start
            for line in range(4):
                prefetch(extender.pool.address + extender.width * UNIT * start + 64 * line)


@kernel
def _open_lists(op: ExtendBlock, row: int) -> int:
    """Open the lists of a row's keys; return the number of the proposer, or -1 if no value can be in all of them."""
    time, extenders, proposer = op.time[row], op.extenders, op.proposer
    least, fewest = 0, FOREVER
    for which in range(op.extender_count):
        extender = extender_at(extenders, which)
        index = extender.index
        key_id = id_in(index.keys, extender.key[row])
        count = open_list(extender, index, head_of(index, key_id), time + 1 - extender.sees_old) if key_id >= 0 else 0
        if count == 0:
            if proposer in (FEWEST, which):
                return -1
            close_list(extender)
        if count < fewest:
            least, fewest = which, count
    return least if proposer == FEWEST else proposer


@inline
def _can_intersect_two(a: DeltaExtender, b: DeltaExtender) -> bool:
    """Return whether two lists are plain and of equal numbers for equal values, with few updates."""
    is_narrow = a.width == 4 and b.width == 4
    few = MIN_NUMBERS_PER_UPDATE * (update_count(a) + update_count(b)) <= min(size_of(a), size_of(b))
    return few and a.index.low == b.index.low and is_narrow and is_plain(a) and is_plain(b)


@kernel
def _can_intersect_all(extenders: Array, count: int) -> bool:
    """Return whether lists are plain and of equal numbers for equal values, without updates."""
    can, low = True, extender_at(extenders, 0).index.low
    for which in range(count):
        extender = extender_at(extenders, which)
        can &= extender.width == 4 and is_plain(extender) and update_count(extender) == 0
        can &= extender.index.low == low
    return can


@inline
def _measure(op: ExtendBlock, row: int, extender: DeltaExtender, out: int) -> int:
    """Extend a row by an upper bound of the number of its values."""
    return emit(op, row, size_of(extender) + update_count(extender), op.diff[row], out)


@kernel
def _copy(op: ExtendBlock, row: int, extender: DeltaExtender, out: int) -> int:
    """Extend a row by all values of a list."""
    pool, width, low, start = extender.pool, extender.width, extender.index.low, extender.at
    values, count = op.out_value, extender.stop - start
    if op.mode == LISTED:
        for at in range(count):
            values[out + at] = number_at(pool, width, start + at) + low
        op.proposals += count
    return complete(op, row, out, out + count)


@kernel
def _sum(op: ExtendBlock, start: int, stop: int) -> int:
    """Add the weights of a row's output rows to the first of them; return the new size of the output."""
    diffs = op.out_diff
    total = diffs[start]
    for at in range(start + 1, stop):
        if wraps(total, diffs[at]) < 0:
            op.overflow = 1
        total += diffs[at]
    diffs[start] = total
    return start + (total != 0)


@inline
def _list_of(extender: DeltaExtender) -> Array32:
    """Return the rest of a list of 4-byte numbers."""
    return Array32(extender.pool)[extender.at :]


@kernel
def _intersect_two(op: ExtendBlock, row: int, mine: DeltaExtender, other: DeltaExtender, which: int, out: int) -> int:
    """Extend a row by the values of two lists and of their updates. which: the number of `mine`."""
    start, size = mine.at, size_of(mine)
    found = _common(op, mine, other, out)
    op.proposals += size + update_count(mine) + update_count(other)
    out = complete(op, row, out, out + found)
    if update_count(mine) > 0:
        out = propose_updates(op, row, mine, other, which, out)
    if update_count(other) > 0:
        mine.update_at = mine.update_stop  # pairs of updates are complete
        mine.at = start
        out = propose_updates(op, row, other, mine, 1 - which, out)
    return out


MAX_SCAN_RATIO = 8
"""A list that is more than MAX_SCAN_RATIO times longer than the stamped one is not scanned. Not measured."""


@kernel
def _common(op: ExtendBlock, a: DeltaExtender, b: DeltaExtender, out: int) -> int:
    """Write the values of two lists; return their number.

    If a list is also that of the row before, its numbers are marked with a stamp, and the other list is scanned.
    """
    a_size, b_size = size_of(a), size_of(b)
    a_stays, b_stays = a.last == a.at, b.last == b.at
    a.last = a.at
    b.last = b.at
    if a.index.stamps.address != 0 and b_size <= MAX_SCAN_RATIO * a_size and (a_stays or a.index.stamped == a.at):
        return _scan(op, a, b, out)
    if b.index.stamps.address != 0 and a_size <= MAX_SCAN_RATIO * b_size and (b_stays or b.index.stamped == b.at):
        return _scan(op, b, a, out)
    return intersect(_list_of(a), a_size, _list_of(b), b_size, a.index.low, op.out_value[out:])


@kernel
def _scan(op: ExtendBlock, stamped: DeltaExtender, scanned: DeltaExtender, out: int) -> int:
    """Write the values of a scanned list that have the stamp of another one, unless only their number is read."""
    index, found = stamped.index, 0
    stamps, stamp, numbers = index.stamps, index.stamp, _list_of(scanned)
    if index.stamped != stamped.at:
        stamp += 1
        marked = _list_of(stamped)
        for at in range(size_of(stamped)):
            stamps[marked[at]] = stamp
        index.stamp = stamp
        index.stamped = stamped.at
    if op.mode != LISTED:
        for at in range(size_of(scanned)):
            found += stamps[numbers[at]] == stamp
        return found
    values, low = op.out_value[out:], index.low
    for at in range(size_of(scanned)):
        values[found] = numbers[at] + low
        found += stamps[numbers[at]] == stamp
    return found


@kernel
def _intersect_all(op: ExtendBlock, row: int, least: int, out: int) -> int:
    """Extend a row by the values of more than two lists: intersect two, and look the result up in the others."""
    extenders, values, second = op.extenders, op.out_value[out:], 1 if least == 0 else 0
    mine, other = extender_at(extenders, least), extender_at(extenders, second)
    size, low = size_of(mine), mine.index.low
    found = intersect(_list_of(mine), size, _list_of(other), size_of(other), low, values)
    op.proposals += size
    for which in range(op.extender_count):
        if which not in (least, second):
            extender, kept = extender_at(extenders, which), 0
            pool, place, stop = extender.pool, extender.at, extender.stop
            for at in range(found):
                value = values[at]
                place = seek(pool, 4, place, stop, value - low)
                if place == stop:
                    break
                values[kept] = value
                kept += Array32(pool)[place] == value - low
            found = kept
    return complete(op, row, out, out + found)


EXTEND = step(extend)
