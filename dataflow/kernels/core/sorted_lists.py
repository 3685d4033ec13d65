"""Sorted lists of numbers in one pool, and searches in them.

A list lies in a block of the pool; blocks come in sizes that are at most a quarter apart, and one that is given back is
used again for a list of its size. Numbers take 4 bytes where the range of all of them does, else 8.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.memory import inline, kernel, load, load32, store, store32

WIDTH, HEADS, POOL, WEIGHTED, WEIGHTS, FREE, END, GARBAGE = range(1, 9)
"""The first words of an index's block. HEADS: four int32 a key, see below. END: numbers of the pool that are in blocks,
GARBAGE of them in blocks that are free. FREE: a word a size of block, its first free one. WEIGHTS: how often each row
is there, a word each, once WEIGHTED is set; until then all are there once."""

START, COUNT, ROOM, NEW = range(4)
"""Of a key: where its list starts (in units), how many numbers it has, how many the block has room for, and 1 + the
place of its first update in this slice."""

UNIT = 4
"""Blocks start at, and are as long as, multiples of so many numbers."""
SIZES = 128


@inline
def number(pool: int, width: int, at: int) -> int:
    return load32(pool, at) if width == 4 else load(pool, at)


@inline
def put(pool: int, width: int, at: int, value: int) -> None:
    if width == 4:
        store32(pool, at, value)
    else:
        store(pool, at, value)


@kernel
def seek(pool: int, width: int, start: int, stop: int, value: int) -> int:
    """Return the place from `start` on of the first number that is not less than a value: by doubling, then halving."""
    if start >= stop or number(pool, width, start) >= value:
        return start
    step, low = 1, start  # the number at low is less
    while low + step < stop and number(pool, width, low + step) < value:
        low += step
        step += step
    left = min(step, stop - low) - 1
    while left > 0:  # the first that is not less is one of so many behind the next one
        half = (left + 1) >> 1
        low += half if number(pool, width, low + half) < value else 0
        left -= half
    return low + 1


@kernel
def size_of(numbers: int) -> int:
    """Return which size of block holds so many numbers: 4 * shift + units, the block having units << shift of them."""
    units, shift = (numbers + UNIT - 1) // UNIT, 0
    while (units + (1 << shift) - 1) >> shift > 7:
        shift += 1
    return 4 * shift + ((units + (1 << shift) - 1) >> shift)


@kernel
def room_of(size: int) -> int:
    """Return how many numbers a size of block holds."""
    shift = max((size >> 2) - 1, 0)
    return (size - 4 * shift) * UNIT << shift


@kernel
def take(op: int, numbers: int) -> int:
    """Return where a block starts that holds so many numbers."""
    size = size_of(numbers)
    free = load(load(op, FREE), size)
    if free == 0:
        start = load(op, END)
        store(op, END, start + room_of(size))
        return start
    start = (free - 1) * UNIT
    store(load(op, FREE), size, number(load(op, POOL), load(op, WIDTH), start))
    store(op, GARBAGE, load(op, GARBAGE) - room_of(size))
    return start


@kernel
def give(op: int, start: int, room: int) -> None:
    """Give a block back."""
    size = size_of(room)
    put(load(op, POOL), load(op, WIDTH), start, load(load(op, FREE), size))
    store(load(op, FREE), size, start // UNIT + 1)
    store(op, GARBAGE, load(op, GARBAGE) + room)


@kernel
def wasteful(op: int) -> bool:
    """Is so much of the pool free that its lists should move together?"""
    return 4 * load(op, GARBAGE) > load(op, END) + (1 << 14)


@kernel
def pack(op: int, keys: int, pool: int, weights: int) -> None:
    """Move the lists of so many keys to an empty pool, one behind the other."""
    heads, old, width, end = load(op, HEADS), load(op, POOL), load(op, WIDTH), UNIT
    for key in range(keys):
        count, start = load32(heads, 4 * key + COUNT), load32(heads, 4 * key + START) * UNIT
        if count == 0:
            continue
        room = room_of(size_of(count))
        for at in range(count):
            put(pool, width, end + at, number(old, width, start + at))
        if load(op, WEIGHTED) != 0:
            for at in range(count):
                store(weights, end + at, load(load(op, WEIGHTS), start + at))
        store32(heads, 4 * key + START, end // UNIT)
        store32(heads, 4 * key + ROOM, room)
        end += room
    for size in range(SIZES):
        store(load(op, FREE), size, 0)
    store(op, POOL, pool)
    store(op, WEIGHTS, weights)
    store(op, END, end)
    store(op, GARBAGE, 0)
