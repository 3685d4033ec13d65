"""Slots: where the rows of an arrangement lie.

The updates of a slice take neighbouring slots, and those that become rows keep them. Slots are divided into blocks. If
all slots of a block are dead, later slices take it again; so nothing is moved if rows leave about in the order of their
arrival. Otherwise, once most slots are dead, the rows move together.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements.arrangement import DEAD, ArrangementBlock
from deltamark.dataflow.kernels.core.blocks import Array32
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.hashing.hash_map import id_limit

BLOCK_BITS = 13
BLOCK_SLOTS = 1 << BLOCK_BITS
"""The slots of a block: at least the rows of a slice. Not measured."""

MIN_DEAD = 256
"""The number of dead slots from which on rows are moved. Not measured."""


@kernel
def take_slots(op: ArrangementBlock, size: int) -> int:
    """Find slots for the updates of a slice, behind those that are not settled; return the first."""
    if op.limit + size > op.room or (op.log_time.address != 0 and op.room < op.top):
        op.limit = _find_room(op, size)
    if op.first == 0:
        op.mark = op.limit
    return op.limit


@kernel
def use_slots(op: ArrangementBlock, size: int) -> None:
    """Use the next slots."""
    at = op.limit
    op.limit += size
    while at < op.limit:
        end = min(op.limit, (at | (BLOCK_SLOTS - 1)) + 1)
        op.used[at >> BLOCK_BITS] += end - at
        at = end


@kernel
def _find_room(op: ArrangementBlock, size: int) -> int:
    """Find unused slots that are neighbours; return the first.

    The updates of a log are neighbours too, so they take slots above all others.
    """
    is_logged = op.log_time.address != 0
    reuses = op.unused_count > 0 and size <= BLOCK_SLOTS and not is_logged
    if op.room == op.top and not reuses:
        op.room = op.top = _rounded(op.limit + size)
        return op.limit
    for slot in range(op.limit, op.room):
        op.next[slot] = DEAD
    op.dead += op.room - op.limit
    if op.limit < op.room and op.used[op.limit >> BLOCK_BITS] == 0:
        _put_back(op, op.limit >> BLOCK_BITS)
    if reuses:
        op.unused_count -= 1
        start = op.unused[op.unused_count] << BLOCK_BITS
        op.room = start + BLOCK_SLOTS
        op.dead -= BLOCK_SLOTS
        return start
    start = op.top
    op.room = op.top = _rounded(start + size)
    return start


@inline
def _rounded(slot: int) -> int:
    """Return the end of the block before a slot."""
    return (slot + BLOCK_SLOTS - 1) >> BLOCK_BITS << BLOCK_BITS


@inline
def _put_back(op: ArrangementBlock, block: int) -> None:
    op.unused[op.unused_count] = block
    op.unused_count += 1


@kernel
def free_slot(op: ArrangementBlock, slot: int) -> None:
    """Free a slot that is in no list any more."""
    op.next[slot] = DEAD
    free_slots(op, slot >> BLOCK_BITS, 1)


@inline
def free_slots(op: ArrangementBlock, block: int, count: int) -> None:
    """Free a number of slots of a block, which are dead."""
    op.dead += count
    op.used[block] -= count
    if count > 0 and op.used[block] == 0 and (op.limit == op.room or block != op.limit >> BLOCK_BITS):
        _put_back(op, block)


@inline
def is_dead(op: ArrangementBlock, slot: int) -> bool:
    """Return whether a slot below `top` has neither a row nor an update that is not settled."""
    return op.next[slot] == DEAD or op.limit <= slot < op.room


@kernel
def has_many_dead(op: ArrangementBlock) -> bool:
    """Return whether so many slots are dead that moving all rows costs little for each."""
    return op.dead > max(op.live + op.first, MIN_DEAD, id_limit(op.keys) >> 3)


@kernel
def move_together(op: ArrangementBlock) -> None:
    """Move the rows, and the updates that are not settled, to the first slots, in the same order."""
    following, links, end = op.next, op.scratch, 0
    links[0] = 0
    for slot in range(op.top):
        dead = is_dead(op, slot)
        end += not dead
        links[slot + 1] = 0 if dead else end
    for column in range(op.wide):
        stored = op.stored[column]
        for slot in range(op.top):
            if links[slot + 1] != 0:
                stored[links[slot + 1] - 1] = stored[slot]
    for column in range(op.wide, op.columns):
        narrow = Array32(op.stored[column])
        for slot in range(op.top):
            if links[slot + 1] != 0:
                narrow[links[slot + 1] - 1] = narrow[slot]
    for slot in range(op.top):
        if links[slot + 1] != 0:
            following[links[slot + 1] - 1] = links[following[slot]]
    if op.weighted != 0:
        for slot in range(op.top):
            if links[slot + 1] != 0:
                op.weight[links[slot + 1] - 1] = op.weight[slot]
    for at in range(2 * id_limit(op.keys)):
        op.lists[at] = links[op.lists[at]]
    op.negative_slot = max(0, links[op.negative_slot + 1] - 1)
    for block in range(op.top >> BLOCK_BITS):
        op.used[block] = max(0, min(BLOCK_SLOTS, end - (block << BLOCK_BITS)))
    op.mark = end - (op.limit - op.mark)
    op.limit = end
    op.room = op.top = _rounded(end)
    op.dead = op.unused_count = 0
