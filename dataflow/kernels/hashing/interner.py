"""The interner: ids for keys of several columns that do not pack into one number. Equal rows get one id, by hash.

An interner may serve several streams, such as both sides of a join. It counts the live rows of each id. An id without
rows is freed in a later slice, once the time in which it lost the last row has ended.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Arrays, Block, Cell, Operator, Vector, Vectors
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.memory import Memory
from deltamark.dataflow.kernels.core.steps import doubled, move_table, step
from deltamark.dataflow.kernels.hashing.hash_set import MAX_HASH, move_entries, remove
from deltamark.dataflow.kernels.hashing.mixing import mix
from deltamark.dataflow.kernels.status import NEEDS_ROOM


class InternerBlock(Block):
    """The table of an interner, and its ids."""

    columns: int
    table: Array
    """Entries of a 31-bit hash and, in the low 32 bits, id + 1."""
    mask: int
    used: int = 0
    next_id: int = 0
    """The first id that was never given."""
    free: Array
    """A stack of the `freed` ids, which are given again."""
    freed: int = 0
    stored: Arrays
    """The values of each column, by id."""
    count: Array
    """The number of live rows of an id."""
    empty_since: Array
    """1 + the latest time when an id lost its last row, if it is in `waiting`. The id may have updates until then."""
    waiting: Array
    waiting_count: int = 0
    live: int = 0
    """The number of ids with live rows."""
    frontier: Cell
    ended: int = 0
    """The frontier in the last slice."""
    latest: int = 0
    """The latest time of an update so far: an update of a stream may come after later ones of another stream."""
    keeps_ids: int = 0
    """Set if no id is freed here, because sums may be left under an id whose count is zero."""


class InternBlock(Operator):
    """Replaces the key columns of a stream by ids."""

    interner: InternerBlock
    size: Cell
    time: Vector
    diff: Vector
    inputs: Vectors
    result: Vector
    leads: int
    """Set for the first user of an interner: when it runs, a slice begins, and no vector contains an id yet."""


@kernel
def intern(op: InternBlock) -> int:
    """Number the rows of the slice, unless the table must grow first."""
    interner, size = op.interner, op.size
    if 2 * (interner.used + size) > interner.mask + 1:
        return NEEDS_ROOM
    if op.leads == 1:
        if interner.keeps_ids == 0:
            _free_waiting(interner)
        interner.ended = interner.frontier
    if size > 0:
        interner.latest = max(interner.latest, op.time[size - 1])
    latest, diffs, counts, result, live = interner.latest, op.diff, interner.count, op.result, interner.live
    for at in range(size):
        row = _find(op, interner, at)
        result[at] = row
        before = counts[row]
        count = before + diffs[at]
        counts[row] = count
        live += (count != 0) - (before != 0)
        if count == 0:
            if interner.empty_since[row] == 0:
                interner.waiting[interner.waiting_count] = row
                interner.waiting_count += 1
            interner.empty_since[row] = latest + 1
    interner.live = live
    return 0


@inline
def id_in(entry: int) -> int:
    """Return the id in an entry of the table."""
    return (entry & 0xFFFFFFFF) - 1


@kernel
def _find(op: InternBlock, interner: InternerBlock, at: int) -> int:
    """Return the id of a row of the slice; a new row gets an id."""
    columns, inputs, stored = interner.columns, op.inputs, interner.stored
    table, mask, mixed = interner.table, interner.mask, 0
    for column in range(columns):
        mixed = mix(mixed, inputs[column][at])
    row_hash = mixed & MAX_HASH
    place = row_hash & mask
    while table[place] != 0:
        row, equal = id_in(table[place]), table[place] >> 32 == row_hash
        for column in range(columns):
            equal &= stored[column][row] == inputs[column][at]
        if equal:
            return row
        place = (place + 1) & mask
    if interner.freed > 0:
        interner.freed -= 1
        row = interner.free[interner.freed]
    else:
        row = interner.next_id
        interner.next_id = row + 1
    table[place] = row_hash << 32 | (row + 1)
    interner.used += 1
    for column in range(columns):
        stored[column][row] = inputs[column][at]
    return row


@kernel
def _free_waiting(interner: InternerBlock) -> None:
    """Free the waiting ids whose time has ended; the others wait on, unless they have rows again."""
    waiting, empty_since, kept = interner.waiting, interner.empty_since, 0
    for place in range(interner.waiting_count):
        row = waiting[place]
        if interner.count[row] != 0:
            empty_since[row] = 0
        elif empty_since[row] - 1 < interner.ended:
            empty_since[row] = 0
            free_id(interner, row)
        else:
            waiting[kept] = row
            kept += 1
    interner.waiting_count = kept


@kernel
def free_id(interner: InternerBlock, row: int) -> None:
    """Free an id, and remove its row from the table."""
    mixed = 0
    for column in range(interner.columns):
        mixed = mix(mixed, interner.stored[column][row])
    remove(interner.table, interner.mask, mixed & MAX_HASH, row + 1)
    interner.free[interner.freed] = row
    interner.freed += 1
    interner.used -= 1


@kernel
def rehash(interner: InternerBlock, table: Array, mask: int) -> None:
    """Move all entries to an empty table of another size."""
    move_entries(interner.table, interner.mask, table, mask)
    interner.table = table
    interner.mask = mask


def _grow(memory: Memory, op: InternBlock) -> None:
    ids = op.interner
    slots = doubled(ids.mask + 1, ids.used + op.size)
    move_table(memory, ids.table, slots, lambda table: rehash(ids, table, slots - 1))


INTERN = step(intern, grow=_grow)
