"""Cancel within each time what cancels: equal rows become one, and those of weight zero go.

Rows wait until their time has ended. A time's rows are found by a hash of their words in a table that is cleared by
visiting the same rows again; equality compares the words.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.memory import kernel, load, store, wraps

SIZE, COLUMNS, INPUTS, FRONTIER, HELD, BUFFER, TABLE, MASK, OUT_SIZE, OUT = range(1, 11)
"""COLUMNS counts TIME and DIFF, which come first. INPUTS: the address of their cells; BUFFER: of their addresses, which
hold HELD rows; OUT: of cells. TABLE: MASK + 1 words, 1 + row."""

CROWDED, OVERFLOW = 1, 2
"""Statuses: a time has more rows than half the table, nothing was done; a weight needs more than 64 bits."""


@kernel
def consolidate(op: int) -> int:
    held, size, columns = load(op, HELD), load(load(op, SIZE), 0), load(op, COLUMNS)
    if 2 * (held + size) > load(op, MASK) + 1:
        return CROWDED
    for column in range(columns):
        source, target = load(load(load(op, INPUTS), column), 0), load(load(op, BUFFER), column)
        for at in range(size):
            store(target, held + at, load(source, at))
    held += size
    times, frontier = load(load(op, BUFFER), 0), load(load(op, FRONTIER), 0)
    store(load(op, OUT_SIZE), 0, 0)
    start, wrapped = 0, 0
    while start < held and load(times, start) < frontier:
        stop = start + 1
        while stop < held and load(times, stop) == load(times, start):
            stop += 1
        wrapped |= _one_time(op, start, stop)
        start = stop
    for column in range(columns):
        rows = load(load(op, BUFFER), column)
        for at in range(held - start):
            store(rows, at, load(rows, start + at))
    store(op, HELD, held - start)
    return OVERFLOW if wrapped < 0 else 0


@kernel
def _one_time(op: int, start: int, stop: int) -> int:
    """Hand out what is left of a time; return a negative number where a weight needs more than 64 bits."""
    diffs, wrapped = load(load(op, BUFFER), 1), 0
    if stop - start > 1:
        for row in range(start, stop):
            other = _place(op, row)
            if other != row:
                wrapped |= wraps(load(diffs, other), load(diffs, row))
                store(diffs, other, load(diffs, other) + load(diffs, row))
                store(diffs, row, 0)
        for row in range(start, stop):
            _clear(op, row)
    out = load(load(op, OUT_SIZE), 0)
    for row in range(start, stop):
        if load(diffs, row) != 0:
            for column in range(load(op, COLUMNS)):
                store(load(load(load(op, OUT), column), 0), out, load(load(load(op, BUFFER), column), row))
            out += 1
    store(load(op, OUT_SIZE), 0, out)
    return wrapped


@kernel
def _hash(op: int, row: int) -> int:
    mixed = 0
    for column in range(2, load(op, COLUMNS)):
        mixed = (mixed ^ load(load(load(op, BUFFER), column), row)) * -7046029254386353131
        mixed ^= mixed >> 29
    return mixed & load(op, MASK)


@kernel
def _place(op: int, row: int) -> int:
    """Return the first row equal to this one, entering it if it is the first."""
    table, slot = load(op, TABLE), _hash(op, row)
    while load(table, slot) != 0:
        other, equal = load(table, slot) - 1, True
        for column in range(2, load(op, COLUMNS)):
            values = load(load(op, BUFFER), column)
            equal &= load(values, other) == load(values, row)
        if equal:
            return other
        slot = (slot + 1) & load(op, MASK)
    store(table, slot, row + 1)
    return row


@kernel
def _clear(op: int, row: int) -> None:
    """Empty the run of slots that a row's search may have passed."""
    table, slot = load(op, TABLE), _hash(op, row)
    while load(table, slot) != 0:
        store(table, slot, 0)
        slot = (slot + 1) & load(op, MASK)
