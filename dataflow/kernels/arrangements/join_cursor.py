"""All pairs of rows that two arrangements have under equal keys, or all rows of one arrangement, in pieces.

The pairs are those that a join from the beginning on would have emitted up to a time, consolidated: see `key_rows`.
Until all pairs have been written, the arrangements may change only by later updates that are not settled. A cursor
keeps the position, which may lie within a key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock, has_rows
from deltamark.dataflow.kernels.arrangements.join import JoinBlock, JoinSide, product
from deltamark.dataflow.kernels.arrangements.key_rows import COMPLETE, KeyRows, collect, forget
from deltamark.dataflow.kernels.core.blocks import NONE, Array, Block, Vector
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.hashing.hash_map import find, id_limit, key_of

KEYS_PER_PAIR, MIN_KEYS = 8, 1 << 15
"""The number of keys that a call visits: at most KEYS_PER_PAIR for each pair that it may write, and MIN_KEYS in any
case, because many keys have no rows. Not measured."""

STEPS_PER_PAIR = 4
"""The number of steps in which a call collects rows, for each pair that it may write: for pairs of keys with one row
each, two are enough. Not measured."""


class CursorSide(KeyRows):
    """The rows of a key on one side."""

    output: Vector = NONE
    """The slots of the rows in the output."""


class Cursor(Block):
    """The position within all keys of the driver, whose rows are paired with those of the other side."""

    driver: CursorSide = NONE
    other: CursorSide = NONE
    key_id: int = 0
    time: int
    """The time as of which rows are read."""
    size: int = 0
    """The number of rows or pairs that the last call has written."""


def read_by(side: JoinSide) -> dict[str, int]:
    """Return the fields of the `CursorSide` that reads what a side of a join reads."""
    words = side.as_words
    return {"rows": words.rows, "filter": words.filter, "filter_bit": words.filter_bit, "output": words.slots}


def cursor_over(reserve: Callable[[int], int], time: int, *sides: Mapping[str, int]) -> Cursor:
    """Make a cursor from the fields of the driver and of the other side, if any. reserve: reserves its memory."""
    address = reserve(Cursor.size_in_words + sum(map(_room, sides)))
    fields, end = {"time": time}, address + 8 * Cursor.size_in_words
    for name, side in zip(("driver", "other"), sides, strict=False):
        fields[name] = end
        _make_side(end, side)
        end += 8 * _room(side)
    view(address, Cursor.size_in_words)[:] = Cursor.words(**fields)
    return Cursor(address)


def _rows(side: Mapping[str, int]) -> int:
    """Count the rows that a key may have, which is to say all rows."""
    block = ArrangementBlock(side["rows"])
    return block.live + block.first


def _room(side: Mapping[str, int]) -> int:
    """Return the words of a side with its arrays."""
    return CursorSide.size_in_words + 2 * _rows(side) + (1 << (2 * _rows(side)).bit_length())


def _make_side(address: int, side: Mapping[str, int]) -> None:
    slots = address + 8 * CursorSide.size_in_words
    weights, table = (slots + 8 * part * _rows(side) for part in (1, 2))
    view(address, CursorSide.size_in_words)[:] = CursorSide.words(slots=slots, weights=weights, table=table, **side)


@kernel
def pairs(op: JoinBlock, cursor: Cursor, limit: int) -> bool:
    """Write the next pairs, at most `limit`, to the output of a join; return whether these were the last."""
    driver, other, time, steps = cursor.driver, cursor.other, cursor.time, STEPS_PER_PAIR * limit
    key_id, last = cursor.key_id, id_limit(driver.rows.keys)
    stop = min(last, key_id + max(KEYS_PER_PAIR * limit, MIN_KEYS))
    cursor.size = 0
    while key_id < stop and cursor.size < limit and steps > 0:
        other_id = _id_with_rows(other.rows, key_of(driver.rows.keys, key_id))
        is_done = not has_rows(driver.rows, key_id) or other_id < 0
        if not is_done:
            steps = collect(other, other_id, time, collect(driver, key_id, time, steps))
            if driver.phase == COMPLETE and other.phase == COMPLETE:
                is_done = _emit(op, cursor, limit)
        key_id += is_done
    cursor.key_id = key_id
    op.size = cursor.size
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
def _emit(op: JoinBlock, cursor: Cursor, limit: int) -> bool:
    """Write the next pairs of a key, of which both sides are complete; return whether these were the last."""
    driver, other, size = cursor.driver, cursor.other, cursor.size
    if other.count == 0:
        driver.at = driver.count
    while driver.at < driver.count and size < limit:
        slot, weight, first = driver.slots[driver.at], driver.weights[driver.at], other.at
        stop = min(other.count, first + limit - size)
        for at in range(first, stop):
            op.time[size] = cursor.time
            op.diff[size] = product(op, weight, other.weights[at])
            driver.output[size] = slot
            other.output[size] = other.slots[at]
            size += 1
        other.at = stop
        if stop == other.count:
            other.at = 0
            driver.at += 1
    cursor.size = size
    if driver.at < driver.count:
        return False
    forget(driver)
    forget(other)
    return True


@kernel
def rows(cursor: Cursor, limit: int, slots: Array, keys: Array, weights: Array) -> bool:
    """Write the next rows of the driver, at most `limit`; return whether these were the last."""
    driver, size, steps = cursor.driver, 0, limit
    block, key_id, last = driver.rows, cursor.key_id, id_limit(driver.rows.keys)
    stop = min(last, key_id + max(KEYS_PER_PAIR * limit, MIN_KEYS))
    while key_id < stop and size < limit and steps > 0:
        is_done = not has_rows(block, key_id)
        if not is_done:
            steps = collect(driver, key_id, cursor.time, steps)
            while driver.phase == COMPLETE and driver.at < driver.count and size < limit:
                slots[size] = driver.slots[driver.at]
                keys[size] = key_of(block.keys, key_id)
                weights[size] = driver.weights[driver.at]
                driver.at += 1
                size += 1
            is_done = driver.phase == COMPLETE and driver.at == driver.count
            if is_done:
                forget(driver)
        key_id += is_done
    cursor.key_id = key_id
    cursor.size = size
    return key_id == last
