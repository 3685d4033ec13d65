"""A loop: the operators from ITERATE to REPEAT run repeatedly, until an iteration changes nothing.

Epochs, the times outside the loop, run in order. In an epoch the new updates of arrangements are joined with the
traces of the loop's joins. Then rows enter in iteration 0; those that the loop begins with leave again in iteration 1,
where the results of the body take their place. Then keys are evaluated, iteration by iteration, until none is left. If
a slice leaves the epoch open, the loop takes in the rows that have arrived, and waits.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Arrays, Cell, Operator, Vectors
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.loops import worklist
from deltamark.dataflow.kernels.loops.join import LoopJoinBlock
from deltamark.dataflow.kernels.loops.reduce import end_epoch, evaluate_keys
from deltamark.dataflow.kernels.loops.reduce_state import LoopReduce
from deltamark.dataflow.kernels.status import BACK, FAILED, FORWARD
from deltamark.dataflow.types import FOREVER

RESTING, CHOOSING, SENDING_UPDATES, SENDING_ROWS, EVALUATING = range(5)
"""The phases of a loop."""


class IterateBlock(Operator):
    """The first operator of a loop, which chooses the rows that go through the body next."""

    frontier: Cell
    now: Cell
    """The epoch."""
    max_rows: int
    """The number of rows that go through the body together."""
    length: int = 0
    """The number of operators behind this one up to the `RepeatBlock` that ends the loop."""
    source_count: int
    sources: Array
    """The addresses of `LoopSourceBlock`s."""
    join_count: int
    joins: Array
    """The addresses of `LoopJoinBlock`s, the last one first."""
    reduce: LoopReduce
    phase: int = RESTING
    sender: int = 0
    """The source or join that sends next."""
    is_open: int = 0
    """Whether the epoch has begun."""


class RepeatBlock(Operator):
    """The last operator of a loop."""

    length: int
    """As in `IterateBlock`."""


class LoopSourceBlock(Operator):
    """Rows that enter the loop. Each waits in the buffers until its epoch."""

    size: Cell
    columns: int
    """The number of columns, of which the first two are times (iterations in the output) and diffs."""
    inputs: Vectors
    buffers: Arrays
    buffered: int = 0
    sent: int = 0
    """The number of buffered rows that have entered."""
    out_size: Cell
    out: Vectors
    is_beginning: int
    """Whether the loop begins with these rows."""


@kernel
def enter(source: LoopSourceBlock) -> None:
    """Append the rows of the slice to the buffers."""
    size, buffered = source.size, source.buffered
    for column in range(source.columns):
        values, target = source.inputs[column], source.buffers[column][buffered:]
        for at in range(size):
            target[at] = values[at]
    source.buffered = buffered + size


@kernel
def iterate(op: IterateBlock) -> int:
    """Choose the rows that go through the body next; return FORWARD if there are none."""
    reduce = op.reduce
    _clear_outputs(op)
    while True:
        phase = op.phase
        if phase == RESTING:
            reduce.answer_size = 0
            op.phase = CHOOSING
        elif phase == CHOOSING:
            if _choose_epoch(op) == FORWARD:
                return FORWARD
        elif phase == SENDING_UPDATES:
            if _send_updates(op):
                return 0
        elif phase == SENDING_ROWS:
            if _send_rows(op):
                return 0
        else:
            if evaluate_keys(reduce, op.max_rows) != 0:
                return FAILED
            if reduce.size > 0:
                return 0
            if worklist.is_empty(reduce.worklist):
                if end_epoch(reduce) != 0:
                    return FAILED
                op.is_open = 0
                op.phase = CHOOSING


@kernel
def _clear_outputs(op: IterateBlock) -> None:
    op.reduce.size = 0
    for index in range(op.source_count):
        LoopSourceBlock(op.sources[index]).out_size = 0


@kernel
def _choose_epoch(op: IterateBlock) -> int:
    """Continue the epoch, begin the next one, or rest; return FORWARD if the loop rests."""
    following, now = _next_time(op), op.now
    op.sender = 0
    if op.is_open == 0 or following == now:
        if following == FOREVER:
            return _rest(op)
        op.now = following
        op.is_open = 1
        op.phase = SENDING_UPDATES
    elif now < op.frontier:
        _skip_updates(op, now)
        op.phase = EVALUATING
    else:
        return _rest(op)
    return 0


@kernel
def _skip_updates(op: IterateBlock, now: int) -> None:
    """Skip updates of the epoch whose join has an empty trace: the rows of the epoch's iterations meet them."""
    for index in range(op.join_count):
        join = LoopJoinBlock(op.joins[index])
        outer, cursor = join.outer, join.cursor
        while cursor < outer.size and outer.time[cursor] <= now:
            cursor += 1
        join.cursor = cursor
        join.stop = cursor


