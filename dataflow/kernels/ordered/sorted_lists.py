"""Sorted lists of numbers in one pool, one list for each key id, and searches in them.

A list lies in a span of the pool. The lengths of spans fall into size classes that differ by at most a quarter, and a
freed span is used again for a list of its class. Numbers take 4 bytes each if their whole range fits, else 8.

The intersection of two sorted lists of 4-byte numbers.

Lists of similar lengths are merged eight numbers at a time: each of the eight of one list is compared with each of the
other's, and then the eight with the smaller last number is done. Numbers are written without a branch on whether they
are in both lists: a number that is not is overwritten by the next one.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Array32, Block, Int32, Operator
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import LANES, matches, move

MAX_MERGE_RATIO = 16
"""If a list is more than MAX_MERGE_RATIO times longer than the other, it is searched, not merged: measured, a search
takes 12 ns a number of the short list, and merging 4 to 6 ns."""


@kernel
def intersect(a: Array32, a_size: int, b: Array32, b_size: int, low: int, out: Array) -> int:
    """Write each number of both lists, plus `low`; return their count. `out` needs room for LANES numbers more."""
    if a_size > MAX_MERGE_RATIO * b_size:
        return _intersect_by_search(b, b_size, a, a_size, low, out)
    if b_size > MAX_MERGE_RATIO * a_size:
        return _intersect_by_search(a, a_size, b, b_size, low, out)
    at = place = kept = 0
    while at + LANES <= a_size and place + LANES <= b_size:
        bits, x, y = matches(a[at:], b[place:]), a[at + LANES - 1], b[place + LANES - 1]
        if bits != 0:
            for lane in range(LANES):
                out[kept] = a[at + lane] + low
                kept += (bits >> lane) & 1
        at += LANES * (x <= y)
        place += LANES * (y <= x)
    while at < a_size and place < b_size:
        x, y = a[at], b[place]
        out[kept] = x + low
        kept += x == y
        at += x <= y
        place += y <= x
    return kept


@kernel
def _intersect_by_search(short: Array32, size: int, long: Array32, long_size: int, low: int, out: Array) -> int:
    place = kept = 0
    for at in range(size):
        number = short[at]
        place = seek(Array(long), 4, place, long_size, number)
        if place == long_size:
            break
        out[kept] = number + low
        kept += long[place] == number
    return kept


UNIT = 4
"""Spans begin at multiples of UNIT numbers, and their lengths are such multiples."""

SIZE_CLASSES = 128

MIN_GARBAGE = 1 << 12
"""Numbers in freed spans that are never worth packing the pool. Not measured."""


class ListHead(Block):
    """The list of a key id."""

    start: Int32
    """Where the span of the list begins, in units."""
    count: Int32
    room: Int32
    """The length of the span."""
    first_update: Int32
    """The key's first update of the slice, plus 1; see `motifs.index`."""


class SortedListsBlock(Operator):
    """The lists of all key ids, and the multiplicities of their numbers."""

    width: int
    """Bytes of a number: 4 or 8."""
    heads: Array
    """A `ListHead` for each key id."""
    pool: Array
    weighted: int = 0
    weights: Array
    """The multiplicity of each number of the pool, if `weighted` is set; otherwise all are 1."""
    free: Array
    """For each size class its first free span (in units, plus 1), whose first number refers to the next one."""
    end: int = UNIT
    """The end of the last span."""
    garbage: int = 0
    """The total length of the free spans."""


@inline
def head_of(lists: SortedListsBlock, key_id: int) -> ListHead:
    """Return the head of a key id's list."""
    return ListHead(lists.heads[2 * key_id :].address)


@inline
def number_at(pool: Array, width: int, place: int) -> int:
    """Return a number of the pool."""
    return Array32(pool)[place] if width == 4 else pool[place]


@inline
def set_number(pool: Array, width: int, place: int, number: int) -> None:
    """Write a number of the pool."""
    if width == 4:
        Array32(pool)[place] = number
    else:
        pool[place] = number


