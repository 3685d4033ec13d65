"""Output of the reduction that ends a loop's body: changes for the next iteration, and changes of the loop's result."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.hashing.hash_map import key_of
from deltamark.dataflow.kernels.loops.cycles import hash_of
from deltamark.dataflow.kernels.loops.reduce_state import NO_VALUE, BestValues, LoopReduce


@kernel
def emit(op: LoopReduce, key_id: int, iteration: int, size: int, best: BestValues) -> int:
    """Write what a key adds to the next iteration and did not add before the epoch; return the number of changes."""
    if best.new == best.new_prior and best.old == best.old_prior:
        return size
    end = _merge(op, size, size, best.new, 1)
    end = _merge(op, size, end, best.old_prior, 1)
    end = _merge(op, size, end, best.new_prior, -1)
    end = _merge(op, size, end, best.old, -1)
    iterations, diffs, keys, values = op.iteration, op.diff, op.key, op.value
    key, digests, kept = key_of(op.trace.keys, key_id), op.cycles.digests, size
    digest = digests[iteration + 1]
    for at in range(size, end):
        value, diff = values[at], diffs[at]
        iterations[kept] = iteration + 1
        diffs[kept] = diff
        keys[kept] = key
        values[kept] = value
        digest += hash_of(key, value) * diff
        kept += diff != 0
    digests[iteration + 1] = digest
    return kept


@kernel
def _merge(op: LoopReduce, start: int, end: int, value: int, diff: int) -> int:
    """Add a diff to a value's among the changes from `start` on, unless there is no value; return their new end."""
    if value == NO_VALUE:
        return end
    diffs, values = op.diff, op.value
    for at in range(start, end):
        if values[at] == value:
            diffs[at] += diff
            return end
    diffs[end] = diff
    values[end] = value
    return end + 1


@kernel
def emit_answer(op: LoopReduce, size: int, key: int, value: int, diff: int) -> int:
    """Write a change of the loop's result, unless there is no value; return the new number of changes."""
    if value == NO_VALUE:
        return size
    op.answer_time[size] = op.now
    op.answer_diff[size] = diff
    op.answer_key[size] = key
    op.answer_value[size] = value
    return size + 1
