"""Numbers for keys of several columns that do not pack into one: equal rows get one id, found by hash and compared.

A table may serve several streams (both sides of a join). It counts the live rows of each id; one that has none is
given back in a later slice, when the time in which it lost the last has ended and nobody asks for it any more.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.memory import inline, kernel, load, store

SHARED, SIZE, TIME, DIFF, INPUTS, RESULT, LEADS = range(1, 8)
"""The operator: INPUTS are cells, RESULT is the cell of the ids. LEADS: is it the first of the table's users? Where
that one runs, a slice begins, and no vector holds an id yet."""

COLUMNS, TABLE, MASK, USED, NEXT, FREE, FREED, STORED, COUNT, SINCE, WAITING, WAIT, LIVE, FRONTIER, ENDED, KEEP = range(
    16
)
"""The table: MASK + 1 words, 1 + id. STORED: the address of COLUMNS addresses of values by id. COUNT: live rows of an
id; SINCE: 1 + the time since when it has none, if it is among the WAIT ids at WAITING. ENDED: what FRONTIER held in the
last slice. KEEP: give no id back here (weights of both signs may leave sums that a count of zero does not show)."""

CROWDED = 1
"""Status: the table must grow first; nothing was done."""


@kernel
def intern(op: int) -> int:
    shared, size = load(op, SHARED), load(load(op, SIZE), 0)
    if 2 * (load(shared, USED) + size) > load(shared, MASK) + 1:
        return CROWDED
    if load(op, LEADS) == 1:
        if load(shared, KEEP) == 0:
            _give_back(shared)
        store(shared, ENDED, load(load(shared, FRONTIER), 0))
    times, diffs = load(load(op, TIME), 0), load(load(op, DIFF), 0)
    counts, result, live = load(shared, COUNT), load(load(op, RESULT), 0), load(shared, LIVE)
    for at in range(size):
        row = _find(op, shared, at)
        store(result, at, row)
        before = load(counts, row)
        count = before + load(diffs, at)
        store(counts, row, count)
        live += (count != 0) - (before != 0)
        if count == 0:
            if load(load(shared, SINCE), row) == 0:
                store(load(shared, WAITING), load(shared, WAIT), row)
                store(shared, WAIT, load(shared, WAIT) + 1)
            store(load(shared, SINCE), row, load(times, at) + 1)
    store(shared, LIVE, live)
    return 0


@inline
def _mixed(mixed: int, value: int) -> int:
    mixed = (mixed ^ value) * -7046029254386353131
    return mixed ^ (mixed >> 29)


@kernel
def _find(op: int, shared: int, at: int) -> int:
    """Return the id of a row of the slice, giving it one if need be."""
    columns, inputs, stored = load(shared, COLUMNS), load(op, INPUTS), load(shared, STORED)
    table, mask, mixed = load(shared, TABLE), load(shared, MASK), 0
    for column in range(columns):
        mixed = _mixed(mixed, load(load(load(inputs, column), 0), at))
    slot = mixed & mask
    while load(table, slot) != 0:
        row, equal = load(table, slot) - 1, True
        for column in range(columns):
            equal &= load(load(stored, column), row) == load(load(load(inputs, column), 0), at)
        if equal:
            return row
        slot = (slot + 1) & mask
    if load(shared, FREED) > 0:
        store(shared, FREED, load(shared, FREED) - 1)
        row = load(load(shared, FREE), load(shared, FREED))
    else:
        row = load(shared, NEXT)
        store(shared, NEXT, row + 1)
    store(table, slot, row + 1)
    store(shared, USED, load(shared, USED) + 1)
    for column in range(columns):
        store(load(stored, column), row, load(load(load(inputs, column), 0), at))
    return row


@kernel
def _home(shared: int, row: int, mask: int) -> int:
    mixed = 0
    for column in range(load(shared, COLUMNS)):
        mixed = _mixed(mixed, load(load(load(shared, STORED), column), row))
    return mixed & mask


@kernel
def _give_back(shared: int) -> None:
    """Free the waiting ids whose time has ended; the others wait on, unless they are in use again."""
    waiting, since, kept = load(shared, WAITING), load(shared, SINCE), 0
    for place in range(load(shared, WAIT)):
        row = load(waiting, place)
        if load(load(shared, COUNT), row) != 0:
            store(since, row, 0)
        elif load(since, row) - 1 < load(shared, ENDED):
            store(since, row, 0)
            remove(shared, row)
        else:
            store(waiting, kept, row)
            kept += 1
    store(shared, WAIT, kept)


@kernel
def remove(shared: int, row: int) -> None:
    """Forget a row, and let another have its id."""
    table, mask = load(shared, TABLE), load(shared, MASK)
    slot = _home(shared, row, mask)
    while load(table, slot) != row + 1:
        slot = (slot + 1) & mask
    store(load(shared, FREE), load(shared, FREED), row)
    store(shared, FREED, load(shared, FREED) + 1)
    store(shared, USED, load(shared, USED) - 1)
    hole, slot = slot, (slot + 1) & mask
    while load(table, slot) != 0:
        home = _home(shared, load(table, slot) - 1, mask)
        if (slot - home) & mask >= (slot - hole) & mask:
            store(table, hole, load(table, slot))
            hole = slot
        slot = (slot + 1) & mask
    store(table, hole, 0)


@kernel
def rehash(shared: int, table: int, mask: int) -> None:
    """Move to an empty table of another size."""
    old = load(shared, TABLE)
    for at in range(load(shared, MASK) + 1):
        row = load(old, at) - 1
        if row >= 0:
            slot = _home(shared, row, mask)
            while load(table, slot) != 0:
                slot = (slot + 1) & mask
            store(table, slot, row + 1)
    store(shared, TABLE, table)
    store(shared, MASK, mask)
