"""Evaluation of a key in an iteration: its best values in this epoch and before it, from its rows or running sums."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.loops import running_sums
from deltamark.dataflow.kernels.loops.reduce_emit import emit
from deltamark.dataflow.kernels.loops.reduce_state import (
    CHANGED,
    EVALUATED_ONCE,
    NEGATIVE_WEIGHT,
    NEVER,
    NO_VALUE,
    SORTED_WORDS,
    BestValues,
    KeyState,
    LoopReduce,
    key_state,
    reduce_row,
    sorted_row,
)
from deltamark.dataflow.kernels.loops.running_sums import NEW, OLD
from deltamark.dataflow.kernels.ordered.sorting import sort_records


@inline
def evaluate(op: LoopReduce, key_id: int, iteration: int, size: int) -> tuple[int, int]:
    """Write what a key changes in the rows of the next iteration.

    Return the new number of changes, -1 if a weight is negative, and the next iteration in which the key is to be
    evaluated, which is one that has rows of it, else NEVER.
    """
    state = key_state(op.trace.lists, key_id)
    if state.progress > CHANGED:
        best, following, failed = _evaluate_sums(op, state, key_id, iteration)
    else:
        best, following, failed = _evaluate_rows(op, state, key_id, iteration)
    return (-1 if failed else emit(op, key_id, iteration, size, best)), following


@kernel
def _evaluate_rows(op: LoopReduce, state: KeyState, key_id: int, iteration: int) -> tuple[BestValues, int, bool]:
    """Find the best values of a key in its list; return them, the next iteration, and whether a weight is negative."""
    trace, slot, count, certain_from = op.trace, state.first, 0, 0
    new = new_prior = old = old_prior = later = NO_VALUE
    following, plain, fresh = NEVER, True, True
    while slot != 0:
        row = reduce_row(trace, slot)
        arrival, value, weight, old_weight = row.iteration, row.value, row.weight, row.old_weight
        plain &= weight >= 0 and old_weight >= 0
        fresh &= old_weight == 0
        count += 1
        if arrival > iteration:
            following, later = min(following, arrival), min(later, value)
        else:
            if weight > 0 and (value < new or (value == new and arrival + 1 < certain_from)):
                new, certain_from = value, arrival + 1
            new_prior = min(new_prior, value) if weight > 0 and arrival < iteration else new_prior
            old = min(old, value) if old_weight > 0 else old
            old_prior = min(old_prior, value) if old_weight > 0 and arrival < iteration else old_prior
        slot = row.next
    plain &= op.min_weight == 1
    state.certain_from = certain_from if plain else 0
    state.certain_value = new
    if fresh and certain_from != 0 and plain and later >= new:
        following = NEVER  # later rows make no difference, nor did they before the epoch
    best, failed = BestValues(new, new_prior, old, old_prior), False
    if not plain:
        best, failed = sum_weights(op, key_id, iteration)
    if count > op.min_summed_rows and not failed:
        _sum_from_now_on(op, state, key_id, iteration)
    return best, following, failed


@kernel
def _sum_from_now_on(op: LoopReduce, state: KeyState, key_id: int, iteration: int) -> None:
    """Make running sums for the next evaluations of a key, unless this one is its first in the epoch."""
    if state.progress == CHANGED:
        state.progress = EVALUATED_ONCE
        return
    count = _sort_rows(op, key_id, iteration)
    state.progress = running_sums.make_sums(op, state.first, iteration, count)


@kernel
def _evaluate_sums(op: LoopReduce, state: KeyState, key_id: int, iteration: int) -> tuple[BestValues, int, bool]:
    """Read the best values of a key off its running sums; return the same as `_evaluate_rows`."""
    sums, first, min_weight = running_sums.sums_at(op, state.progress), state.first, op.min_weight
    running_sums.add_until(op, sums, first, iteration)
    new_prior = running_sums.value_at(sums, running_sums.least(sums, NEW, min_weight))
    old_prior = running_sums.value_at(sums, running_sums.least(sums, OLD, min_weight))
    running_sums.add_until(op, sums, first, iteration + 1)
    index = running_sums.least(sums, NEW, min_weight)
    new, certain_from = running_sums.value_at(sums, index), running_sums.certain_from_at(sums, index)
    old = running_sums.value_at(sums, running_sums.least(sums, OLD, min_weight))
    negative, following = running_sums.negative_value(sums), running_sums.next_iteration(op, sums, first)
    best = BestValues(new, new_prior, old, old_prior)
    if negative != NO_VALUE:
        _set_negative(op, key_id, negative)
        return best, following, True
    state.certain_from = certain_from if sums.has_negative == 0 and min_weight == 1 else 0
    state.certain_value = new
    return best, following, False


@kernel
def _set_negative(op: LoopReduce, key_id: int, value: int) -> None:
    """Record that a value has a negative weight."""
    op.error = NEGATIVE_WEIGHT
    op.error_key = key_id
    op.error_value = value


@kernel
def sum_weights(op: LoopReduce, key_id: int, iteration: int) -> tuple[BestValues, bool]:
    """Return the best values of a key after adding up its weights by value, and whether a sum is negative."""
    count, min_weight, rows = _sort_rows(op, key_id, iteration), op.min_weight, op.sorted_rows
    new = new_prior = old = old_prior = NO_VALUE
    at, failed = 0, False
    while at < count and not failed:
        value, weight, weight_prior, old_weight, old_weight_prior = sorted_row(rows, at).value, 0, 0, 0, 0
        while at < count and sorted_row(rows, at).value == value:
            row = sorted_row(rows, at)
            weight += row.weight
            old_weight += row.old_weight
            if row.iteration < iteration:
                weight_prior += row.weight
                old_weight_prior += row.old_weight
            at += 1
        if weight < 0:
            _set_negative(op, key_id, value)
            failed = True
        new = min(new, value) if weight >= min_weight else new
        new_prior = min(new_prior, value) if weight_prior >= min_weight else new_prior
        old = min(old, value) if old_weight >= min_weight else old
        old_prior = min(old_prior, value) if old_weight_prior >= min_weight else old_prior
    return BestValues(new, new_prior, old, old_prior), failed


@kernel
def _sort_rows(op: LoopReduce, key_id: int, iteration: int) -> int:
    """Copy the rows of a key up to an iteration to `sorted_rows`, in order of value; return their number."""
    trace, rows, count = op.trace, op.sorted_rows, 0
    slot = key_state(trace.lists, key_id).first
    while slot != 0:
        row = reduce_row(trace, slot)
        if row.iteration <= iteration:
            copy = sorted_row(rows, count)
            copy.value = row.value
            copy.weight = row.weight
            copy.old_weight = row.old_weight
            copy.iteration = row.iteration
            count += 1
        slot = row.next
    sort_records(rows, count, SORTED_WORDS)
    return count
