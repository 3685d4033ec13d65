"""The join of two arrangements that already contain the updates of the slice.

A left update of the slice is paired with the right rows of times up to its own, a right update with the left rows of
earlier times. So a pair that is new on both sides is emitted once, at the time of the later update. Both sides see the
updates of earlier slices, whatever their times; neither sees those of later slices, which a log of held updates may
already contain.

The join makes two passes. The first collects the updates whose key has rows on the other side, without a branch since
most keys have none. The second merges the collected updates of both sides by time and walks the rows under their keys.
So the output is in order of time. At equal times the right updates come first: the pairs of both old states become
those of the old left and the new right state, and then those of both new ones. So no pair is retracted before it is
inserted if this holds for the rows of both sides.
"""

from __future__ import annotations

from typing import Protocol

from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock, has_rows, number_of, slot_of
from deltamark.dataflow.kernels.arrangements.lists import MIN_SKIPPED, skipped
from deltamark.dataflow.kernels.core.blocks import Array, Block, Cell, Operator, Vector
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import STEPS_PER_POLL, heed_signals, prefetch, too_wide
from deltamark.dataflow.kernels.core.steps import step, words_of
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap, find
from deltamark.dataflow.kernels.status import DONE, FAILED
from deltamark.dataflow.types import FOREVER

FAR, NEAR = 16, 8
"""The numbers of hits ahead at which the list of a key and its first row are prefetched. Not measured."""


class JoinSide(Block):
    """One side of a join: its arrangement, and the slots of its paired rows."""

    rows: ArrangementBlock
    slots: Vector
    """Output: the slots of the rows that are paired."""
    pass_number: int = 0
    """The number of the pass that reads these rows: see `ArrangementBlock.skips`."""
    hits: Array
    """Scratch: pairs of an update and the id of its key on the other side."""
    filter: Array
    """A word for each slot, whose bit `filter_bit` is set if the row passes the filter; none without a filter."""
    filter_bit: int


class JoinBlock(Operator):
    """Pairs of rows with equal keys."""

    left: JoinSide
    right: JoinSide
    size: Cell
    time: Vector
    diff: Vector
    fan_out: Cell
    overflow: int = 0
    """Set if a product of weights needs more than 64 bits."""


@kernel
def join(op: JoinBlock) -> int:
    """Pair the updates of the slice with the visible rows of equal keys."""
    left, right = op.left, op.right
    left_count, right_count = _collect_hits(left, right.rows), _collect_hits(right, left.rows)
    i = j = size = last_poll = 0
    _begin_pass(left)
    _begin_pass(right)
    while i < left_count or j < right_count:
        if size - last_poll >= STEPS_PER_POLL:
            heed_signals()
            last_poll = size
        left_time = left.rows.time[left.hits[2 * i]] if i < left_count else FOREVER
        right_time = right.rows.time[right.hits[2 * j]] if j < right_count else FOREVER
        if left_time < right_time:
            _prefetch(left, right.rows, i, left_count)
            size = _pair(op, left, right, i, left_time + 1, size)
            i += 1
        else:
            _prefetch(right, left.rows, j, right_count)
            size = _pair(op, right, left, j, right_time, size)
            j += 1
    op.size = size
    op.fan_out = max(op.fan_out, size)
    return FAILED if op.overflow != 0 else DONE


@inline
def _begin_pass(side: JoinSide) -> None:
    side.rows.passes += 1
    side.pass_number = side.rows.passes


@inline
def _prefetch(mine: JoinSide, rows: ArrangementBlock, hit: int, count: int) -> None:
    """Prefetch the lists that later hits meet, and the first rows of nearer ones."""
    prefetch(rows.lists[2 * mine.hits[2 * min(hit + FAR, count - 1) + 1] :].address)
    first = rows.lists[2 * mine.hits[2 * min(hit + NEAR, count - 1) + 1]] - 1
    prefetch(rows.next[first:].address)


class Multiplying(Protocol):
    """An operator that multiplies weights."""

    overflow: int


@inline
def product(op: Multiplying, a: int, b: int) -> int:
    """Multiply weights."""
    if too_wide(a, b) != 0:
        op.overflow = 1
    return a * b