@inline
def weight_at(lists: SortedListsBlock, place: int) -> int:
    """Return the multiplicity of the number at a place."""
    return lists.weights[place] if lists.weighted != 0 else 1


@kernel
def set_weight(lists: SortedListsBlock, place: int, weight: int) -> None:
    """Write the multiplicity of the number at a place."""
    if weight != 1 and lists.weighted == 0:
        for other in range(lists.end):
            lists.weights[other] = 1
        lists.weighted = 1
    if lists.weighted != 0:
        lists.weights[place] = weight


@kernel
def seek(pool: Array, width: int, start: int, stop: int, number: int) -> int:
    """Return the first place from `start` on whose number is not less, by galloping and then binary search."""
    if start >= stop or number_at(pool, width, start) >= number:
        return start
    step, low = 1, start  # the number at `low` is less
    while low + step < stop and number_at(pool, width, low + step) < number:
        low += step
        step += step
    left = min(step, stop - low) - 1
    while left > 0:  # the result is one of the `left + 1` places behind `low`
        half = (left + 1) >> 1
        low += half if number_at(pool, width, low + half) < number else 0
        left -= half
    return low + 1


@kernel
def size_class_of(numbers: int) -> int:
    """Return the smallest size class that has room: 4 * shift + units for spans of `units << shift` units."""
    units, shift = (numbers + UNIT - 1) // UNIT, 0
    while (units + (1 << shift) - 1) >> shift > 7:
        shift += 1
    return 4 * shift + ((units + (1 << shift) - 1) >> shift)


@kernel
def span_length(size_class: int) -> int:
    """Return the length of the spans of a size class, in numbers."""
    shift = max((size_class >> 2) - 1, 0)
    return (size_class - 4 * shift) * UNIT << shift


@kernel
def allocate(lists: SortedListsBlock, numbers: int) -> int:
    """Return the start of a span that has room for a list."""
    size_class = size_class_of(numbers)
    free = lists.free[size_class]
    if free == 0:
        start = lists.end
        lists.end = start + span_length(size_class)
        return start
    start = (free - 1) * UNIT
    lists.free[size_class] = number_at(lists.pool, lists.width, start)
    lists.garbage -= span_length(size_class)
    return start


@kernel
def release(lists: SortedListsBlock, start: int, room: int) -> None:
    """Free a span."""
    size_class = size_class_of(room)
    set_number(lists.pool, lists.width, start, lists.free[size_class])
    lists.free[size_class] = start // UNIT + 1
    lists.garbage += room


@inline
def move_numbers(lists: SortedListsBlock, target: int, source: int, count: int) -> None:
    """Move numbers within the pool, with their multiplicities; source and target may overlap."""
    pool, width = lists.pool.address, lists.width
    move(pool + width * target, pool + width * source, width * count)
    if lists.weighted != 0:
        move(lists.weights[target:].address, lists.weights[source:].address, 8 * count)


@kernel
def needs_packing(lists: SortedListsBlock) -> bool:
    """Return whether the free spans take so much of the pool that the lists should be packed."""
    return 4 * lists.garbage > lists.end + 4 * MIN_GARBAGE


@kernel
def pack(lists: SortedListsBlock, id_limit: int, pool: Array, weights: Array) -> None:
    """Move the lists of all key ids below a limit to an empty pool, one behind the other."""
    old, old_weights, width, weighted, end = lists.pool, lists.weights, lists.width, lists.weighted != 0, UNIT
    for key_id in range(id_limit):
        head = head_of(lists, key_id)
        count, start = head.count, head.start * UNIT
        if count == 0:
            continue
        for at in range(count):
            set_number(pool, width, end + at, number_at(old, width, start + at))
        if weighted:
            for at in range(count):
                weights[end + at] = old_weights[start + at]
        head.start = end // UNIT
        head.room = span_length(size_class_of(count))
        end += head.room
    for size_class in range(SIZE_CLASSES):
        lists.free[size_class] = 0
    lists.pool = pool
    lists.weights = weights
    lists.end = end
    lists.garbage = 0
