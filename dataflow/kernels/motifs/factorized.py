"""The tail of a motif in BiGJoin: its last variables, if they do not depend on each other.

Counting multiplies the numbers of values of these variables, without listing them. Listing emits a prefix together with
the values of each variable: a factorized representation of the rows.

Two lists are intersected by marking the numbers of one with a stamp and scanning the other, if the first stays the same
from prefix to prefix; but a list that is much shorter is looked up in the longer one.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Array32
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import wraps
from deltamark.dataflow.kernels.motifs.extend import is_plain, settled_weight, size_of
from deltamark.dataflow.kernels.motifs.layout import (
    OVERFLOW,
    BigJoin,
    Prefix,
    StaticExtender,
    extender_at,
    level_at,
    open_lists,
    product,
)
from deltamark.dataflow.kernels.ordered.sorted_lists import intersect, number_at, seek, weight_at

MAX_SCAN_RATIO = 8
"""A list that is more than MAX_SCAN_RATIO times longer than the stamped one is not scanned: the numbers of the stamped
one are looked up in it. Not measured."""


@kernel
def count_tail(op: BigJoin, first: int, values: Array, weight: int) -> None:
    """Add to the total the number of rows to which the tail, from level `first` on, extends a prefix."""
    total = weight
    for number in range(first, op.level_count):
        level = level_at(op, number)
        least = open_lists(level, values)
        if least < 0:
            return
        if number == first:
            op.proposals += size_of(extender_at(level.extenders, least)) if level.bound < 0 else 1
        count, extenders = level.extender_count, level.extenders
        if count == 1 and is_plain(extender_at(extenders, 0)):
            found = size_of(extender_at(extenders, 0))
        elif count == 2 and _can_intersect(extenders, count):
            found = _count_common(op, extender_at(extenders, 0), extender_at(extenders, 1))
        elif count > 2 and _can_intersect(extenders, count):
            found = _count_all(op, number, extenders, count)
        else:
            found = _sum_weights(op, extenders, count, least)
        total = product(op, total, found)
        if total == 0:
            return
    if wraps(op.total, total) < 0:
        op.error = OVERFLOW
    op.total += total


@kernel
def list_tail(op: BigJoin, first: int, prefix: Prefix) -> int:
    """List a prefix and the values of each variable of the tail, if all have values; return the number of values."""
    columns, levels = level_at(op, first).columns, op.level_count
    listed = op.out[(columns + 1 + levels - first) * op.out_count :]
    start = end = op.value_count
    for number in range(first, levels):
        least, before = open_lists(level_at(op, number), prefix.values), end
        if least >= 0:
            end = _list_values(op, number, least, end)
        if end == before:
            return 0
        listed[columns + 1 + number - first] = end - before
    for column in range(columns):
        listed[column] = prefix.values[column]
    listed[columns] = prefix.weight
    op.out_count += 1
    op.value_count = end
    return end - start


@kernel
def _list_values(op: BigJoin, number: int, least: int, end: int) -> int:
    """List the values that all extenders of a level have; return the end of the listed values."""
    level, values = level_at(op, number), op.values
    count, extenders = level.extender_count, level.extenders
    extender = extender_at(extenders, least)
    index, pool, width = extender.index, extender.pool, extender.width
    low = index.low
    if count > 1 and _can_intersect(extenders, count):
        found = _intersect_two(op, extenders) if count == 2 else _intersect_all(op, number, extenders, count)
        for at in range(found):
            values[2 * (end + at)] = op.result[at] + low
            values[2 * (end + at) + 1] = 1
        return end + found
    for at in range(extender.at, extender.stop):
        value = number_at(pool, width, at) + low
        weight = _common_weight(op, extenders, count, least, value, weight_at(index, at))
        if weight != 0:
            values[2 * end] = value
            values[2 * end + 1] = weight
            end += 1
    return end


@inline
def _common_weight(op: BigJoin, extenders: Array, count: int, proposer: int, value: int, weight: int) -> int:
    """Multiply the weight of a proposed value by its weights in the other lists."""
    for other in range(count):
        if other != proposer and weight != 0:
            weight = product(op, weight, settled_weight(extender_at(extenders, other), value))
    return weight


@kernel
def _sum_weights(op: BigJoin, extenders: Array, count: int, least: int) -> int:
    """Return the sum of the weights of the values that all lists have."""
    extender = extender_at(extenders, least)
    index, pool, width, total = extender.index, extender.pool, extender.width, 0
    low = index.low
    for at in range(extender.at, extender.stop):
        value = number_at(pool, width, at) + low
        total += _common_weight(op, extenders, count, least, value, weight_at(index, at))
    return total


@kernel
def _can_intersect(extenders: Array, count: int) -> bool:
    """Return whether all lists are plain, of 4-byte numbers, and of equal numbers for equal values."""
    can, low = True, extender_at(extenders, 0).index.low
    for which in range(count):
        extender = extender_at(extenders, which)
        can &= extender.width == 4 and is_plain(extender) and extender.index.low == low
    return can


@inline
def _list_of(extender: StaticExtender) -> Array32:
    """Return a list of 4-byte numbers."""
    return Array32(extender.pool)[extender.at :]


@inline
def _intersect_two(op: BigJoin, extenders: Array) -> int:
    """Write the intersection of two lists to `result`; return its size."""
    a, b = extender_at(extenders, 0), extender_at(extenders, 1)
    return intersect(_list_of(a), size_of(a), _list_of(b), size_of(b), 0, op.result)


@kernel
def _intersect_all(op: BigJoin, number: int, extenders: Array, count: int) -> int:
    """Write the intersection of several lists to `result`; return its size."""
    extender = extender_at(extenders, _keep_others(op, number, extenders, count))
    return intersect(op.kept_list, op.kept_size, _list_of(extender), size_of(extender), 0, op.result)


@kernel
def _count_all(op: BigJoin, number: int, extenders: Array, count: int) -> int:
    """Count the numbers of several lists."""
    extender = extender_at(extenders, _keep_others(op, number, extenders, count))
    kept, kept_size, scanned, size = op.kept_list, op.kept_size, _list_of(extender), size_of(extender)
    if op.stamps.address != 0 and size <= MAX_SCAN_RATIO * kept_size:
        return _count_by_stamps(op, kept, kept_size, scanned, size)
    if size <= kept_size:
        return _count_by_search(scanned, size, kept, kept_size)
    return _count_by_search(kept, kept_size, scanned, size)


@kernel
def _keep_others(op: BigJoin, number: int, extenders: Array, count: int) -> int:
    """Keep the intersection of all lists but one until another list changes; return the number of that one."""
    changed, last = 0, count - 1
    for which in range(count):
        extender = extender_at(extenders, which)
        if extender.last_list.address != _list_of(extender).address:
            changed, last = changed + 1, which
            extender.last_list = _list_of(extender)
    if changed > 1 or op.kept_level != number or op.kept_but != last:
        _keep_intersection(op, extenders, count, last)
        op.kept_level = number
    return last


@kernel
def _keep_intersection(op: BigJoin, extenders: Array, count: int, but: int) -> None:
    """Keep the intersection of all lists but one."""
    kept, size = op.kept_list, -1
    for which in range(count):
        extender = extender_at(extenders, which)
        if which != but and size < 0:
            kept, size = _list_of(extender), size_of(extender)
        elif which != but:
            target = op.buffer if kept.address != op.buffer.address else op.spare_buffer
            size = intersect(kept, size, _list_of(extender), size_of(extender), 0, target)
            kept = target
    op.kept_list = kept
    op.kept_size = size
    op.stamped_list = Array32(0)  # its memory may have other numbers now
    op.kept_but = but


@kernel
def _count_common(op: BigJoin, a: StaticExtender, b: StaticExtender) -> int:
    """Count the numbers of both of two lists."""
    a_list, a_size, b_list, b_size = _list_of(a), size_of(a), _list_of(b), size_of(b)
    a_stays, b_stays = a.last_list.address == a_list.address, b.last_list.address == b_list.address
    a.last_list = a_list
    b.last_list = b_list
    if op.stamps.address != 0:
        if b_size <= MAX_SCAN_RATIO * a_size and (a_stays or op.stamped_list.address == a_list.address):
            return _count_by_stamps(op, a_list, a_size, b_list, b_size)
        if a_size <= MAX_SCAN_RATIO * b_size and (b_stays or op.stamped_list.address == b_list.address):
            return _count_by_stamps(op, b_list, b_size, a_list, a_size)
    if b_size <= a_size:
        return _count_by_search(b_list, b_size, a_list, a_size)
    return _count_by_search(a_list, a_size, b_list, b_size)


@kernel
def _count_by_stamps(op: BigJoin, stamped: Array32, stamped_size: int, scanned: Array32, scanned_size: int) -> int:
    """Count the numbers of a scanned list that have the stamp of another one."""
    stamps, stamp, found = op.stamps, op.stamp, 0
    if op.stamped_list.address != stamped.address:
        stamp += 1
        for at in range(stamped_size):
            stamps[stamped[at]] = stamp
        op.stamp = stamp
        op.stamped_list = stamped
    for at in range(scanned_size):
        found += stamps[scanned[at]] == stamp
    return found


@kernel
def _count_by_search(short: Array32, size: int, long: Array32, long_size: int) -> int:
    """Count the numbers of a list that another one contains."""
    place = found = 0
    for at in range(size):
        number = short[at]
        place = seek(Array(long), 4, place, long_size, number)
        if place == long_size:
            break
        found += long[place] == number
    return found
