"""All pairs of rows that two arrangements hold under equal keys, or all rows that one holds, some at a time.

This is what a join would have handed out had it been there from the beginning, as of a time. Until all pairs are out
the arrangements must not change, but for updates that are later and not settled; a cursor says how far we are, which
may be within a key.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements import arrangement
from deltamark.dataflow.kernels.arrangements.join import (
    LEFT,
    OUT_DIFF,
    OUT_LEFT,
    OUT_RIGHT,
    OUT_SIZE,
    OUT_TIME,
    product,
)
from deltamark.dataflow.kernels.core.hash_map import HASHED, HIGH, LOW, find, key_of, reach
from deltamark.dataflow.kernels.core.memory import inline, kernel, load, load32, store

DRIVER, OTHER, KEY_ID, TIME, LIST, LINK, PASSES, BIT, OTHER_LIST, OTHER_LINK, OTHER_PASSES, OTHER_BIT = range(12)
"""A cursor: the block whose keys are gone through and the one where they are looked up; the key where we are; the time
as of which rows are read; and for each side one of its two lists, a link in it, 0 where the key is to be begun, and
which rows are read (see kernels.arrangements.join)."""
CURSOR_WORDS = 12

KEYS_A_PAIR, LEAST_KEYS = 8, 1 << 15
"""How many keys are looked at, at most, for each pair that may be written, and in any case: many have no rows."""


@kernel
def ids(block: int) -> int:
    """Return how many ids of keys there may be."""
    return reach(load(block, arrangement.KEYS))


@kernel
def pairs(op: int, cursor: int, most: int) -> bool:
    """Write the next pairs, at most so many, to where a join writes; return whether that is all."""
    driver, other = load(cursor, DRIVER), load(cursor, OTHER)
    mine, theirs = OUT_LEFT, OUT_RIGHT
    if load(op, LEFT) != driver:
        mine, theirs = OUT_RIGHT, OUT_LEFT
    size, key_id, last = 0, load(cursor, KEY_ID), ids(driver)
    stop = min(last, key_id + max(KEYS_A_PAIR * most, LEAST_KEYS))
    while key_id < stop and size < most:
        other_id = _id_of(other, key_of(load(driver, arrangement.KEYS), key_id))
        if load(load(driver, arrangement.LISTS), key_id) != 0 and other_id >= 0:
            if load(cursor, LINK) == 0:
                _begin(driver, key_id, cursor, LIST)
                _begin(other, other_id, cursor, OTHER_LIST)
            while load(cursor, LINK) != 0 and size < most:
                while load(cursor, OTHER_LINK) != 0 and size < most:
                    _emit(op, cursor, mine, theirs, size)
                    size += 1
                    _advance(other, other_id, cursor, OTHER_LIST)
                if load(cursor, OTHER_LINK) == 0:
                    _advance(driver, key_id, cursor, LIST)
                    _begin(other, other_id, cursor, OTHER_LIST)
        if load(cursor, LINK) == 0:
            key_id += 1
    store(cursor, KEY_ID, key_id)
    store(load(op, OUT_SIZE), 0, size)
    return key_id == last


@kernel
def _id_of(block: int, key: int) -> int:
    """Return the id of a key that has rows, else -1."""
    keys = load(block, arrangement.KEYS)
    if load(keys, HASHED) != 0:
        return find(keys, key)
    if not load(keys, LOW) <= key <= load(keys, HIGH):
        return -1
    return key - load(keys, LOW) if load(load(block, arrangement.LISTS), key - load(keys, LOW)) != 0 else -1


@kernel
def _begin(block: int, key_id: int, cursor: int, which: int) -> None:
    """Go to the first row of a key that has some, or to link 0."""
    lists = load(block, arrangement.LISTS)
    first = load32(lists, 2 * key_id)
    store(cursor, which, first == 0)
    store(cursor, which + 1, first if first != 0 else load32(lists, 2 * key_id + 1))
    if _unseen(block, load(cursor, which + 1), cursor, which):
        _advance(block, key_id, cursor, which)


@kernel
def _advance(block: int, key_id: int, cursor: int, which: int) -> None:
    """Go to the next row of a key, or to link 0."""
    link = load(cursor, which + 1)
    while True:
        link = load32(load(block, arrangement.NEXT), link - 1)
        if link == 0 and load(cursor, which) == 0:
            store(cursor, which, 1)
            link = load32(load(block, arrangement.LISTS), 2 * key_id + 1)
        if not _unseen(block, link, cursor, which):
            break
    store(cursor, which + 1, link)


@inline
def _unseen(block: int, link: int, cursor: int, which: int) -> bool:
    """Is this an update that came after the time of the cursor, or a row that it does not read?"""
    mark, passes = load(block, arrangement.MARK), load(cursor, which + 2)
    if link > mark and load(load(load(block, arrangement.SEEN_TIME), 0), link - 1 - mark) > load(cursor, TIME):
        return True
    return link != 0 and passes != 0 and load(passes, link - 1) >> load(cursor, which + 3) & 1 == 0


@kernel
def _weight(block: int, slot: int) -> int:
    if slot >= load(block, arrangement.MARK):
        return load(load(load(block, arrangement.SEEN_DIFF), 0), slot - load(block, arrangement.MARK))
    return load(load(block, arrangement.WEIGHT), slot) if load(block, arrangement.WEIGHTED) != 0 else 1


@kernel
def _emit(op: int, cursor: int, mine: int, theirs: int, at: int) -> None:
    slot, other = load(cursor, LINK) - 1, load(cursor, OTHER_LINK) - 1
    weight = product(op, _weight(load(cursor, DRIVER), slot), _weight(load(cursor, OTHER), other))
    store(load(load(op, OUT_TIME), 0), at, load(cursor, TIME))
    store(load(load(op, OUT_DIFF), 0), at, weight)
    store(load(load(op, mine), 0), at, slot)
    store(load(load(op, theirs), 0), at, other)


@kernel
def rows(cursor: int, most: int, slots: int, keys: int, weights: int) -> int:
    """Write the next rows of the driver, `most` if there are so many; return how many: 0 at the end."""
    block, key_id, size = load(cursor, DRIVER), load(cursor, KEY_ID), 0
    last = ids(block)
    while key_id < last and size < most:
        if load(cursor, LINK) == 0 and load(load(block, arrangement.LISTS), key_id) != 0:
            _begin(block, key_id, cursor, LIST)
        while load(cursor, LINK) != 0 and size < most:
            slot = load(cursor, LINK) - 1
            store(slots, size, slot)
            store(keys, size, key_of(load(block, arrangement.KEYS), key_id))
            store(weights, size, _weight(block, slot))
            size += 1
            _advance(block, key_id, cursor, LIST)
        if load(cursor, LINK) == 0:
            key_id += 1
    store(cursor, KEY_ID, key_id)
    return size
