"""A loop: the operators from ITERATE to REPEAT are run again and again, until no iteration changes anything.

Epochs, which are the times outside, are taken one by one. In an epoch, what is new in arrangements meets what their
joins remember; then rows enter, and those that the loop begins with also leave in iteration 1, for from there on what
the body made takes their place; then keys are looked at, iteration by iteration, until none is left. An epoch that a
slice leaves open takes in what there is of it, and waits.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements import arrangement
from deltamark.dataflow.kernels.core.memory import kernel, load, store
from deltamark.dataflow.kernels.loops import join as meet
from deltamark.dataflow.kernels.loops import reduce as closing
from deltamark.dataflow.kernels.loops import trace, worklist

FRONTIER, NOW, SLICE, LENGTH, SOURCES, SOURCE_BLOCKS, JOINS, JOIN_BLOCKS, CLOSING, PHASE, TURN, OPEN = range(1, 13)
"""NOW: a cell, the epoch. LENGTH: how many operators further REPEAT is. TURN: which source or join is next. OPEN:
whether the epoch has begun."""

RESTING, CHOOSING, MEETING, ENTERING, LOOKING = range(5)
"""PHASEs."""

SIZE, COLUMNS, INPUTS, BUFFERS, HELD, TAKEN, OUT_SIZE, OUT, BEGINS = range(1, 10)
"""A source: COLUMNS cells, of which the first are time and diff, wait in as many BUFFERS, and enter as OUT. BEGINS: is
it what the loop begins with?"""

FAILED, FORWARD, BACK = 2, 4, 5
FOREVER = 2**62


@kernel
def enter(op: int) -> None:
    """Have the slice's rows wait for their epoch."""
    size, held = load(load(op, SIZE), 0), load(op, HELD)
    for column in range(load(op, COLUMNS)):
        source, target = load(load(load(op, INPUTS), column), 0), load(load(op, BUFFERS), column) + 8 * held
        for at in range(size):
            store(target, at, load(source, at))
    store(op, HELD, held + size)


@kernel
def iterate(op: int) -> int:
    """Choose what goes through the body next; return FORWARD when there is nothing more."""
    of = load(op, CLOSING)
    _quiet(op, of)
    while True:
        phase = load(op, PHASE)
        if phase == RESTING:
            store(load(of, closing.ANSWER_SIZE), 0, 0)
            store(op, PHASE, CHOOSING)
        elif phase == CHOOSING:
            if _choose(op) == FORWARD:
                return FORWARD
        elif phase == MEETING:
            if _send_updates(op):
                return 0
        elif phase == ENTERING:
            if _send_rows(op):
                return 0
        else:
            if closing.look(of, load(op, SLICE)) != 0:
                return FAILED
            if load(load(of, closing.OUT_SIZE), 0) > 0:
                return 0
            if not worklist.any_left(load(of, closing.DUE)):
                if closing.finish(of) != 0:
                    return FAILED
                store(op, OPEN, 0)
                store(op, PHASE, CHOOSING)


@kernel
def _quiet(op: int, of: int) -> None:
    store(load(of, closing.OUT_SIZE), 0, 0)
    for index in range(load(op, SOURCES)):
        store(load(load(load(op, SOURCE_BLOCKS), index), OUT_SIZE), 0, 0)


@kernel
def _choose(op: int) -> int:
    """Go on with an epoch, or with the next one."""
    following, now = _next_time(op), load(load(op, NOW), 0)
    store(op, TURN, 0)
    if load(op, OPEN) == 0 or following == now:
        if following == FOREVER:
            return _rest(op)
        store(load(op, NOW), 0, following)
        store(op, OPEN, 1)
        store(op, PHASE, MEETING)
    elif now < load(load(op, FRONTIER), 0):
        _pass_updates(op, now)
        store(op, PHASE, LOOKING)
    else:
        return _rest(op)
    return 0


@kernel
def _pass_updates(op: int, now: int) -> None:
    """Pass updates of the epoch that no remembered row was there to meet: the rows of its iterations find them."""
    for index in range(load(op, JOINS)):
        join = load(load(op, JOIN_BLOCKS), index)
        outer, cursor = load(join, meet.OUTER), load(join, meet.CURSOR)
        while (
            cursor < load(load(outer, arrangement.SIZE), 0)
            and load(load(load(outer, arrangement.TIME), 0), cursor) <= now
        ):
            cursor += 1
        store(join, meet.CURSOR, cursor)
        store(join, meet.STOP, cursor)


