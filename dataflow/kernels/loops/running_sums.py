"""Running sums of a key: the weights of its values, added up as the iterations of an epoch go by.

An evaluation of a key walks its whole list. A key with many rows that is evaluated again in the same epoch gets running
sums instead: the sums of the rows up to the iteration, in order of value, and the later rows in order of iteration. The
next evaluation adds the rows of the iterations since, and reads the least value off the sums. Rows that arrive during
an iteration belong to the next one, so rows that were added do not change any more. All running sums are dropped when
the epoch ends.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Block, Inline
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import move
from deltamark.dataflow.kernels.loops.reduce_state import (
    NEVER,
    NO_VALUE,
    LoopReduce,
    ReduceRow,
    reduce_row,
    sorted_row,
)
from deltamark.dataflow.kernels.ordered.sorting import sort_records

NEW, OLD = range(2)
"""The positions of the two weights of a value: in this epoch, and before it."""

MAX_ZEROS = 8
"""The number of zero sums that a search passes before all of them are removed. Not measured."""


class RunningSums(Block):
    """The running sums of a key."""

    head: int
    """The slot from which on the list of the key has no rows to add that are not in `pending`."""
    pending: Array
    """Pairs of an iteration and a slot: the rows of later iterations when the sums were made."""
    pending_at: int
    """The first pair whose row is not in the sums."""
    pending_end: int
    sums: Array
    """`ValueSum`s in order of value."""
    count: int
    room: int
    has_negative: int
    """Whether a row may have a negative weight, so that no value is certain."""
    had_weight: int
    """Whether a row had any weight before the epoch."""
    negative_count: int
    """The number of values whose weight is negative now."""


class ValueSum(Block):
    """The weights of a value."""

    value: int
    certain_from: int
    """The iteration, plus 1, of the first row of positive weight; 0 if there is none."""
    weights: Inline
    """The weights NEW and OLD."""


BLOCK_WORDS, SUM_WORDS = RunningSums.size_in_words, ValueSum.size_in_words + 2


@kernel
def make_sums(op: LoopReduce, first: int, iteration: int, count: int) -> int:
    """Make the running sums of a key at an iteration; return their place.

    first: the first slot of its list; count: the number of its rows up to the iteration, which are in `sorted_rows`.
    """
    place, room = _allocate(op, BLOCK_WORDS), 2 * count + 16
    sums = sums_at(op, place)
    sums.head = first
    sums.sums = op.sums[_allocate(op, SUM_WORDS * room) :]
    sums.count = 0
    sums.room = room
    sums.has_negative = 0
    sums.had_weight = 0
    sums.negative_count = 0
    rows = op.sorted_rows
    for index in range(count):
        _append(sums, rows, index)
    trace, pending, found, slot = op.trace, op.sums[op.sums_end :], 0, first
    while slot != 0:
        row = reduce_row(trace, slot)
        if row.iteration > iteration:
            pending[2 * found] = row.iteration
            pending[2 * found + 1] = slot
            found += 1
        _note_signs(sums, row.weight, row.old_weight)
        slot = row.next
    sort_records(pending, found, 2)
    sums.pending = pending
    sums.pending_at = 0
    sums.pending_end = found
    op.sums_end += 2 * found
    return place


@inline
def sums_at(op: LoopReduce, place: int) -> RunningSums:
    """Return the running sums at a place."""
    return RunningSums(op.sums[place:].address)


@inline
def _sum_at(totals: Array, index: int) -> ValueSum:
    return ValueSum(totals[SUM_WORDS * index :].address)


@kernel
def _allocate(op: LoopReduce, words: int) -> int:
    """Return the place of new words."""
    place = op.sums_end
    op.sums_end = place + words
    return place


@inline
def _note_signs(sums: RunningSums, weight: int, old_weight: int) -> None:
    if weight < 0 or old_weight < 0:
        sums.has_negative = 1
    if old_weight != 0:
        sums.had_weight = 1


@kernel
def _append(sums: RunningSums, rows: Array, index: int) -> None:
    """Add a sorted row, whose value is not less than those added before."""
    row, totals, count = sorted_row(rows, index), sums.sums, sums.count
    if count == 0 or _sum_at(totals, count - 1).value != row.value:
        _clear(_sum_at(totals, count), row.value)
        count += 1
        sums.count = count
    _increase(sums, _sum_at(totals, count - 1), row.weight, row.old_weight, row.iteration)


@inline
def _clear(total: ValueSum, value: int) -> None:
    total.value = value
    total.certain_from = 0
    total.weights[NEW] = 0
    total.weights[OLD] = 0


@inline
def _increase(sums: RunningSums, total: ValueSum, weight: int, old_weight: int, iteration: int) -> None:
    """Add the weights of a row to those of its value."""
    before, certain_from = total.weights[NEW], total.certain_from
    sums.negative_count += (before + weight < 0) - (before < 0)
    total.weights[NEW] = before + weight
    total.weights[OLD] += old_weight
    if weight > 0 and (certain_from == 0 or iteration + 1 < certain_from):
        total.certain_from = iteration + 1


@kernel
def add_until(op: LoopReduce, sums: RunningSums, first: int, stop: int) -> None:
    """Add the rows of iterations before `stop`.

    Rows that arrived after the sums were made are in front of `head`, the latest iteration first.
    """
    trace, pending, at = op.trace, sums.pending, sums.pending_at
    while at < sums.pending_end and pending[2 * at] < stop:
        _add(op, sums, reduce_row(trace, pending[2 * at + 1]))
        at += 1
    sums.pending_at = at
    slot, head = first, sums.head
    while slot != head and reduce_row(trace, slot).iteration >= stop:
        slot = reduce_row(trace, slot).next
    sums.head = slot
    while slot != head:
        row = reduce_row(trace, slot)
        _add(op, sums, row)
        slot = row.next


@kernel
def next_iteration(op: LoopReduce, sums: RunningSums, first: int) -> int:
    """Return the first iteration whose rows are not in the sums, else NEVER."""
    trace, iteration, slot = op.trace, NEVER, first
    if sums.pending_at < sums.pending_end:
        iteration = sums.pending[2 * sums.pending_at]
    while slot != sums.head:
        row = reduce_row(trace, slot)
        iteration = min(iteration, row.iteration)
        slot = row.next
    return iteration


@kernel
def _add(op: LoopReduce, sums: RunningSums, row: ReduceRow) -> None:
    """Add a row."""
    value, weight, old_weight = row.value, row.weight, row.old_weight
    _note_signs(sums, weight, old_weight)
    if weight == 0 and old_weight == 0:
        return
    totals, low, high = sums.sums, 0, sums.count
    while low < high:
        middle = (low + high) >> 1
        if _sum_at(totals, middle).value < value:
            low = middle + 1
        else:
            high = middle
    if low == sums.count or _sum_at(totals, low).value != value:
        _make_room(op, sums)
        totals = sums.sums
        total, behind = _sum_at(totals, low), _sum_at(totals, low + 1)
        move(behind.address, total.address, 8 * SUM_WORDS * (sums.count - low))
        _clear(total, value)
        sums.count += 1
    _increase(sums, _sum_at(totals, low), weight, old_weight, row.iteration)


@kernel
def _make_room(op: LoopReduce, sums: RunningSums) -> None:
    """Make room for one more sum."""
    count, room = sums.count, sums.room
    if count == room:
        target = op.sums[_allocate(op, SUM_WORDS * 2 * room) :]
        move(target.address, sums.sums.address, 8 * SUM_WORDS * count)
        sums.sums = target
        sums.room = 2 * room


@kernel
def least(sums: RunningSums, which: int, min_weight: int) -> int:
    """Return the index of the least value that has enough NEW or OLD weight, -1 if none has."""
    if which == OLD and sums.had_weight == 0:
        return -1
    totals, zeros = sums.sums, 0
    for index in range(sums.count):
        total = _sum_at(totals, index)
        if total.weights[which] >= min_weight:
            if zeros <= MAX_ZEROS:
                return index
            _remove_zeros(sums)
            return index - zeros
        zeros += total.weights[NEW] == 0 and total.weights[OLD] == 0
    if zeros > MAX_ZEROS:
        _remove_zeros(sums)
    return -1


@kernel
def _remove_zeros(sums: RunningSums) -> None:
    """Remove the values that have no weight."""
    totals, kept = sums.sums, 0
    for index in range(sums.count):
        total, target = _sum_at(totals, index), _sum_at(totals, kept)
        if total.weights[NEW] != 0 or total.weights[OLD] != 0:
            target.value = total.value
            target.certain_from = total.certain_from
            target.weights[NEW] = total.weights[NEW]
            target.weights[OLD] = total.weights[OLD]
            kept += 1
    sums.count = kept


@inline
def value_at(sums: RunningSums, index: int) -> int:
    """Return the value at an index, NO_VALUE for -1."""
    return _sum_at(sums.sums, index).value if index >= 0 else NO_VALUE


@inline
def certain_from_at(sums: RunningSums, index: int) -> int:
    """Return the iteration, plus 1, from which on the value at an index is certain, 0 for -1."""
    return _sum_at(sums.sums, index).certain_from if index >= 0 else 0


@kernel
def negative_value(sums: RunningSums) -> int:
    """Return a value whose weight is negative now, NO_VALUE if there is none."""
    if sums.negative_count == 0:
        return NO_VALUE
    totals = sums.sums
    for index in range(sums.count):
        total = _sum_at(totals, index)
        if total.weights[NEW] < 0:
            return total.value
    return NO_VALUE
