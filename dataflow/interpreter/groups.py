"""The loop of the operators over grouped rows, such as extreme and top.

It adds the updates of one or two inputs time by time. When a time has ended, the operator processes each group that the
time has touched.
"""

from __future__ import annotations

from deltamark.dataflow.interpreter.registry import define, end_group_source
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.groups.grouped_rows import (
    GROUP_WORDS,
    GroupedRowsBlock,
    RowGroup,
    add_time,
    hash_slice,
    needs_rehash,
)
from deltamark.dataflow.kernels.status import DONE, FAILED, NEEDS_ROOM
from deltamark.dataflow.types import FOREVER

end_group = define(end_group_source())


@kernel
def update_groups(op: GroupedRowsBlock) -> int:
    """Add the updates of the slice, and process the groups of the times that end.

    A failure is described by `op.error`.
    """
    rows, limits, frontier = op.rows, op.limits, op.frontier
    has_limits = limits.address != 0
    if needs_rehash(rows) or (has_limits and needs_rehash(limits)):
        return NEEDS_ROOM
    op.out_size = 0
    hash_slice(rows)
    size, times, at, limits_size, limit_times, limit = rows.size, rows.time, 0, 0, rows.time, 0
    if has_limits:
        hash_slice(limits)
        limits_size, limit_times = limits.size, limits.time
    while at < size or limit < limits_size:
        time = times[at] if at < size else FOREVER
        limit_time = limit_times[limit] if limit < limits_size else FOREVER
        now = min(time, limit_time)
        if now != op.open_time:
            if op.touched_count > 0 and _end_time(op) != 0:
                return FAILED
            op.open_time = now
        if time == now:
            at = add_time(op, rows, at)
        if limit_time == now:
            limit = add_time(op, limits, limit)
        if at < 0 or limit < 0:
            return FAILED
    if op.touched_count > 0 and op.open_time < frontier and _end_time(op) != 0:
        return FAILED
    return DONE


@kernel
def _end_time(op: GroupedRowsBlock) -> int:
    """Process the groups that the open time has touched; return an error, or 0."""
    groups, touched = op.groups, op.touched
    for place in range(op.touched_count):
        group_id = touched[place]
        group = RowGroup(groups[GROUP_WORDS * group_id :].address)
        group.is_touched = 0
        error = end_group(op, group_id, group)
        if error != 0:
            return error
    op.touched_count = 0
    return 0