@kernel
def _rest(op: int) -> int:
    """Leave the loop, in which nothing waits, until the next slice."""
    for index in range(load(op, SOURCES)):
        source = load(load(op, SOURCE_BLOCKS), index)
        store(source, HELD, 0)
        store(source, TAKEN, 0)
    for index in range(load(op, JOINS)):
        store(load(load(op, JOIN_BLOCKS), index), meet.CURSOR, 0)
        store(load(load(op, JOIN_BLOCKS), index), meet.STOP, 0)
    store(op, PHASE, RESTING)
    return FORWARD


@kernel
def _next_time(op: int) -> int:
    """Return the first time of what waits to enter, and of what is new in arrangements."""
    first = FOREVER
    for index in range(load(op, SOURCES)):
        source = load(load(op, SOURCE_BLOCKS), index)
        if load(source, TAKEN) < load(source, HELD):
            first = min(first, load(load(load(source, BUFFERS), 0), load(source, TAKEN)))
    for index in range(load(op, JOINS)):
        join = load(load(op, JOIN_BLOCKS), index)
        outer, cursor = load(join, meet.OUTER), load(join, meet.CURSOR)
        if load(load(join, meet.PAST), trace.USED) > 0 and cursor < load(load(outer, arrangement.SIZE), 0):
            first = min(first, load(load(load(outer, arrangement.TIME), 0), cursor))
    return first


@kernel
def _send_updates(op: int) -> bool:
    """Let the next updates of an arrangement meet what its join remembers, the last join first."""
    now = load(load(op, NOW), 0)
    while load(op, TURN) < load(op, JOINS):
        join = load(load(op, JOIN_BLOCKS), load(op, TURN))
        outer, cursor = load(join, meet.OUTER), load(join, meet.CURSOR)
        size, times, stop = load(load(outer, arrangement.SIZE), 0), load(load(outer, arrangement.TIME), 0), cursor
        while stop < size and load(times, stop) < now:
            stop += 1
        if load(load(join, meet.PAST), trace.USED) == 0:
            while stop < size and load(times, stop) == now:
                stop += 1
        store(join, meet.CURSOR, stop)
        cursor = stop
        while stop < size and stop - cursor < load(op, SLICE) and load(times, stop) == now:
            stop += 1
        store(join, meet.STOP, stop)
        if stop > cursor:
            return True
        store(op, TURN, load(op, TURN) + 1)
    store(op, TURN, 0)
    store(op, PHASE, ENTERING)
    return False


@kernel
def _send_rows(op: int) -> bool:
    """Let the next rows of a source enter."""
    now = load(load(op, NOW), 0)
    while load(op, TURN) < load(op, SOURCES):
        source = load(load(op, SOURCE_BLOCKS), load(op, TURN))
        taken, held, buffers = load(source, TAKEN), load(source, HELD), load(source, BUFFERS)
        times, stop = load(buffers, 0), taken
        while stop < held and stop - taken < load(op, SLICE) and load(times, stop) == now:
            stop += 1
        if stop > taken:
            _copy(source, taken, stop - taken)
            store(source, TAKEN, stop)
            return True
        store(op, TURN, load(op, TURN) + 1)
    store(op, PHASE, CHOOSING)
    return False


@kernel
def _copy(source: int, start: int, size: int) -> None:
    """Let rows enter in iteration 0; those that the loop begins with leave in iteration 1."""
    iterations = load(load(load(source, OUT), 0), 0)
    for at in range(size):
        store(iterations, at, 0)
        store(iterations, size + at, 1)
    for column in range(1, load(source, COLUMNS)):
        rows, target = load(load(source, BUFFERS), column) + 8 * start, load(load(load(source, OUT), column), 0)
        for at in range(size):
            store(target, at, load(rows, at))
            store(target, size + at, -load(rows, at) if column == 1 else load(rows, at))
    store(load(source, OUT_SIZE), 0, 2 * size if load(source, BEGINS) != 0 else size)
