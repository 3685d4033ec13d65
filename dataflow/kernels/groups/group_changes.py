"""Watch: the loop that extreme, top, bound and or_null share. It takes the updates of one or two inputs time by time,
and has the operator look at each group that a time has touched once the time has ended.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.memory import kernel, load, store
from deltamark.dataflow.kernels.groups.extreme import extreme
from deltamark.dataflow.kernels.groups.grouped_rows import (  # fmt: skip
    FRONTIER,
    GROUP_WORDS,
    GROUPS,
    IS_OPEN,
    KIND,
    LIMITS,
    NOW,
    OPEN,
    OUT_SIZE,
    ROWS,
    SIZE,
    TIME,
    TOUCHED,
    absorb,
    crowded,
    resolve,
)
from deltamark.dataflow.kernels.groups.moving_threshold import bound
from deltamark.dataflow.kernels.groups.null_row import or_null
from deltamark.dataflow.kernels.groups.top import top

EXTREME, TOP, BOUND, OR_NULL = range(4)
"""KINDs."""

CROWDED, FAILED = 1, 2
"""Statuses; nothing was done, or see ERROR."""

FOREVER = 2**62


@kernel
def watch(op: int) -> int:
    rows, limits, frontier = load(op, ROWS), load(op, LIMITS), load(load(op, FRONTIER), 0)
    if crowded(rows) or (limits != 0 and crowded(limits)):
        return CROWDED
    store(load(op, OUT_SIZE), 0, 0)
    resolve(rows)
    size, times, at, more, other_times, other = load(load(rows, SIZE), 0), load(load(rows, TIME), 0), 0, 0, 0, 0
    if limits != 0:
        resolve(limits)
        more, other_times = load(load(limits, SIZE), 0), load(load(limits, TIME), 0)
    while at < size or other < more:
        time = load(times, at) if at < size else FOREVER
        other_time = load(other_times, other) if other < more else FOREVER
        now = min(time, other_time)
        if now != load(op, NOW):
            if load(op, OPEN) > 0 and _end(op) != 0:
                return FAILED
            store(op, NOW, now)
        if time == now:
            at = absorb(op, rows, at)
        if other_time == now:
            other = absorb(op, limits, other)
        if at < 0 or other < 0:
            return FAILED
    if load(op, OPEN) > 0 and load(op, NOW) < frontier and _end(op) != 0:
        return FAILED
    return 0


@kernel
def _end(op: int) -> int:
    """End a time."""
    kind, groups, touched = load(op, KIND), load(op, GROUPS), load(op, TOUCHED)
    for place in range(load(op, OPEN)):
        group_id = load(touched, place)
        group = groups + 8 * GROUP_WORDS * group_id
        store(group, IS_OPEN, 0)
        if kind == EXTREME:
            status = extreme(op, group_id, group)
        elif kind == TOP:
            status = top(op, group)
        elif kind == BOUND:
            status = bound(op, group_id, group)
        else:
            status = or_null(op, group)
        if status != 0:
            return status
    store(op, OPEN, 0)
    return 0
