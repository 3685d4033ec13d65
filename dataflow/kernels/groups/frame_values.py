"""Values of frames: the places at which the frames of a row begin and end, and functions of the rows between them.

They are computed from a tree with sums (`btree.py`) when they are needed: two searches find the ends of a frame, and
one descent sums up the rows between them, or finds the row at a place of the frame.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.groups.double_sums import rounded_counted
from deltamark.dataflow.kernels.groups.grouped_rows import record_at
from deltamark.dataflow.kernels.groups.ordered_rows import OrderedRowsBlock
from deltamark.dataflow.kernels.ordered import btree
from deltamark.dataflow.kernels.ordered.btree import LAST_SLOT, SUM_OF_DOUBLES, VERSIONS
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
    """For each function the first word of the sum of the tree that it reads, or by which it counts rows."""
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
    """Scratch: the sums of each frame of the current row in version 0, and then in version 1."""
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
    changed_rows: int = 0
    """The number of rows that the time has changed."""
    change: int = 0
    """The changed row that the sweep has passed last."""
    change_place: Array
    """Its place in each version."""
    time_number: int = 0
    """The number of times that have ended for groups."""


@kernel
def evaluate(op: FramesBlock, slot: int, version: int, place: int, values: Array, spans: Array) -> None:
    """Compute the functions of a row at a place of a version, and the places at which its frames begin and end."""
    for frame in range(op.frames):
        start = start_of(op, slot, version, place, op.starts[2 * frame], op.starts[2 * frame + 1])
        stop = stop_of(op, slot, version, place, op.stops[2 * frame], op.stops[2 * frame + 1])
        start = max(start, op.group_start[version])
        spans[2 * frame] = start
        spans[2 * frame + 1] = max(min(stop, op.group_stop[version]), start)
        if op.is_summed[frame] != 0:
            _sum_up(op, slot, version, place, frame, spans)
    for function in range(op.functions):
        frame = op.frame_of[function]
        if op.arguments[function] == TILED:
            low = op.group_start[version]
            values[function] = tile_of(place - low, op.group_stop[version] - low, op.places[function])
        elif op.arguments[function] == SUMMED:
            values[function] = _summed(op, function, version)
        else:
            values[function] = _picked(op, function, version, spans[2 * frame], spans[2 * frame + 1])


@inline
def sums_of(op: FramesBlock, frame: int, version: int) -> Array:
    """Return the sums of a frame of the current row."""
    return op.sums[op.order.items * (op.frames * version + frame) :]


@kernel
def _summed(op: FramesBlock, function: int, version: int) -> int:
    """Return the value of a function that sums up the frame of the current row."""
    item = op.items[function]
    total = sums_of(op, op.frame_of[function], version)[item:]
    return rounded_counted(total) if op.order.kinds[item] == SUM_OF_DOUBLES else total[0]


@kernel
def start_of(op: FramesBlock, slot: int, version: int, place: int, unit: int, offset: int) -> int:
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
def stop_of(op: FramesBlock, slot: int, version: int, place: int, unit: int, offset: int) -> int:
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
    if unit == PEERS or offset == 0 or is_missing(op, slot):
        return slot
    row, probe = record_at(op.rows, slot), record_at(op.rows, 0)
    probe.group = row.group
    for word in range(op.peer_words):
        probe.values[word] = row.values[word]
    probe.values[op.peer_words - 1] += offset
    return 0


@inline
def key_of(op: FramesBlock, slot: int) -> int:
    """Return the value of the last column of the order, in which values are offsets."""
    return record_at(op.rows, slot).values[op.peer_words - 1]


@inline
def is_missing(op: FramesBlock, slot: int) -> bool:
    return btree.is_missing(key_of(op, slot))


@kernel
def _sum_up(op: FramesBlock, slot: int, version: int, place: int, frame: int, spans: Array) -> None:
    """Sum up the rows of a frame, without those that it leaves out."""
    order, start, stop, without = op.order, spans[2 * frame], spans[2 * frame + 1], op.without[frame]
    sums = sums_of(op, frame, version)
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
def tile_of(place: int, rows: int, tiles: int) -> int:
    """Return the tile of the row at a place of a group, from 1 on."""
    size, larger = rows // tiles, rows % tiles
    if place < larger * (size + 1):
        return place // (size + 1) + 1
    return larger + (place - larger * (size + 1)) // max(size, 1) + 1


@kernel
def _picked(op: FramesBlock, function: int, version: int, start: int, stop: int) -> int:
    """Return the value of the row at the place of a function in its frame, or NULL if there is none."""
    item, place = op.items[function], op.places[function]
    start, stop = counted(op, version, item, start), counted(op, version, item, stop)
    at = start + place if place >= 0 else stop + place
    if not start <= at < stop:
        return NULL
    return record_at(op.rows, btree.slot_at_place(op.order, version, item, at)).values[op.arguments[function]]


@kernel
def counted(op: FramesBlock, version: int, item: int, place: int) -> int:
    """Return the number of rows before a place, or of those whose value is not NULL."""
    if item == 0:
        return place
    btree.clear_sums(op.order, op.counted)
    btree.add_rows_between(op.order, version, 0, place, op.counted)
    return op.counted[item]
