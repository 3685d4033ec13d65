"""Extenders: indexes that propose and validate the values by which rows are extended.

For the current row an extender holds the list of values that its index has under the row's key. Searches in the list go
on from the end of the last search, because values come in order.

A delta extender also sees updates of the current slice: those of times up to the row's own, or of earlier times only.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import NONE, Array, Block, Vector
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap, find
from deltamark.dataflow.kernels.motifs.index import IndexBlock, update_at
from deltamark.dataflow.kernels.ordered.sorted_lists import UNIT, ListHead, number_at, seek, weight_at


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
