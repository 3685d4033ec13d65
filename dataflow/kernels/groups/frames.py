"""Frames: functions of each row over the rows near it in its group, which are computed when they are needed.

The rows of all groups are in one tree with sums (`btree.py`), before the time and after it. A value is computed from
the tree (`frame_values.py`), so a record has no values of its own.

When a time ends, the operator goes from each changed row to the rows whose frames contain it, in both directions, and
emits those whose values differ. It jumps over the rows whose values are equal in both versions by those of the row
that it has passed (`frame_skips.py`). So a time costs a few searches for each changed row, for each row whose values
differ, and for each other row at which a jump ends.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.groups.frame_skips import equal_from, equal_until, reaches_back, reaches_on
from deltamark.dataflow.kernels.groups.frame_values import SUMMED, TILED, FramesBlock, evaluate, tile_of
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
    emit_with,
    put_in_order,
    settle_rows,
    state_of,
)
from deltamark.dataflow.kernels.ordered import btree
from deltamark.dataflow.kernels.ordered.btree import LAST_SLOT, VERSIONS
from deltamark.dataflow.types import NULL


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
        op.changed_rows = count
        if not (_sweep_on(op, count) and _sweep_back(op, count)):
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
def _sweep_on(op: FramesBlock, count: int) -> bool:
    """Pass the changed rows, and the rows behind them whose values may differ; return whether all went well."""
    order, changed, position = op.order, op.changed, 0
    for at in range(count):
        slot = changed[at]
        if position == 0:
            position = _go_to(op, slot)
        _set_change(op, slot)
        if not _pass(op, slot, record_at(op.rows, slot)):
            return False
        position = _step_on(op, position)
        if at + 1 == count or position == 0 or btree.slot_at(order, position) != changed[at + 1]:
            stop = op.group_stop[1]
            if at + 1 < count:
                stop = btree.rows_before(order, changed[at + 1], 1, order.compared_words, changed[at + 1])
            if op.place[1] < stop and not _pass_behind(op, position, stop):
                return False
            position = 0
    return True


@kernel
def _pass_behind(op: FramesBlock, position: int, stop: int) -> bool:
    """Pass the rows from the current one on whose values may differ; return whether all went well.

    position: that of the current row; stop: the place in version 1 of the next changed row.
    """
    order = op.order
    while op.place[1] < stop:
        slot = btree.slot_at(order, position)
        if not reaches_back(op, slot):
            break
        if not _pass(op, slot, record_at(op.rows, slot)):
            return False
        behind = op.place[1] + btree.copies_of(order, slot, 1)
        target = equal_until(op, slot, behind, stop)
        if target >= stop:
            break
        if target == behind:
            position = _step_on(op, position)
            continue
        position = _go_to(op, btree.slot_at_place(order, 1, 0, target))
    return True


@kernel
def _sweep_back(op: FramesBlock, count: int) -> bool:
    """Pass the rows before changed rows whose values may differ; return whether all went well."""
    order, changed, position = op.order, op.changed, 0
    for at in range(count - 1, -1, -1):
        if position == 0:
            position = btree.seek(order, changed[at])
        position = btree.preceding(order, position)
        if at == 0 or btree.slot_at(order, position) != changed[at - 1]:
            stop = op.group_start[1]
            if at > 0:
                last = changed[at - 1]
                stop = btree.rows_before(order, last, 1, order.compared_words, last) + btree.copies_of(order, last, 1)
            position = _go_to(op, changed[at])
            _set_change(op, changed[at])
            if not _pass_before(op, position, stop):
                return False
            position = 0
    return True


@kernel
def _pass_before(op: FramesBlock, position: int, stop: int) -> bool:
    """Pass the rows before the current one whose values may differ; return whether all went well.

    position: that of the current row; stop: the place in version 1 behind the changed row before it.
    """
    order, target = op.order, op.place[1]
    while target > stop:
        if target == op.place[1]:
            position = btree.preceding(order, position)
            slot = btree.slot_at(order, position)
            for version in range(VERSIONS):
                op.place[version] -= btree.copies_of(order, slot, version)
        else:
            slot = btree.slot_at_place(order, 1, 0, target - 1)
            position = _go_to(op, slot)
        if not reaches_on(op, slot):
            break
        target = op.place[1]
        if state_of(op, slot)[VERSIONS] != op.time_number:
            if not _pass(op, slot, record_at(op.rows, slot)):
                return False
            target = equal_from(op, slot, stop)
    return True


@kernel
def _step_on(op: FramesBlock, position: int) -> int:
    """Let the row behind the current one be the current one; return its position."""
    order, slot = op.order, btree.slot_at(op.order, position)
    for version in range(VERSIONS):
        op.place[version] += btree.copies_of(order, slot, version)
    return btree.following(order, position)


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
            old_tile = tile_of(old - op.group_start[0], old_rows, tiles)
            new_tile = tile_of(new - op.group_start[1], new_rows, tiles)
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
        position = _step_on(op, position)
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
    for version in range(VERSIONS):
        op.change_place[version] = op.place[version]


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
        evaluate(op, slot, 0, op.place[0] + copy, op.old_out, op.old_spans)
    if new != 0:
        evaluate(op, slot, 1, op.place[1] + copy, op.new_out, op.new_spans)
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


FRAMES = group_step(frames)
