"""The rows of a slice by their values: a retraction finds the insertion of the same slice that it cancels.

A key may change at many times of a slice, and each change may retract the row that the change before has inserted. If
the list of the key is too long to be searched, these retractions are debts or pending. Then a reader would pair each
update of the other side with every row that the key has had in the slice, and with its retraction: the square of the
number of changes, of which nearly all cancel.

So once a key has had a few of them, such a retraction hides the row: until the slice is settled, readers take the row
as one that was taken, and the retraction is in no list. Settling shows the row again, and the retraction becomes a debt
or cancels an equal row, as those that have hidden none. Neither walks through the list.

The table is built when a slice has such a retraction. It has an entry for each distinct row, that of the newest copy,
from which the older ones are linked. Entries of earlier passes are free.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements.arrangement import DEAD, ArrangementBlock
from deltamark.dataflow.kernels.arrangements.lists import equal, hash_of, link_row
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.hashing.mixing import mix

MIN_ENTRIES = 64
"""The least number of entries of the table. Not measured."""

FEW = 8
"""The number of debts or pending retractions of a key in a slice before rows are hidden. Not measured: with 0, q17 over
a window of 100,000 orders took 1.3 times as long."""


@inline
def unmatched(op: ArrangementBlock, key_id: int) -> int:
    """Return the number of retractions of a key in the slice so far that are debts or pending: the newest has it."""
    last = op.lists[2 * key_id + 1]
    link = op.pending[key_id] if op.has_debts == 0 else (last if last != 0 else op.lists[2 * key_id])
    return op.older[link - 1] if op.limit < link <= op.limit + op.retractions else 0


@kernel
def hide_row(op: ArrangementBlock, slot: int, at: int) -> bool:
    """Let a retraction, in a slot, hide an equal row of the slice that is not later; return whether there is one."""
    _add_until(op, op.time[at])
    place = _place_of(op, slot, op.ids[at])
    entry = op.newest[place]
    if entry >> 32 != op.passes:
        return False
    row = entry & 0xFFFFFFFF
    while op.next[row] < 0 and op.older[row] != 0:
        row = op.older[row] - 1
    op.newest[place] = op.passes << 32 | row
    if op.next[row] < 0:
        return False
    op.next[row] = ~op.next[row]
    op.taken_by[row] = at
    op.next[slot] = ~row
    return True


@kernel
def _add_until(op: ArrangementBlock, time: int) -> None:
    """Add the insertions of the slice up to a time."""
    rows = op.limit - op.mark
    if op.known == 0:
        entries = MIN_ENTRIES
        while entries < 2 * rows:
            entries *= 2
        op.newest_mask = entries - 1
    while op.known < rows and op.time[op.numbers[op.known]] <= time:
        row = op.mark + op.known
        op.known += 1
        place = _place_of(op, row, op.ids[op.numbers[row - op.mark]])
        entry = op.newest[place]
        op.older[row] = (entry & 0xFFFFFFFF) + 1 if entry >> 32 == op.passes else 0
        op.newest[place] = op.passes << 32 | row


@kernel
def _place_of(op: ArrangementBlock, slot: int, key_id: int) -> int:
    """Return the place of the entry for the rows that are equal to that of a slot, or of the free one for them."""
    place = mix(hash_of(op, slot), key_id) & op.newest_mask
    while op.newest[place] >> 32 == op.passes:
        row = op.newest[place] & 0xFFFFFFFF
        if op.ids[op.numbers[row - op.mark]] == key_id and equal(op, row, slot):
            break
        place = (place + 1) & op.newest_mask
    return place


@kernel
def show_rows(op: ArrangementBlock) -> None:
    """Show the rows that retractions have hidden, and put these into the lists if they are debts."""
    first = op.limit - op.retractions
    for index in range(op.retractions):
        at, slot = op.scratch[index], first + index
        if op.places[at] == slot and DEAD < op.next[slot] < 0:
            row = ~op.next[slot]
            op.next[row] = ~op.next[row]
    for index in range(op.retractions):
        at, slot = op.scratch[index], first + index
        if op.places[at] == slot and DEAD < op.next[slot] < 0:
            op.next[slot] = 0
            if op.has_debts != 0:
                op.weight[slot] = -1
                link_row(op, op.ids[at], slot)
