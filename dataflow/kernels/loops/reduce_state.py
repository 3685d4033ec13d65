"""The state of the reduction that ends a loop's body."""

from __future__ import annotations

from typing import NamedTuple

from deltamark.dataflow.kernels.core.blocks import NONE, Array, Array32, Block, Cell, Int32, Operator, Vector
from deltamark.dataflow.kernels.core.dispatcher import inline
from deltamark.dataflow.kernels.loops.cycles import CycleDetector
from deltamark.dataflow.kernels.loops.trace import Trace, TraceRow
from deltamark.dataflow.kernels.loops.worklist import Worklist

NO_VALUE = 2**62
"""The best value of a key that keeps none: greater than all values."""

NEVER = 2**62
"""An iteration after all others."""

NEGATIVE_WEIGHT, WIDE_WEIGHT, ENDLESS, CYCLE = 1, 2, 3, 4
"""The errors."""

CHANGED, EVALUATED_ONCE = 1, -1
"""The progress of a key in an epoch: it has changed; it has also been evaluated once, with many rows. It is 0 before,
and the place of the key's running sums after that."""

FIRST_SUMS = 2
"""The place of the first running sums of an epoch: above CHANGED."""


class LoopReduce(Block):
    """The least value of each key that has enough weight."""

    trace: Trace = NONE
    worklist: Worklist
    cycles: CycleDetector
    min_weight: int
    """The weight that a value needs."""
    max_iterations: int
    min_summed_rows: int
    """Keys with more rows get running sums at their second evaluation in an epoch."""
    now: Cell
    """The epoch."""
    changed_keys: Array
    """The ids of the keys that the epoch has changed."""
    changed_count: int = 0
    evaluated_keys: Array
    """Scratch: the ids of the keys that are evaluated together."""
    sorted_rows: Array
    """Scratch: the rows of a key as `SortedRow`s."""
    sums: Array
    """The running sums of the epoch, and the first free word behind them."""
    sums_end: int = FIRST_SUMS
    size: Cell
    iteration: Vector
    diff: Vector
    key: Vector
    value: Vector
    """Output: the changes that the next iteration begins with."""
    answer_size: Cell
    answer_time: Vector
    answer_diff: Vector
    answer_key: Vector
    answer_value: Vector
    """Output: the changes of the loop's result."""
    error: int = 0
    error_key: int = 0
    error_value: int = 0
    """The key id and the value of negative weight, or the period of a cycle."""


class ReduceInputBlock(Operator):
    """The operator that feeds a reduction: the slice of its trace."""

    reduce: LoopReduce


class KeyState(Block):
    """The state of a key, which begins with its list in the trace."""

    first: Int32
    """The first slot of its list."""
    due: Int32
    """The next iteration in which it is to be evaluated, plus 1; 0 if there is none."""
    progress: Int32
    """0, CHANGED, EVALUATED_ONCE, or the place of its running sums in `LoopReduce.sums`."""
    certain_from: Int32
    """An iteration, plus 1, from which on `certain_value` is known to have weight; 0 if none is known."""
    certain_value: int


STATE_WIDTH = 2 * KeyState.size_in_words
"""The int32s of a key."""


class ReduceRow(TraceRow):
    """A row of the trace with its weight before the epoch."""

    value: int
    old_weight: int


class SortedRow(Block):
    """A copy of a row, for sorting by value."""

    value: int
    weight: int
    old_weight: int
    iteration: int


SORTED_WORDS = SortedRow.size_in_words


class BestValues(NamedTuple):
    """The least values of a key that have enough weight in the rows up to an iteration.

    `new` and `old` are those of this epoch and before it; the `prior` ones are of the rows of earlier iterations.
    """

    new: int
    new_prior: int
    old: int
    old_prior: int


@inline
def key_state(lists: Array32, key_id: int) -> KeyState:
    """Return the state of a key."""
    return KeyState(lists[STATE_WIDTH * key_id :].address)


@inline
def reduce_row(trace: Trace, slot: int) -> ReduceRow:
    """Return the row in a slot."""
    return ReduceRow(trace.records[trace.record_words * slot :].address)


@inline
def sorted_row(rows: Array, index: int) -> SortedRow:
    """Return a sorted row."""
    return SortedRow(rows[SORTED_WORDS * index :].address)