@kernel
def _collect_hits(side: JoinSide, other: ArrangementBlock) -> int:
    """Collect the updates of a side whose key has rows on the other side; return their number."""
    mine, hits, count = side.rows, side.hits, 0
    size, key, keys, lists = mine.size, mine.key, other.keys, Array(other.lists)
    low, present = keys.low, other.present
    if present.address != 0:
        for at in range(size):
            place = key[at] - low
            hits[2 * count] = at
            hits[2 * count + 1] = place
            count += present[place >> 6] >> (place & 63) & 1
        if keys.hashed != 0:
            count = _find_hits(hits, count, keys)
    elif keys.hashed == 0 and other.has_pending != 0:
        for at in range(size):
            key_id = key[at] - low
            hits[2 * count] = at
            hits[2 * count + 1] = key_id
            count += has_rows(other, key_id)
    elif keys.hashed == 0:
        for at in range(size):
            key_id = key[at] - low
            hits[2 * count] = at
            hits[2 * count + 1] = key_id
            count += lists[key_id] != 0
    else:
        key_id = -1
        for at in range(size):
            if at == 0 or key[at] != key[at - 1]:
                key_id = find(keys, key[at])
            hits[2 * count] = at
            hits[2 * count + 1] = key_id
            count += key_id >= 0
    return count if side.filter.address == 0 else _keep_filtered(side, count)


@kernel
def _find_hits(hits: Array, count: int, keys: KeyMap) -> int:
    """Replace the place of each hit's key in the range of all keys by its id; return the number of keys with one."""
    kept = 0
    for index in range(count):
        hits[2 * kept] = hits[2 * index]
        key_id = find(keys, hits[2 * index + 1] + keys.low)
        hits[2 * kept + 1] = key_id
        kept += key_id >= 0
    return kept


@kernel
def _keep_filtered(side: JoinSide, count: int) -> int:
    """Keep the hits whose rows pass the filter; return their number."""
    hits, kept = side.hits, 0
    for index in range(count):
        at = hits[2 * index]
        hits[2 * kept] = at
        hits[2 * kept + 1] = hits[2 * index + 1]
        kept += side.filter[slot_of(side.rows, at)] >> side.filter_bit & 1
    return kept


@kernel
def _pair(op: JoinBlock, mine: JoinSide, theirs: JoinSide, hit: int, end_time: int, size: int) -> int:
    """Pair an update with the rows of the other side, those of the slice up to `end_time`; return the output's size."""
    update, key_id = mine.hits[2 * hit], mine.hits[2 * hit + 1]
    time, diff = mine.rows.time[update], mine.rows.diff[update]
    slot = slot_of(mine.rows, update)
    out_time, out_diff, out_mine, out_theirs = op.time, op.diff, mine.slots, theirs.slots
    rows = theirs.rows
    mark, limit = rows.mark, rows.limit
    following, weights, weighted = rows.next, rows.weight, rows.weighted != 0
    taken_by, times, diffs, first = rows.taken_by, rows.visible_time, rows.visible_diff, rows.first
    end = first + rows.size
    passes, bit = theirs.filter, theirs.filter_bit
    filtered = passes.address != 0
    pass_number, start = theirs.pass_number, 0
    for which in range(1 + (rows.has_pending != 0)):
        link = rows.lists[2 * key_id] if which == 0 else rows.pending[key_id]
        is_ordered, taken = which == 0 and rows.has_new_debts == 0 and rows.lists[2 * key_id + 1] != 0, 0
        while link != 0:
            row = link - 1
            link = following[row]
            if link < 0:
                link = ~link
                if times[taken_by[row]] < end_time:
                    taken += 1
                    if taken == MIN_SKIPPED:
                        start, noted = row, skipped(rows, pass_number, row)
                        link = noted if noted >= 0 else link
                    continue
            if taken > MIN_SKIPPED:
                rows.skips[start] = pass_number << 32 | (row + 1)
            taken = 0
            if filtered and passes[row] >> bit & 1 == 0:
                continue
            weight = diff
            if mark <= row < limit:  # skip updates of this slice at or after `end_time`, and those of later slices
                other = number_of(rows, row)
                if other >= first and (other >= end or times[other] >= end_time):
                    if is_ordered:
                        break
                    continue
                weight = product(op, diff, diffs[other])
            elif weighted:
                weight = product(op, diff, weights[row])
            out_time[size] = time
            out_diff[size] = weight
            out_mine[size] = slot
            out_theirs[size] = row
            size += 1
    return size


def _idle(op: JoinBlock) -> tuple[int, ...]:
    return words_of(op.left.rows, "size") + words_of(op.right.rows, "size") + words_of(op, "size")


JOIN = step(join, idle=_idle)
