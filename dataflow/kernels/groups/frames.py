"""Frames: functions of each row over the rows near it in its group, which are computed when they are needed.

The rows of all groups are in one tree with sums (`btree.py`), before the time and after it. A value is computed from
the tree when it is needed: two searches find the ends of the frame, and one descent sums up the rows between them, or
finds the row at a place of the frame. So a record has no values of its own.

When a time ends, the operator goes from each changed row to the rows whose frames contain it, in both directions, and
emits those whose values differ. A frame without an end on one side contains rows at any distance. Then the operator
stops at the first row whose values are equal in both versions, if those of the rows behind it follow from them, and
goes on to the next changed row. So a time costs a few searches for each changed row and for each row whose frame
contains one.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.groups.grouped_rows import (
    MANY_COPIES,
    OUT_OF_BOUNDS,
    RowRecord,
    fail,
    group_step,
    record_at,
)
from deltamark.dataflow.kernels.groups.ordered_rows import (
    MAX_COPIES,
    OrderedGroup,
    OrderedRowsBlock,
    are_peers,
    emit_with,
    put_in_order,
    settle_rows,
    state_of,
)
from deltamark.dataflow.kernels.ordered import btree
from deltamark.dataflow.kernels.ordered.btree import LAST_SLOT, VERSIONS
from deltamark.dataflow.types import NULL

ALL, BY_ROWS, PEERS, VALUES, BY_PEERS = range(5)
"""The units of an end of a frame: none, numbers of rows, the rows that are equal in order, values of the order, or
numbers of groups of rows that are equal in order."""

NOTHING, ROW, ROW_AND_TIES, TIES = range(4)
"""The rows of a frame that are left out: the row itself, the row and those equal in order, or only these others."""

SUMMED, TILED = -1, -2
"""The arguments of functions that pick no value of a record."""

STATE_WORDS = VERSIONS + 1
"""The words of the operator in a record: its weight in each version, and the number of the time that has passed it."""


class FramesBlock(OrderedRowsBlock):
    """Rows in order, in a tree with sums."""

    frames: int
    starts: Array
    """For each frame the unit and the offset of its start."""
    stops: Array
    """For each frame the unit and the offset of its end."""
    without: Array
    """For each frame the rows that it leaves out."""
    is_summed: Array
    """For each frame whether a function sums it up."""
    frame_of: Array
    """For each function its frame."""
    items: Array
    """For each function the sum of the tree that it reads, or by which it counts rows."""
    arguments: Array
    """For each function the value of a record that it picks, SUMMED or TILED."""
    places: Array
    """For each function the place in the frame, from the end if it is negative, or the number of tiles."""
    is_open_before: int
    """Whether a frame begins with the first row of the group."""
    is_open_behind: int
    """Whether a frame ends with the last row of the group."""
    most_rows: int
    """The largest number of rows, for which the sums fit in 64 bits."""
    sums: Array
    """Scratch: the sums of each frame."""
    counted: Array
    """Scratch: the sums of the rows before a place."""
    old_spans: Array
    """The places at which each frame of the current row begins and ends in version 0."""
    new_spans: Array
    group_start: Array
    """The place of the first row of the group in each version."""
    group_stop: Array
    """The place behind the last row of the group in each version."""
    place: Array
    """The place of the current row in each version."""
    change: int = 0
    """The changed row that the sweep has passed last."""
    change_place: Array
    """Its place in each version."""
    is_settled: int = 0
    """Whether the values of the rows that follow in an open frame are equal in both versions."""
    time_number: int = 0
    """The number of times that have ended for groups."""


@kernel
def frames(op: FramesBlock, group_id: int, group: OrderedGroup) -> int:
    """End a time for a group; return an error, or 0."""
    order, changed = op.order, op.changed
    count = put_in_order(op, group)
    if count < 0:
        return op.error
    for at in range(count):
        row = record_at(op.rows, changed[at])
        btree.set_copies(order, changed[at], row.old_weight, row.weight)
    if count > 0:
        for version in range(VERSIONS):
            op.group_start[version] = btree.rows_before(order, changed[0], version, 1, 0)
            op.group_stop[version] = btree.rows_before(order, changed[0], version, 1, LAST_SLOT)
        if op.group_stop[1] - op.group_start[1] > op.most_rows:
            return fail(op, OUT_OF_BOUNDS, 0, changed[0])
        op.time_number += 1
        if not (_sweep_on(op, group_id, count) and _sweep_back(op, group_id, count)):
            return op.error
        for function in range(op.functions):
            if op.arguments[function] == TILED and not _sweep_tiles(op, op.places[function], count):
                return op.error
    for at in range(count):
        weight = record_at(op.rows, changed[at]).weight
        btree.set_copies(order, changed[at], weight, weight)
    settle_rows(op, group_id, group, count)
    return 0


@kernel
def _sweep_on(op: FramesBlock, group_id: int, count: int) -> bool:
    """Pass the changed rows, and the rows behind them whose frames contain one; return whether all went well."""
    order, at = op.order, 0
    while at < count:
        position = _go_to(op, op.changed[at])
        while position != 0:
            slot = btree.slot_at(order, position)
            row = record_at(op.rows, slot)
            if row.group != group_id:
                break
            if row.next_touched != 0:
                _set_change(op, slot)
                at += 1
            elif not _reaches_back(op, slot):
                break
            if not _pass(op, slot, row):
                return False
            op.is_settled = 0
            if op.is_open_before != 0 and row.next_touched == 0:
                op.is_settled = _is_settled_on(op)
            for version in range(VERSIONS):
                op.place[version] += btree.copies_of(order, slot, version)
            position = btree.following(order, position)
    return True


@kernel
def _sweep_back(op: FramesBlock, group_id: int, count: int) -> bool:
    """Pass the rows before changed rows whose frames contain one; return whether all went well."""
    order, at = op.order, count - 1
    while at >= 0:
        position = _go_to(op, op.changed[at])
        _set_change(op, op.changed[at])
        at -= 1
        position = btree.preceding(order, position)
        while position != 0:
            slot = btree.slot_at(order, position)
            row = record_at(op.rows, slot)
            if row.group != group_id:
                break
            for version in range(VERSIONS):
                op.place[version] -= btree.copies_of(order, slot, version)
            if row.next_touched != 0:
                _set_change(op, slot)
                at -= 1
            elif not _reaches_on(op, slot):
                break
            elif state_of(op, slot)[VERSIONS] == op.time_number:
                op.is_settled = 0
            else:
                if not _pass(op, slot, row):
                    return False
                op.is_settled = _is_settled_back(op) if op.is_open_behind != 0 else 0
            position = btree.preceding(order, position)
    return True


@kernel
def _sweep_tiles(op: FramesBlock, tiles: int, count: int) -> bool:
    """Pass the rows that change from one tile to another; return whether all went well.

    The rows between two changed ones keep their distances. So the tiles of a version begin at few places among them.
    """
    order, old, new = op.order, op.group_start[0], op.group_start[1]
    old_rows, new_rows = op.group_stop[0] - old, op.group_stop[1] - new
    for at in range(count + 1):
        stop = op.group_stop[1]
        if at < count:
            stop = btree.rows_before(order, op.changed[at], 1, order.compared_words, op.changed[at])
        while new < stop:
            old_tile = _tile(old - op.group_start[0], old_rows, tiles)
            new_tile = _tile(new - op.group_start[1], new_rows, tiles)
            old_left = op.group_start[0] + _rows_of_tiles(old_tile, old_rows, tiles) - old
            new_left = op.group_start[1] + _rows_of_tiles(new_tile, new_rows, tiles) - new
            step = min(old_left, new_left, stop - new)
            if old_tile != new_tile and not _pass_rows(op, new, new + step):
                return False
            old += step
            new += step
        if at < count:
            old += btree.copies_of(order, op.changed[at], 0)
            new += btree.copies_of(order, op.changed[at], 1)
    return True


@kernel
def _tile(place: int, rows: int, tiles: int) -> int:
    """Return the tile of the row at a place of a group, from 1 on."""
    size, larger = rows // tiles, rows % tiles
    if place < larger * (size + 1):
        return place // (size + 1) + 1
    return larger + (place - larger * (size + 1)) // max(size, 1) + 1


@inline
def _rows_of_tiles(count: int, rows: int, tiles: int) -> int:
    """Return the number of rows in the first tiles of a group."""
    return count * (rows // tiles) + min(count, rows % tiles)


@kernel
def _pass_rows(op: FramesBlock, start: int, stop: int) -> bool:
    """Pass the rows from one place of version 1 up to another; return whether all went well."""
    order = op.order
    position = _go_to(op, btree.slot_at_place(order, 1, 0, start))
    while position != 0 and op.place[1] < stop:
        slot = btree.slot_at(order, position)
        if state_of(op, slot)[VERSIONS] != op.time_number and not _pass(op, slot, record_at(op.rows, slot)):
            return False
        for version in range(VERSIONS):
            op.place[version] += btree.copies_of(order, slot, version)
        position = btree.following(order, position)
    return True


@kernel
def _go_to(op: FramesBlock, slot: int) -> int:
    """Let a row be the current one; return its position."""
    for version in range(VERSIONS):
        op.place[version] = btree.rows_before(op.order, slot, version, op.order.compared_words, slot)
    return btree.seek(op.order, slot)


@kernel
def _set_change(op: FramesBlock, slot: int) -> None:
    """Let the current row be the changed row that was passed last."""
    op.change = slot
    op.is_settled = 0
    for version in range(VERSIONS):
        op.change_place[version] = op.place[version]


@kernel
def _reaches_back(op: FramesBlock, slot: int) -> bool:
    """Return whether a frame of the current row, which lies behind the changed row, may begin at it or before it."""
    order, reaches = op.order, False
    for frame in range(op.frames):
        unit, offset = op.starts[2 * frame], op.starts[2 * frame + 1]
        if unit == ALL:
            reaches |= op.is_settled == 0
        elif unit == BY_ROWS:
            for version in range(VERSIONS):
                copies = btree.copies_of(order, op.change, version)
                reaches |= copies != 0 and op.place[version] + offset < op.change_place[version] + copies
        elif unit == BY_PEERS:
            for version in range(VERSIONS):
                copies = btree.copies_of(order, op.change, version)
                if copies != 0:
                    start = _start_of(op, slot, version, op.place[version], unit, offset)
                    reaches |= start < op.change_place[version] + copies
        elif unit == PEERS or _is_missing(op, slot):
            reaches |= are_peers(op, slot, op.change)
        else:
            reaches |= _are_alike(op, slot) and _key(op, slot) + offset <= _key(op, op.change)
    return reaches


@kernel
def _reaches_on(op: FramesBlock, slot: int) -> bool:
    """Return whether a frame of the current row, which lies before the changed row, may end at it or behind it."""
    order, reaches = op.order, False
    for frame in range(op.frames):
        unit, offset = op.stops[2 * frame], op.stops[2 * frame + 1]
        if unit == ALL:
            reaches |= op.is_settled == 0
        elif unit == BY_ROWS:
            for version in range(VERSIONS):
                last = op.place[version] + btree.copies_of(order, slot, version) - 1
                has_copies = btree.copies_of(order, op.change, version) != 0
                reaches |= has_copies and last + offset >= op.change_place[version]
        elif unit == BY_PEERS:
            for version in range(VERSIONS):
                if btree.copies_of(order, op.change, version) != 0:
                    stop = _stop_of(op, slot, version, op.place[version], unit, offset)
                    reaches |= stop > op.change_place[version]
        elif unit == PEERS or _is_missing(op, slot):
            reaches |= are_peers(op, slot, op.change)
        else:
            reaches |= _are_alike(op, slot) and _key(op, slot) + offset >= _key(op, op.change)
    return reaches


@inline
def _key(op: FramesBlock, slot: int) -> int:
    """Return the value of the last column of the order, in which values are offsets."""
    return record_at(op.rows, slot).values[op.peer_words - 1]


@inline
def _is_missing(op: FramesBlock, slot: int) -> bool:
    return btree.is_missing(_key(op, slot))


@kernel
def _are_alike(op: FramesBlock, slot: int) -> bool:
    """Return whether a row and the changed row are equal in all columns of the order but the last, which none lacks."""
    equal = not _is_missing(op, op.change)
    one, other = record_at(op.rows, slot), record_at(op.rows, op.change)
    for word in range(op.peer_words - 1):
        equal &= one.values[word] == other.values[word]
    return equal


@kernel
def _is_settled_on(op: FramesBlock) -> int:
    """Return whether the rows behind the current one have equal values in both versions in frames without a start.

    The frames of the current row contain the changed row, and grow by the same rows.
    """
    order = op.order
    for function in range(op.functions):
        frame = op.frame_of[function]
        if op.starts[2 * frame] != ALL:
            continue
        if op.old_out[function] != op.new_out[function] or op.without[frame] != NOTHING:
            return 0
        for version in range(VERSIONS):
            spans = op.new_spans if version == 1 else op.old_spans
            if spans[2 * frame + 1] < op.change_place[version] + btree.copies_of(order, op.change, version):
                return 0
        place = op.places[function]
        if op.arguments[function] >= 0 and place >= 0 and not _are_placed(op, function, place):
            return 0
    return 1


@kernel
def _is_settled_back(op: FramesBlock) -> int:
    """Return whether the rows before the current one have equal values in both versions in frames without an end."""
    for function in range(op.functions):
        frame = op.frame_of[function]
        if op.stops[2 * frame] != ALL:
            continue
        if op.old_out[function] != op.new_out[function] or op.without[frame] != NOTHING:
            return 0
        if op.old_spans[2 * frame] > op.change_place[0] or op.new_spans[2 * frame] > op.change_place[1]:
            return 0
        if op.arguments[function] >= 0 and op.starts[2 * frame] != ALL:
            place = op.places[function]
            if place > 0 or (place < 0 and not _are_placed(op, function, -1 - place)):
                return 0
    return 1


@kernel
def _are_placed(op: FramesBlock, function: int, place: int) -> bool:
    """Return whether the frame of a function has a row at a place in both versions, or equally many rows."""
    frame, item = op.frame_of[function], op.items[function]
    old = _counted(op, 0, item, op.old_spans[2 * frame + 1]) - _counted(op, 0, item, op.old_spans[2 * frame])
    new = _counted(op, 1, item, op.new_spans[2 * frame + 1]) - _counted(op, 1, item, op.new_spans[2 * frame])
    return old == new or min(old, new) > place


@kernel
def _pass(op: FramesBlock, slot: int, row: RowRecord) -> bool:
    """Emit how the values of a row change; return whether they are in bounds."""
    state = state_of(op, slot)
    old, new = state[0], state[1]
    state[VERSIONS] = op.time_number
    if op.by_copy == 0:
        return _step(op, slot, row, 0, old, new)
    if max(old, new) > MAX_COPIES:
        fail(op, MANY_COPIES, 0, slot)
        return False
    fits = True
    for copy in range(max(old, new)):
        fits &= _step(op, slot, row, copy, int(copy < old), int(copy < new))
    return fits


@kernel
def _step(op: FramesBlock, slot: int, row: RowRecord, copy: int, old: int, new: int) -> bool:
    """Emit how the values of copies of a row change; return whether they are in bounds."""
    if old != 0:
        _evaluate(op, slot, 0, op.place[0] + copy, op.old_out, op.old_spans)
    if new != 0:
        _evaluate(op, slot, 1, op.place[1] + copy, op.new_out, op.new_spans)
    equal, fits = old != 0 and new != 0, True
    for function in range(op.functions):
        after = op.new_out[function]
        equal &= op.old_out[function] == after
        if op.arguments[function] == SUMMED and after != NULL:
            fits &= op.bounds[2 * function] <= after <= op.bounds[2 * function + 1]
    if new != 0 and not fits:
        fail(op, OUT_OF_BOUNDS, 0, slot)
        return False
    if equal:
        emit_with(op, row.values, op.new_out, new - old)
    else:
        emit_with(op, row.values, op.old_out, -old)
        emit_with(op, row.values, op.new_out, new)
    return True


@kernel
def _evaluate(op: FramesBlock, slot: int, version: int, place: int, values: Array, spans: Array) -> None:
    """Compute the functions of a row at a place of a version, and the places at which its frames begin and end."""
    for frame in range(op.frames):
        start = _start_of(op, slot, version, place, op.starts[2 * frame], op.starts[2 * frame + 1])
        stop = _stop_of(op, slot, version, place, op.stops[2 * frame], op.stops[2 * frame + 1])
        start = max(start, op.group_start[version])
        spans[2 * frame] = start
        spans[2 * frame + 1] = max(min(stop, op.group_stop[version]), start)
        if op.is_summed[frame] != 0:
            _sum_up(op, slot, version, place, frame, spans)
    for function in range(op.functions):
        frame = op.frame_of[function]
        if op.arguments[function] == TILED:
            low = op.group_start[version]
            values[function] = _tile(place - low, op.group_stop[version] - low, op.places[function])
        elif op.arguments[function] == SUMMED:
            values[function] = op.sums[op.order.items * frame + op.items[function]]
        else:
            values[function] = _picked(op, function, version, spans[2 * frame], spans[2 * frame + 1])


@kernel
def _start_of(op: FramesBlock, slot: int, version: int, place: int, unit: int, offset: int) -> int:
    """Return the place at which a frame of a row begins, or a place before the group."""
    if unit == ALL:
        return op.group_start[version]
    if unit == BY_ROWS:
        return place + offset
    if unit == BY_PEERS:
        if offset > 0:
            return _behind_peers(op, slot, version, offset - 1)
        return _before_peers(op, slot, version, -offset)
    return btree.rows_before(op.order, _probe(op, slot, unit, offset), version, 1 + op.peer_words, 0)


@kernel
def _stop_of(op: FramesBlock, slot: int, version: int, place: int, unit: int, offset: int) -> int:
    """Return the place behind the last row of a frame of a row, or a place behind the group."""
    if unit == ALL:
        return op.group_stop[version]
    if unit == BY_ROWS:
        return place + offset + 1
    if unit == BY_PEERS:
        if offset < 0:
            return _before_peers(op, slot, version, -offset - 1)
        return _behind_peers(op, slot, version, offset)
    return btree.rows_before(op.order, _probe(op, slot, unit, offset), version, 1 + op.peer_words, LAST_SLOT)


@kernel
def _before_peers(op: FramesBlock, slot: int, version: int, count: int) -> int:
    """Return the place of the first of the peers that lie a number of groups of peers before a row."""
    order, words = op.order, 1 + op.peer_words
    place = btree.rows_before(order, slot, version, words, 0)
    while count > 0 and place > op.group_start[version]:
        place = btree.rows_before(order, btree.slot_at_place(order, version, 0, place - 1), version, words, 0)
        count -= 1
    return place


@kernel
def _behind_peers(op: FramesBlock, slot: int, version: int, count: int) -> int:
    """Return the place behind the last of the peers that lie a number of groups of peers behind a row."""
    order, words = op.order, 1 + op.peer_words
    place = btree.rows_before(order, slot, version, words, LAST_SLOT)
    while count > 0 and place < op.group_stop[version]:
        place = btree.rows_before(order, btree.slot_at_place(order, version, 0, place), version, words, LAST_SLOT)
        count -= 1
    return place


@kernel
def _probe(op: FramesBlock, slot: int, unit: int, offset: int) -> int:
    """Return the slot of a record that is in order as a row with another value is, or as its peers."""
    if unit == PEERS or offset == 0 or _is_missing(op, slot):
        return slot
    row, probe = record_at(op.rows, slot), record_at(op.rows, 0)
    probe.group = row.group
    for word in range(op.peer_words):
        probe.values[word] = row.values[word]
    probe.values[op.peer_words - 1] += offset
    return 0


@kernel
def _sum_up(op: FramesBlock, slot: int, version: int, place: int, frame: int, spans: Array) -> None:
    """Sum up the rows of a frame, without those that it leaves out."""
    order, start, stop, without = op.order, spans[2 * frame], spans[2 * frame + 1], op.without[frame]
    sums = op.sums[order.items * frame :]
    btree.clear_sums(order, sums)
    if without == NOTHING:
        btree.add_rows_between(order, version, start, stop, sums)
        return
    first, behind = place, place + 1
    if without != ROW:
        first = btree.rows_before(order, slot, version, 1 + op.peer_words, 0)
        behind = btree.rows_before(order, slot, version, 1 + op.peer_words, LAST_SLOT)
    btree.add_rows_between(order, version, start, min(stop, first), sums)
    btree.add_rows_between(order, version, max(start, behind), stop, sums)
    if without == TIES and start <= place < stop:
        btree.add_rows_between(order, version, place, place + 1, sums)


@kernel
def _picked(op: FramesBlock, function: int, version: int, start: int, stop: int) -> int:
    """Return the value of the row at the place of a function in its frame, or NULL if there is none."""
    item, place = op.items[function], op.places[function]
    start, stop = _counted(op, version, item, start), _counted(op, version, item, stop)
    at = start + place if place >= 0 else stop + place
    if not start <= at < stop:
        return NULL
    return record_at(op.rows, btree.slot_at_place(op.order, version, item, at)).values[op.arguments[function]]


@kernel
def _counted(op: FramesBlock, version: int, item: int, place: int) -> int:
    """Return the number of rows before a place, or of those whose value is not NULL."""
    if item == 0:
        return place
    btree.clear_sums(op.order, op.counted)
    btree.add_rows_between(op.order, version, 0, place, op.counted)
    return op.counted[item]


FRAMES = group_step(frames)
