"""The reduction that ends a loop's body: it computes, incrementally and for each key, the input of the next iteration.

Each key has values with weights, and keeps the least value whose weight is at least `min_weight`. A trace holds all
rows with their iterations. A key that changes is evaluated in the iteration of the change and in each later one that
has rows of it; the difference from what it added before the epoch goes into the next iteration. The epoch ends when no
key is left to be evaluated; then the differences after all iterations are the changes of the loop's result.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import prefetch
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.hashing.hash_map import key_of, remove
from deltamark.dataflow.kernels.loops import cycles, worklist
from deltamark.dataflow.kernels.loops.reduce_emit import emit_answer
from deltamark.dataflow.kernels.loops.reduce_evaluate import evaluate, sum_weights
from deltamark.dataflow.kernels.loops.reduce_state import (
    CHANGED,
    CYCLE,
    ENDLESS,
    FIRST_SUMS,
    NEVER,
    NO_VALUE,
    WIDE_WEIGHT,
    BestValues,
    KeyState,
    LoopReduce,
    ReduceInputBlock,
    key_state,
    reduce_row,
)
from deltamark.dataflow.kernels.loops.running_sums import sums_at
from deltamark.dataflow.kernels.loops.trace import Trace, add_slice, remove_row
from deltamark.dataflow.kernels.status import FAILED

FAR, NEAR = 16, 8
"""The number of keys ahead at which states and rows are prefetched. Not measured."""


@kernel
def buffer_updates(op: LoopReduce) -> int:
    """Add the slice to the trace, and schedule the evaluation of its keys."""
    trace = op.trace
    if add_slice(trace) < 0:
        op.error = WIDE_WEIGHT
        return FAILED
    ids, iterations, diffs, values = trace.ids, trace.iteration, trace.diff, trace.resolved[0]
    lists, changed_keys, changed_count, work = trace.lists, op.changed_keys, op.changed_count, op.worklist
    for at in range(trace.size):
        key_id, iteration = ids[at], iterations[at]
        state = key_state(lists, key_id)
        progress = state.progress
        changed_keys[changed_count] = key_id
        changed_count += progress == 0
        state.progress = CHANGED if progress == 0 else progress
        if diffs[at] < 0:
            state.certain_from = 0
            if progress > CHANGED:
                sums_at(op, progress).has_negative = 1
        due = state.due
        if (due == 0 or due > iteration + 1) and not _is_beaten(state, iteration, values[at]):
            state.due = iteration + 1
            worklist.schedule(work, key_id, iteration)
    op.changed_count = changed_count
    return 0


@inline
def _is_beaten(state: KeyState, iteration: int, value: int) -> bool:
    """Return whether the key certainly has a value that is at least as good, and not later."""
    certain_from = state.certain_from
    return certain_from != 0 and certain_from <= iteration + 1 and state.certain_value <= value


@kernel
def evaluate_keys(op: LoopReduce, limit: int) -> int:
    """Evaluate the next keys, at most `limit`, of the first iteration that has any, and write the changes."""
    work, trace, detector = op.worklist, op.trace, op.cycles
    if worklist.is_empty(work):
        return 0
    iteration = worklist.first_iteration(work)
    if iteration != detector.iteration:
        period = cycles.begin_iteration(detector, iteration)
        if period != 0:
            op.error = CYCLE
            op.error_value = period
            return FAILED
    lists, records, record_words, keys = trace.lists, trace.records, trace.record_words, op.evaluated_keys
    count, size = worklist.take(work, limit, keys), 0
    for index in range(count):
        prefetch(key_state(lists, keys[index + FAR]).address)
        near = keys[index + NEAR] if index + NEAR < count else keys[index]
        prefetch(records[record_words * key_state(lists, near).first :].address)
        key_id = keys[index]
        state = key_state(lists, key_id)
        if state.due != iteration + 1:
            continue  # it has been evaluated since it was scheduled
        state.due = 0
        size, following = evaluate(op, key_id, iteration, size)
        if size < 0:
            return FAILED
        if following != NEVER:
            state.due = following + 1
            worklist.schedule(work, key_id, following)
    op.size = size
    if size > 0 and iteration >= op.max_iterations:
        op.error = ENDLESS
        return FAILED
    return 0


@kernel
def end_epoch(op: LoopReduce) -> int:
    """Write the changes of the loop's result, and forget rows without weight and keys without rows."""
    trace, changed_keys, count, size = op.trace, op.changed_keys, op.changed_count, op.answer_size
    lists, keys, records, record_words = trace.lists, trace.keys, trace.records, trace.record_words
    for index in range(count):
        if index + FAR < count:
            prefetch(key_state(lists, changed_keys[index + FAR]).address)
            prefetch(records[record_words * key_state(lists, changed_keys[index + NEAR]).first :].address)
        key_id = changed_keys[index]
        state = key_state(lists, key_id)
        state.progress = 0
        best, failed = _final_values(op, trace, state, key_id)
        _compact(trace, state)
        if failed:
            return FAILED
        key = key_of(keys, key_id)
        if best.new != best.old:
            size = emit_answer(op, size, key, best.old, -1)
            size = emit_answer(op, size, key, best.new, 1)
        if state.first == 0:
            remove(keys, key)
    op.answer_size = size
    op.changed_count = 0
    op.sums_end = FIRST_SUMS
    cycles.end_epoch(op.cycles)
    return 0


@kernel
def _final_values(op: LoopReduce, trace: Trace, state: KeyState, key_id: int) -> tuple[BestValues, bool]:
    """Return the best values of a key after all iterations, and whether a weight is negative."""
    new, old, plain, slot = NO_VALUE, NO_VALUE, op.min_weight == 1, state.first
    while slot != 0:
        row = reduce_row(trace, slot)
        value, weight, old_weight = row.value, row.weight, row.old_weight
        plain &= weight >= 0 and old_weight >= 0
        new = min(new, value) if weight > 0 else new
        old = min(old, value) if old_weight > 0 else old
        slot = row.next
    if not plain:
        return sum_weights(op, key_id, NEVER)
    return BestValues(new, new, old, old), False


@inline
def _compact(trace: Trace, state: KeyState) -> None:
    """Let the weights of a key's rows be those before the next epoch, and remove rows without weight."""
    slot = state.first
    while slot != 0:
        row = reduce_row(trace, slot)
        following, weight = row.next, row.weight
        row.old_weight = weight
        if weight == 0:
            remove_row(trace, slot)
        slot = following


BUFFER_UPDATES = step(buffer_updates, field_of=(ReduceInputBlock, "reduce"))
