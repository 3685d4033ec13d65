"""A join inside a loop: rows of the loop with an arrangement from outside, which no iteration changes.

A trace keeps all rows that the loop has ever sent, with their iterations. So the updates of the arrangement, at the
beginning of an epoch, are joined with the trace. In either direction a pair belongs to the iteration of the loop's row.
The lists of a slice's keys are walked in parallel, one step of each list after another, so that their accesses to
memory overlap.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock, number_of, slot_of
from deltamark.dataflow.kernels.arrangements.join import product
from deltamark.dataflow.kernels.core.blocks import Array32, Cell, Operator, Vector, Vectors
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.intrinsics import STEPS_PER_POLL, heed_signals, prefetch
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap, find, key_of, remove
from deltamark.dataflow.kernels.loops.trace import FREED, Trace, add_slice, remove_row, row_at
from deltamark.dataflow.kernels.status import DONE, FAILED

AHEAD = 16
"""The number of rows ahead at which lists are prefetched. Not measured."""


class LoopJoinBlock(Operator):
    """Pairs of the loop's rows, which are the slice of the trace, and rows of an arrangement."""

    trace: Trace
    outer: ArrangementBlock
    now: Cell
    """The epoch."""
    cursor: int = 0
    stop: int = 0
    """The updates of the arrangement, in its slice, that are to be joined with the trace."""
    overflow: int = 0
    """Set if a product or a sum of weights needs more than 64 bits."""
    size: Cell
    iteration: Vector
    diff: Vector
    slot: Vector
    """Output: the slots of the arrangement's rows."""
    columns: Vectors
    """Output: the values of the loop's rows."""
    hits: Array32
    """Scratch: pairs of a row of the slice and the link to the next row that it meets."""


@kernel
def loop_join(op: LoopJoinBlock) -> int:
    """Join updates of the arrangement with the trace and the slice with the arrangement; add the slice to the trace."""
    trace = op.trace
    size = _join_updates(op, trace)
    op.size = _join_slice(op, trace, size)
    wrapped = add_slice(trace)
    slots = trace.slots
    for at in range(trace.size):
        row = row_at(trace, slots[at])
        key_id = row.key_id
        if row.weight == 0 and key_id != FREED:
            remove_row(trace, slots[at])
            if trace.lists[key_id] == 0:
                remove(trace.keys, key_of(trace.keys, key_id))
    if wrapped < 0:
        op.overflow = 1
    return FAILED if op.overflow != 0 else DONE


@kernel
def _join_updates(op: LoopJoinBlock, trace: Trace) -> int:
    """Pair updates of the arrangement with rows of the trace; return the number of pairs."""
    outer, keys, lists, columns, size = op.outer, trace.keys, trace.lists, trace.columns, 0
    key, diffs = outer.key, outer.diff
    out_iteration, out_diff, out_slot, out_columns = op.iteration, op.diff, op.slot, op.columns
    for at in range(op.cursor, op.stop):
        key_id = _find_id(keys, key[at])
        slot = lists[key_id] if key_id >= 0 else 0
        while slot != 0:
            row = row_at(trace, slot)
            out_iteration[size] = row.iteration
            out_diff[size] = product(op, diffs[at], row.weight)
            out_slot[size] = slot_of(outer, at)
            for column in range(columns):
                out_columns[column][size] = row.values[column]
            size += 1
            slot = row.next
    op.cursor = op.stop
    return size


@kernel
def _find_id(keys: KeyMap, key: int) -> int:
    """Return the id of a key, -1 if it has none."""
    if keys.hashed != 0:
        return find(keys, key)
    return key - keys.low if keys.low <= key <= keys.high else -1


@kernel
def _join_slice(op: LoopJoinBlock, trace: Trace, size: int) -> int:
    """Pair the rows of the slice with rows of the arrangement; return the new number of pairs."""
    outer, hits = op.outer, op.hits
    following, weights, weighted = outer.next, outer.weight, outer.weighted != 0
    mark, limit = outer.mark, outer.limit
    times, updates, end, now = outer.visible_time, outer.visible_diff, outer.first + outer.size, op.now
    iterations, diffs, columns = trace.iteration, trace.diff, trace.columns
    out_iteration, out_diff, out_slot = op.iteration, op.diff, op.slot
    active, last_poll = _collect_hits(trace, outer, hits), size
    while active > 0:
        if size - last_poll >= STEPS_PER_POLL:
            heed_signals()
            last_poll = size
        start, left = size, 0
        for index in range(active):
            prefetch(following[hits[2 * (index + AHEAD) + 1] - 1 :].address)
            at, row = hits[2 * index], hits[2 * index + 1] - 1
            link = following[row]
            is_taken = link < 0
            link = ~link if is_taken else link
            hits[2 * left] = at
            hits[2 * left + 1] = link
            left += link != 0
            if is_taken and times[outer.taken_by[row]] <= now:
                continue
            diff = diffs[at]
            if mark <= row < limit:
                update = number_of(outer, row)
                if update >= end or times[update] > now:
                    continue
                diff = product(op, diff, updates[update])
            elif weighted:
                diff = product(op, diff, weights[row])
            out_iteration[size] = at
            out_diff[size] = diff
            out_slot[size] = row
            size += 1
        for column in range(columns):
            source, target = trace.inputs[column], op.columns[column]
            for pair in range(start, size):
                target[pair] = source[out_iteration[pair]]
        for pair in range(start, size):
            out_iteration[pair] = iterations[out_iteration[pair]]
        active = left
    return size


@kernel
def _collect_hits(trace: Trace, outer: ArrangementBlock, hits: Array32) -> int:
    """Collect each list of the arrangement under the key of a row, with the row; return the number of lists."""
    key, keys, lists, count = trace.key, outer.keys, outer.lists, 0
    hashed, low, high = keys.hashed != 0, keys.low, keys.high
    for at in range(trace.size):
        if not hashed:
            prefetch(lists[2 * (key[at + AHEAD] - low) :].address)
        key_id = find(keys, key[at]) if hashed else key[at] - low
        if key_id < 0 or (not hashed and key_id > high - low):
            continue
        for which in range(1 + (outer.has_pending != 0)):
            link = lists[2 * key_id] if which == 0 else outer.pending[key_id]
            hits[2 * count] = at
            hits[2 * count + 1] = link
            count += link != 0
    return count


LOOP_JOIN = step(loop_join)
