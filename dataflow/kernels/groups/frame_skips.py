"""The rows near a changed row whose values may differ: those whose frames contain it, less those that others decide.

A sweep goes from a changed row from row to row, and computes the values of each in both versions. The functions here
say how far the values of the following rows are equal for certain. They rely on two facts. The ends of frames never
go back along the order. And between two changed rows all rows are in both versions, at equal distances.

Let r be a row behind the current row q, without a changed row between them. If the smallest values of its two frames
differed, the smaller one would be that of a row w in one of them only. If w lies before r, it lies before the last
changed row, because all others are in both frames or in none. So w is in a frame of q, too. Hence the values of r are
equal as long as both of its frames have a row that is at most as large as the smallest value of q. The sweep in the
other direction finds those rows r whose w lies behind them.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.groups.double_sums import SUM_WORDS
from deltamark.dataflow.kernels.groups.frame_values import (
    ALL,
    BY_PEERS,
    BY_ROWS,
    NOTHING,
    PEERS,
    SUMMED,
    TILED,
    VALUES,
    FramesBlock,
    counted,
    is_missing,
    key_of,
    start_of,
    stop_of,
    sums_of,
)
from deltamark.dataflow.kernels.groups.grouped_rows import record_at
from deltamark.dataflow.kernels.groups.ordered_rows import are_peers
from deltamark.dataflow.kernels.ordered import btree
from deltamark.dataflow.kernels.ordered.btree import ROWS, SMALLEST, SUM_OF_DOUBLES, VERSIONS
from deltamark.dataflow.types import NULL


@kernel
def reaches_back(op: FramesBlock, slot: int) -> bool:
    """Return whether a frame of the current row, which lies behind the changed row, may begin at it or before it."""
    reaches = False
    for frame in range(op.frames):
        reaches |= _begins_by_change(op, slot, frame)
    return reaches


@kernel
def _begins_by_change(op: FramesBlock, slot: int, frame: int) -> bool:
    """Return whether a frame of the current row, which lies behind the changed row, may begin at it or before it."""
    order, unit, offset, reaches = op.order, op.starts[2 * frame], op.starts[2 * frame + 1], False
    if unit == ALL:
        return True
    if unit in (BY_ROWS, BY_PEERS):
        for version in range(VERSIONS):
            copies = btree.copies_of(order, op.change, version)
            if copies != 0:
                start = start_of(op, slot, version, op.place[version], unit, offset)
                reaches |= start < op.change_place[version] + copies
        return reaches
    if unit == PEERS or is_missing(op, slot):
        return are_peers(op, slot, op.change)
    return _are_alike(op, slot) and key_of(op, slot) + offset <= key_of(op, op.change)


@kernel
def reaches_on(op: FramesBlock, slot: int) -> bool:
    """Return whether a frame of the current row, which lies before the changed row, may end at it or behind it."""
    reaches = False
    for frame in range(op.frames):
        reaches |= _ends_by_change(op, slot, frame)
    return reaches


@kernel
def _ends_by_change(op: FramesBlock, slot: int, frame: int) -> bool:
    """Return whether a frame of the current row, which lies before the changed row, may end at it or behind it."""
    order, unit, offset, reaches = op.order, op.stops[2 * frame], op.stops[2 * frame + 1], False
    if unit == ALL:
        return True
    if unit in (BY_ROWS, BY_PEERS):
        for version in range(VERSIONS):
            if btree.copies_of(order, op.change, version) != 0:
                last = op.place[version] + btree.copies_of(order, slot, version) - 1
                reaches |= stop_of(op, slot, version, last, unit, offset) > op.change_place[version]
        return reaches
    if unit == PEERS or is_missing(op, slot):
        return are_peers(op, slot, op.change)
    return _are_alike(op, slot) and key_of(op, slot) + offset >= key_of(op, op.change)


@kernel
def _are_alike(op: FramesBlock, slot: int) -> bool:
    """Return whether a row and the changed row are equal in all columns of the order but the last, which none lacks."""
    equal = not is_missing(op, op.change)
    one, other = record_at(op.rows, slot), record_at(op.rows, op.change)
    for word in range(op.peer_words - 1):
        equal &= one.values[word] == other.values[word]
    return equal


@kernel
def equal_until(op: FramesBlock, slot: int, here: int, stop: int) -> int:
    """Return the place in version 1 of the next row behind the current one whose values may differ, or `stop`.

    here: the place behind the current row, whose values were computed; stop: that of the next changed row.
    """
    place = stop
    for function in range(op.functions):
        place = min(place, _equal_until(op, slot, function, here, stop))
    return place


@kernel
def _equal_until(op: FramesBlock, slot: int, function: int, here: int, stop: int) -> int:
    """Return `equal_until` for one function."""
    frame, argument, place = op.frame_of[function], op.arguments[function], op.places[function]
    unit, begins_inside = op.starts[2 * frame], _begins_inside(op, frame)
    if argument == TILED or not _begins_by_change(op, slot, frame):
        return stop
    if not _is_equal(op, function) or op.without[frame] != NOTHING:
        return here
    contains, is_behind = True, True
    for version in range(VERSIONS):
        behind = op.change_place[version] + btree.copies_of(op.order, op.change, version)
        contains &= _spans(op, version)[2 * frame + 1] >= behind
        is_behind &= _spans(op, version)[2 * frame + 1] > behind
    if argument >= 0:
        if unit == ALL:
            return stop if contains and (place < 0 or _are_placed(op, function, place)) else here
        if op.items[function] != 0:
            return here
        if place == -1 and is_behind:
            return stop
        is_first = place == 0 and begins_inside and (contains or _is_one_row(op, frame))
        return _picked_until(op, frame, here) if is_first else here
    if not contains:
        return here
    kind = op.order.kinds[op.items[function]]
    if unit == ALL or (kind == ROWS and unit == BY_ROWS and begins_inside):
        return stop
    return _extreme_until(op, function, here, stop) if kind >= SMALLEST else here


@kernel
def equal_from(op: FramesBlock, slot: int, stop: int) -> int:
    """Return the place in version 1 from which on the rows before the current one have equal values, or `stop`.

    stop: the place behind the changed row before the current row, whose values were computed.
    """
    place = stop
    for function in range(op.functions):
        place = max(place, _equal_from(op, slot, function, stop))
    return place


@kernel
def _equal_from(op: FramesBlock, slot: int, function: int, stop: int) -> int:
    """Return `equal_from` for one function."""
    frame, argument, place = op.frame_of[function], op.arguments[function], op.places[function]
    unit, here, ends_inside = op.stops[2 * frame], op.place[1], _ends_inside(op, frame)
    if argument == TILED or not _ends_by_change(op, slot, frame):
        return stop
    if not _is_equal(op, function) or op.without[frame] != NOTHING:
        return here
    contains, is_before = True, True
    for version in range(VERSIONS):
        contains &= _spans(op, version)[2 * frame] <= op.change_place[version]
        is_before &= _spans(op, version)[2 * frame] + max(place, 0) < op.change_place[version]
    if argument >= 0 and op.items[function] == 0 and place >= 0 and is_before:
        return stop
    if unit == ALL:
        from_end = argument < 0 or place == 0 or op.starts[2 * frame] == ALL
        return stop if contains and (from_end or (place < 0 and _are_placed(op, function, -1 - place))) else here
    if op.by_copy != 0 and btree.copies_of(op.order, slot, 1) > 1:
        return here  # the values are those of the last copy
    if argument >= 0:
        is_last = op.items[function] == 0 and ends_inside and ((place == -1 and contains) or _is_one_row(op, frame))
        return _picked_from(op, frame, here) if is_last else here
    if not contains:
        return here
    kind = op.order.kinds[op.items[function]]
    if kind == ROWS and unit == BY_ROWS and ends_inside:
        return stop
    return _extreme_from(op, function, here, stop) if kind >= SMALLEST else here


@kernel
def _is_equal(op: FramesBlock, function: int) -> bool:
    """Return whether a function has the same value for the current row in both versions, before it is rounded.

    Sums of doubles that are rounded to the same number may differ, and so may what comes of them when others are added.
    """
    item, frame, equal = op.items[function], op.frame_of[function], op.old_out[function] == op.new_out[function]
    if op.arguments[function] == SUMMED and op.order.kinds[item] == SUM_OF_DOUBLES:
        old, new = sums_of(op, frame, 0)[item:], sums_of(op, frame, 1)[item:]
        for word in range(SUM_WORDS):
            equal &= old[word] == new[word]
    return equal


@inline
def _spans(op: FramesBlock, version: int) -> Array:
    """Return the places at which the frames of the current row begin and end in a version."""
    return op.new_spans if version == 1 else op.old_spans


@kernel
def _begins_inside(op: FramesBlock, frame: int) -> bool:
    """Return whether the distance at which the frames of the current row begin is not cut off by the group."""
    is_far = op.old_spans[2 * frame] > op.group_start[0] and op.new_spans[2 * frame] > op.group_start[1]
    return is_far or op.starts[2 * frame] in (PEERS, VALUES)


@kernel
def _ends_inside(op: FramesBlock, frame: int) -> bool:
    """Return whether the distance at which the frames of the current row end is not cut off by the group."""
    is_far = op.old_spans[2 * frame + 1] < op.group_stop[0] and op.new_spans[2 * frame + 1] < op.group_stop[1]
    return is_far or op.stops[2 * frame] in (PEERS, VALUES)


@inline
def _is_one_row(op: FramesBlock, frame: int) -> bool:
    """Return whether a frame is a row at some distance."""
    starts, stops = op.starts, op.stops
    same = starts[2 * frame] == stops[2 * frame] and starts[2 * frame + 1] == stops[2 * frame + 1]
    return same and starts[2 * frame] == BY_ROWS


@kernel
def _are_placed(op: FramesBlock, function: int, place: int) -> bool:
    """Return whether the frame of a function has a row at a place in both versions, or equally many rows."""
    frame, item = op.frame_of[function], op.items[function]
    old = counted(op, 0, item, op.old_spans[2 * frame + 1]) - counted(op, 0, item, op.old_spans[2 * frame])
    new = counted(op, 1, item, op.new_spans[2 * frame + 1]) - counted(op, 1, item, op.new_spans[2 * frame])
    return old == new or min(old, new) > place


@kernel
def _place_of(op: FramesBlock, slot: int, version: int) -> int:
    """Return the place of a row in a version."""
    return btree.rows_before(op.order, slot, version, op.order.compared_words, slot)


@kernel
def _changed_before(op: FramesBlock, slot: int) -> int:
    """Return the number of changed rows that precede a row."""
    low, high = 0, op.changed_rows
    while low < high:
        middle = (low + high) >> 1
        if btree.precedes(op.order, op.changed[middle], slot):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _holds_until(op: FramesBlock, frame: int, slot: int, here: int) -> int:
    """Return the place in version 1 of the first row behind the current one whose frame begins behind a row.

    here: the place behind the current row. The row that it may begin behind is in both versions.
    """
    unit, offset = op.starts[2 * frame], op.starts[2 * frame + 1]
    old = stop_of(op, slot, 0, _place_of(op, slot, 0), unit, -offset) - op.place[0]
    new = stop_of(op, slot, 1, _place_of(op, slot, 1), unit, -offset) - op.place[1]
    return max(op.place[1] + min(old, new), here)


@kernel
def _holds_from(op: FramesBlock, frame: int, slot: int, here: int) -> int:
    """Return the place in version 1 of the first row before the current one whose frame ends behind a row."""
    unit, offset = op.stops[2 * frame], op.stops[2 * frame + 1]
    old = start_of(op, slot, 0, _place_of(op, slot, 0), unit, -offset) - op.place[0]
    new = start_of(op, slot, 1, _place_of(op, slot, 1), unit, -offset) - op.place[1]
    return min(op.place[1] + max(old, new), here)


@kernel
def _is_same(op: FramesBlock, slot: int, old: int, new: int) -> bool:
    """Return whether the places of both versions have the same copy of a row, which the place of version 1 has."""
    is_there = btree.slot_at_place(op.order, 0, 0, old) == slot
    return is_there and old - _place_of(op, slot, 0) == new - _place_of(op, slot, 1)


@kernel
def _picked_until(op: FramesBlock, frame: int, here: int) -> int:
    """Return the place in version 1 of the first row behind the current one whose frame may begin with another row."""
    order, old, new = op.order, op.old_spans[2 * frame], op.new_spans[2 * frame]
    if old >= op.old_spans[2 * frame + 1] or new >= op.new_spans[2 * frame + 1]:
        return here
    first = btree.slot_at_place(order, 1, 0, new)
    change = _changed_before(op, first)
    if not _is_same(op, first, old, new) or change == op.changed_rows or op.changed[change] == first:
        return here
    last = btree.preceding(order, btree.seek(order, op.changed[change]))
    return _holds_until(op, frame, btree.slot_at(order, last), here)


@kernel
def _picked_from(op: FramesBlock, frame: int, here: int) -> int:
    """Return the place in version 1 of the first row before the current one whose frame must end with the same row."""
    order, old, new = op.order, op.old_spans[2 * frame + 1], op.new_spans[2 * frame + 1]
    if old <= op.old_spans[2 * frame] or new <= op.new_spans[2 * frame]:
        return here
    last = btree.slot_at_place(order, 1, 0, new - 1)
    change = _changed_before(op, last) - 1
    is_changed = change + 1 < op.changed_rows and op.changed[change + 1] == last
    if not _is_same(op, last, old - 1, new - 1) or change < 0 or is_changed:
        return here
    first = btree.following(order, btree.seek(order, op.changed[change]))
    return _holds_from(op, frame, btree.slot_at(order, first), here)


@kernel
def _extreme_until(op: FramesBlock, function: int, here: int, stop: int) -> int:
    """Return the place in version 1 of the first row behind the current one whose frame may have another extreme.

    If its frames begin with the same rows up to a changed one, let b be the last of these that is at most as large as
    all rows behind them. No frame that has b has another extreme, however small the rows before b are.
    """
    order, frame, item, found = op.order, op.frame_of[function], op.items[function], op.new_out[function]
    if found == NULL:
        return stop
    old, new = op.old_spans[2 * frame], op.new_spans[2 * frame]
    change = _changed_before(op, btree.slot_at_place(order, 1, 0, new))
    if change < op.changed_rows and _begins_inside(op, frame):
        old_change, new_change = _place_of(op, op.changed[change], 0), _place_of(op, op.changed[change], 1)
        if new_change > new and new_change - new == old_change - old:
            btree.clear_sums(order, op.counted)
            btree.add_rows_between(order, 0, old_change, op.old_spans[2 * frame + 1], op.counted)
            btree.add_rows_between(order, 1, new_change, op.new_spans[2 * frame + 1], op.counted)
            if op.counted[item] == NULL:
                return stop
            at = btree.nearest_within(order, 1, item, new, new_change, op.counted[item], -1)
            if at >= 0:
                return _holds_until(op, frame, btree.slot_at_place(order, 1, 0, at), here)
    slot = _common_extreme(op, frame, item, found, -1)
    return here if slot == 0 else _holds_until(op, frame, slot, here)


@kernel
def _extreme_from(op: FramesBlock, function: int, here: int, stop: int) -> int:
    """Return the place in version 1 of the first row before the current one whose frame must have the same extreme."""
    order, frame, item, found = op.order, op.frame_of[function], op.items[function], op.new_out[function]
    if found == NULL:
        return stop
    old, new = op.old_spans[2 * frame + 1], op.new_spans[2 * frame + 1]
    last = btree.slot_at_place(order, 1, 0, new - 1)
    change = _changed_before(op, last)
    if change == op.changed_rows or op.changed[change] != last:
        change -= 1
    if change >= 0 and _ends_inside(op, frame):
        slot = op.changed[change]
        old_change = _place_of(op, slot, 0) + btree.copies_of(order, slot, 0)
        new_change = _place_of(op, slot, 1) + btree.copies_of(order, slot, 1)
        if new_change < new and new - new_change == old - old_change:
            btree.clear_sums(order, op.counted)
            btree.add_rows_between(order, 0, op.old_spans[2 * frame], old_change, op.counted)
            btree.add_rows_between(order, 1, op.new_spans[2 * frame], new_change, op.counted)
            if op.counted[item] == NULL:
                return stop
            at = btree.nearest_within(order, 1, item, new_change, new, op.counted[item], 1)
            if at >= 0:
                return _holds_from(op, frame, btree.slot_at_place(order, 1, 0, at), here)
    slot = _common_extreme(op, frame, item, found, 1)
    return here if slot == 0 else _holds_from(op, frame, slot, here)


@kernel
def _common_extreme(op: FramesBlock, frame: int, item: int, value: int, step: int) -> int:
    """Return the first row (step 1) or the last one (step -1) with the extreme value of a frame, or 0.

    The row is the nearest one in version 1 or in version 0, and in the frame of both.
    """
    order = op.order
    for version in range(VERSIONS - 1, -1, -1):
        start, stop = _spans(op, version)[2 * frame], _spans(op, version)[2 * frame + 1]
        at = btree.nearest_within(order, version, item, start, stop, value, step)
        slot, other = btree.slot_at_place(order, version, 0, at), 1 - version
        place = _place_of(op, slot, other)
        is_in = _spans(op, other)[2 * frame] <= place < _spans(op, other)[2 * frame + 1]
        if is_in and btree.copies_of(order, slot, other) != 0:
            return slot
    return 0
