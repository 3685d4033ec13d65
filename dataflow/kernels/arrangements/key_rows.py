"""The rows that an arrangement has under one key as of a time, consolidated: each has a weight of its own.

An arrangement with debts, or with updates that are not settled, has rows beside the updates that cancel them. A reader
that gets them in several parts must never see such an update without its row, nor more rows than there are. So equal
rows are merged before the reader gets the first of them, unless no update is negative.

A key may have most rows of the arrangement. So each call does a limited number of steps, and a later call continues.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock
from deltamark.dataflow.kernels.arrangements.lists import equal, hash_of
from deltamark.dataflow.kernels.core.blocks import NONE, Array, Block
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import wraps

NO_KEY, LISTED, UPDATES, MERGING, DROPPING, COMPLETE = range(6)
"""The phases of a key: the rows of its list are collected, then its pending updates; equal rows are merged, then those
without weight are dropped."""


class KeyRows(Block):
    """The rows under a key, or those that are collected so far."""

    rows: ArrangementBlock
    filter: Array = NONE
    """As in `JoinSide`."""
    filter_bit: int = 0
    slots: Array
    weights: Array
    """The slot and the weight of each row."""
    count: int = 0
    """The number of rows."""
    phase: int = NO_KEY
    link: int = 0
    """The next row to be collected: its slot, plus 1."""
    has_negative: int = 0
    merged: int = 0
    """The number of rows after equal ones were merged."""
    at: int = 0
    """The next row to be merged or dropped, or to be read once the key is complete."""
    table: Array
    """Entries of a stamp and, in the low 32 bits, the number of a row. Entries with other stamps are empty."""
    stamp: int = 0
    mask: int = 0
    """The number of entries for this key, less one."""


@kernel
def collect(found: KeyRows, key_id: int, time: int, steps: int) -> int:
    """Continue to collect the rows of a key as of a time; return the number of steps that are left.

    The last key must have been complete and forgotten, or be the same.
    """
    rows = found.rows
    if found.phase == NO_KEY:
        found.phase = LISTED
        found.link = rows.lists[2 * key_id]
        found.count = found.has_negative = 0
    while found.phase <= UPDATES and steps > 0:
        link = found.link
        if link != 0:
            _add(found, link - 1, time)
            found.link = rows.next[link - 1]
            steps -= 1
        elif found.phase == LISTED:
            found.phase = UPDATES
            found.link = rows.pending[key_id] if rows.has_pending != 0 else 0
        else:
            _begin_merging(found)
    while found.phase == MERGING and steps > 0:
        _merge_next(found)
        steps -= 1
    while found.phase == DROPPING and steps > 0:
        _drop_next(found)
        steps -= 1
    return steps


@inline
def forget(found: KeyRows) -> None:
    """Forget the rows, so that those of another key can be collected."""
    found.phase = NO_KEY


@kernel
def _add(found: KeyRows, slot: int, time: int) -> None:
    """Add a row, unless it is an update after a time, or fails the filter."""
    rows, count = found.rows, found.count
    weight = rows.weight[slot] if rows.weighted != 0 else 1
    if rows.mark <= slot < rows.limit:
        if rows.visible_time[slot - rows.mark] > time:
            return
        weight = rows.visible_diff[slot - rows.mark]
    if found.filter.address != 0 and found.filter[slot] >> found.filter_bit & 1 == 0:
        return
    found.slots[count] = slot
    found.weights[count] = weight
    found.count = count + 1
    found.has_negative |= weight < 0


@kernel
def _begin_merging(found: KeyRows) -> None:
    """Begin to merge equal rows, if any of them can cancel another."""
    found.at = 0
    found.phase = COMPLETE
    if found.has_negative == 0:
        return
    found.phase = MERGING
    found.stamp += 1
    size = 1
    while size < 2 * found.count:
        size *= 2
    found.mask = size - 1
    found.merged = 0


@kernel
def _merge_next(found: KeyRows) -> None:
    """Merge a row with an equal one before it."""
    slots, weights, table, stamp, merged = found.slots, found.weights, found.table, found.stamp, found.merged
    slot, weight = slots[found.at], weights[found.at]
    place, is_new = hash_of(found.rows, slot) & found.mask, True
    while is_new and table[place] >> 32 == stamp:
        other = table[place] & 0xFFFFFFFF
        if wraps(weights[other], weight) >= 0 and equal(found.rows, slots[other], slot):
            weights[other] += weight
            is_new = False
        place = (place + 1) & found.mask
    if is_new:
        table[place] = stamp << 32 | merged
        slots[merged] = slot
        weights[merged] = weight
        found.merged = merged + 1
    found.at += 1
    if found.at == found.count:
        found.at, found.count, found.phase = 0, 0, DROPPING


@kernel
def _drop_next(found: KeyRows) -> None:
    """Drop a merged row if it has no weight."""
    slots, weights, at, count = found.slots, found.weights, found.at, found.count
    slots[count] = slots[at]
    weights[count] = weights[at]
    found.count += weights[at] != 0
    found.at += 1
    if found.at == found.merged:
        found.at, found.phase = 0, COMPLETE
