"""All pairs of rows that two arrangements have under equal keys, or all rows of one arrangement, in pieces.

The pairs are those that a join from the beginning on would have emitted up to a time. Until all pairs have been
written, the arrangements may change only by later updates that are not settled. A cursor keeps the position, which may
lie within a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock, has_rows
from deltamark.dataflow.kernels.arrangements.join import JoinBlock, JoinSide, product
from deltamark.dataflow.kernels.core.blocks import NONE, Array, Block, Vector
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.memory import Memory, view
from deltamark.dataflow.kernels.hashing.hash_map import find, id_limit, key_of

KEYS_PER_PAIR, MIN_KEYS = 8, 1 << 15
"""The number of keys that a call visits: at most KEYS_PER_PAIR for each pair that it may write, and MIN_KEYS in any
case, because many keys have no rows. Not measured."""


class CursorSide(Block):
    """The position within the rows of a key on one side."""

    rows: ArrangementBlock
    in_pending: int = 0
    """Whether the row is a pending update."""
    link: int = 0
    """The current row: its slot, plus 1; 0 before the first row of a key and after the last."""
    filter: Array = NONE
    """As in `JoinSide`."""
    filter_bit: int = 0
    output: Vector = NONE
    """The slots of the rows in the output."""


class Cursor(Block):
    """The position within all keys of the driver, whose rows are paired with those of the other side."""

    driver: CursorSide
    other: CursorSide
    key_id: int = 0
    time: int
    """The time as of which rows are read."""


def position(side: JoinSide) -> list[int]:
    """Return the words of the position before the rows that a side of a join reads."""
    words = side.as_words
    return CursorSide.words(rows=words.rows, output=words.slots, filter=words.filter, filter_bit=words.filter_bit)


@contextmanager
def cursor_over(memory: Memory, time: int, driver: list[int], other: Sequence[int] = ()) -> Iterator[Cursor]:
    """Make a cursor from positions, for as long as the context is open."""
    with memory.borrowed(Cursor.size_in_words + 2 * CursorSide.size_in_words) as address:
        sides = address + 8 * Cursor.size_in_words
        others = sides + 8 * CursorSide.size_in_words
        words = [*Cursor.words(driver=sides, other=others, time=time), *driver, *other]
        view(address, len(words))[:] = words
        yield Cursor(address)


@kernel
def pairs(op: JoinBlock, cursor: Cursor, limit: int) -> bool:
    """Write the next pairs, at most `limit`, to the output of a join; return whether these were the last."""
    driver, other = cursor.driver, cursor.other
    size, key_id, last = 0, cursor.key_id, id_limit(driver.rows.keys)
    stop = min(last, key_id + max(KEYS_PER_PAIR * limit, MIN_KEYS))
    while key_id < stop and size < limit:
        other_id = _id_with_rows(other.rows, key_of(driver.rows.keys, key_id))
        if has_rows(driver.rows, key_id) and other_id >= 0:
            if driver.link == 0:
                _begin(driver, key_id, cursor.time)
                _begin(other, other_id, cursor.time)
            while driver.link != 0 and size < limit:
                while other.link != 0 and size < limit:
                    _emit(op, cursor, size)
                    size += 1
                    _advance(other, other_id, cursor.time)
                if other.link == 0:
                    _advance(driver, key_id, cursor.time)
                    _begin(other, other_id, cursor.time)
        if driver.link == 0:
            key_id += 1
    cursor.key_id = key_id
    op.size = size
    return key_id == last


@kernel
def _id_with_rows(rows: ArrangementBlock, key: int) -> int:
    """Return the id of a key that has rows, else -1."""
    keys = rows.keys
    if keys.hashed != 0:
        return find(keys, key)
    if not keys.low <= key <= keys.high:
        return -1
    return key - keys.low if has_rows(rows, key - keys.low) else -1


@kernel
def _begin(side: CursorSide, key_id: int, time: int) -> None:
    """Go to the first visible row of a key that has rows, or to link 0."""
    first = side.rows.lists[2 * key_id]
    side.in_pending = first == 0
    side.link = first if first != 0 else side.rows.pending[key_id]
    if _is_hidden(side, side.link, time):
        _advance(side, key_id, time)


@kernel
def _advance(side: CursorSide, key_id: int, time: int) -> None:
    """Go to the next visible row of a key, or to link 0."""
    link = side.link
    while True:
        link = side.rows.next[link - 1]
        if link == 0 and side.in_pending == 0:
            side.in_pending = 1
            link = side.rows.pending[key_id]
        if not _is_hidden(side, link, time):
            break
    side.link = link


@inline
def _is_hidden(side: CursorSide, link: int, time: int) -> bool:
    """Return whether a row is an update after the time of the cursor, or fails the filter."""
    mark = side.rows.mark
    if mark < link <= side.rows.limit and side.rows.visible_time[link - 1 - mark] > time:
        return True
    return link != 0 and side.filter.address != 0 and side.filter[link - 1] >> side.filter_bit & 1 == 0


@kernel
def _weight(rows: ArrangementBlock, slot: int) -> int:
    if rows.mark <= slot < rows.limit:
        return rows.visible_diff[slot - rows.mark]
    return rows.weight[slot] if rows.weighted != 0 else 1


@kernel
def _emit(op: JoinBlock, cursor: Cursor, at: int) -> None:
    """Write the current pair."""
    driver, other = cursor.driver, cursor.other
    slot, other_slot = driver.link - 1, other.link - 1
    op.time[at] = cursor.time
    op.diff[at] = product(op, _weight(driver.rows, slot), _weight(other.rows, other_slot))
    driver.output[at] = slot
    other.output[at] = other_slot


@kernel
def rows(cursor: Cursor, limit: int, slots: Array, keys: Array, weights: Array) -> int:
    """Write the next rows of the driver, at most `limit`; return their number, which is 0 only at the end."""
    driver, size = cursor.driver, 0
    block, last = driver.rows, id_limit(driver.rows.keys)
    while cursor.key_id < last and size < limit:
        key_id = cursor.key_id
        if driver.link == 0 and has_rows(block, key_id):
            _begin(driver, key_id, cursor.time)
        while driver.link != 0 and size < limit:
            slot = driver.link - 1
            slots[size] = slot
            keys[size] = key_of(block.keys, key_id)
            weights[size] = _weight(block, slot)
            size += 1
            _advance(driver, key_id, cursor.time)
        if driver.link == 0:
            cursor.key_id = key_id + 1
    return size
