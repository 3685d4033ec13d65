"""Extend: the operator that extends the rows of a slice by a column.

The index with the fewest values proposes, and the others validate; so the work follows the smallest set of values,
however large the others are. Plain lists are intersected instead, a whole list at a time.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Array32
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import prefetch, wraps
from deltamark.dataflow.kernels.motifs.extender import (
    DeltaExtender,
    close_list,
    id_in,
    is_plain,
    open_list,
    size_of,
    update_count,
)
from deltamark.dataflow.kernels.motifs.extension import (
    FEWEST,
    LISTED,
    MEASURED,
    ExtendBlock,
    complete,
    emit,
    extender_at,
    propose,
    propose_updates,
    validate,
)
from deltamark.dataflow.kernels.ordered.intersection import intersect
from deltamark.dataflow.kernels.ordered.sorted_lists import UNIT, ListHead, head_of, number_at, seek
from deltamark.dataflow.kernels.status import DONE, FAILED
from deltamark.dataflow.types import FOREVER

AHEAD_ROWS = 8
"""The distance of prefetching, once from heads to lists and once from lists to rows. Not measured."""

MIN_NUMBERS_PER_UPDATE = 4
"""Settled lists are intersected apart from the updates of the slice if the shorter list has at least this many numbers
for each update. Not measured."""


@kernel
def extend(op: ExtendBlock) -> int:
    """Extend the rows of the slice."""
    count, extenders, size = op.extender_count, op.extenders, op.size
    is_bound, by_fewest, mode, out = op.is_bound != 0, op.proposer == FEWEST, op.mode, 0
    for which in range(count):
        _refer_to_pool(extender_at(extenders, which))
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


@inline
def _refer_to_pool(extender: DeltaExtender) -> None:
    """Copy the fields of the index that are equal for all rows of a slice."""
    extender.pool = extender.index.pool
    extender.width = extender.index.width


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
    start, size, other_size = mine.at, size_of(mine), size_of(other)
    values, low = op.out_value[out:], mine.index.low
    found = intersect(_list_of(mine), size, _list_of(other), other_size, low, values)
    op.proposals += size + update_count(mine) + update_count(other)
    out = complete(op, row, out, out + found)
    if update_count(mine) > 0:
        out = propose_updates(op, row, mine, other, which, out)
    if update_count(other) > 0:
        mine.update_at = mine.update_stop  # pairs of updates are complete
        mine.at = start
        out = propose_updates(op, row, other, mine, 1 - which, out)
    return out


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