@kernel
def _rest(op: IterateBlock) -> int:
    """Leave the loop, in which no rows wait, until the next slice."""
    for index in range(op.source_count):
        source = LoopSourceBlock(op.sources[index])
        source.buffered = 0
        source.sent = 0
    for index in range(op.join_count):
        join = LoopJoinBlock(op.joins[index])
        join.cursor = 0
        join.stop = 0
    op.phase = RESTING
    return FORWARD


@kernel
def _next_time(op: IterateBlock) -> int:
    """Return the first time of buffered rows and of new updates that can meet a trace."""
    first = FOREVER
    for index in range(op.source_count):
        source = LoopSourceBlock(op.sources[index])
        if source.sent < source.buffered:
            first = min(first, source.buffers[0][source.sent])
    for index in range(op.join_count):
        join = LoopJoinBlock(op.joins[index])
        if join.trace.used > 0 and join.cursor < join.outer.size:
            first = min(first, join.outer.time[join.cursor])
    return first


@kernel
def _send_updates(op: IterateBlock) -> bool:
    """Let a join pair the next updates of its arrangement with its trace; return whether there are any.

    The last join comes first, so that its trace has no rows of the epoch yet.
    """
    now = op.now
    while op.sender < op.join_count:
        join = LoopJoinBlock(op.joins[op.sender])
        size, times, stop = join.outer.size, join.outer.time, join.cursor
        while stop < size and times[stop] < now:
            stop += 1
        if join.trace.used == 0:
            while stop < size and times[stop] == now:
                stop += 1
        join.cursor = stop
        cursor = stop
        while stop < size and stop - cursor < op.max_rows and times[stop] == now:
            stop += 1
        join.stop = stop
        if stop > cursor:
            return True
        op.sender += 1
    op.sender = 0
    op.phase = SENDING_ROWS
    return False


@kernel
def _send_rows(op: IterateBlock) -> bool:
    """Let the next rows of a source enter; return whether there are any."""
    now = op.now
    while op.sender < op.source_count:
        source = LoopSourceBlock(op.sources[op.sender])
        sent, buffered, times = source.sent, source.buffered, source.buffers[0]
        stop = sent
        while stop < buffered and stop - sent < op.max_rows and times[stop] == now:
            stop += 1
        if stop > sent:
            _copy(source, sent, stop - sent)
            source.sent = stop
            return True
        op.sender += 1
    op.phase = CHOOSING
    return False


@kernel
def _copy(source: LoopSourceBlock, start: int, size: int) -> None:
    """Let buffered rows enter in iteration 0; those that the loop begins with leave in iteration 1."""
    iterations = source.out[0]
    for at in range(size):
        iterations[at] = 0
        iterations[size + at] = 1
    for column in range(1, source.columns):
        rows, target = source.buffers[column][start:], source.out[column]
        for at in range(size):
            target[at] = rows[at]
            target[size + at] = -rows[at] if column == 1 else rows[at]
    source.out_size = 2 * size if source.is_beginning != 0 else size


@inline
def repeat(_op: RepeatBlock) -> int:
    """Go back to the first operator of the loop."""
    return BACK


ENTER, ITERATE, REPEAT = step(enter), step(iterate), step(repeat)
