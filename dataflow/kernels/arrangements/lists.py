"""The lists of an arrangement's rows under their keys."""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock
from deltamark.dataflow.kernels.core.blocks import Array32
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import prefetch
from deltamark.dataflow.kernels.hashing.hash_map import id_limit
from deltamark.dataflow.kernels.hashing.hash_set import MAX_HASH
from deltamark.dataflow.kernels.hashing.mixing import mix

PASSED_SHIFT, MIN_PASSED = 6, 256
"""Lists are long once searches have passed a 64th of all rows, or of the possible keys, and these more. Measured on q07
and q21 with updates: a 16th takes up to 1.3 times as long."""

MIN_SKIPPED = 16
"""The number of successive taken rows that are passed before they are skipped: more than an order of TPC-H has lines,
which leave together, and then touch no memory for notes."""

MAX_SHORT = 8
"""The greatest length of a list that an insertion orders, so that the next search finds its first row prefetched."""


@inline
def link_row(op: ArrangementBlock, key_id: int, slot: int) -> None:
    """Put a new row into the list of its key."""
    lists, following = op.lists, op.next
    first, last = lists[2 * key_id], lists[2 * key_id + 1]
    is_unordered = (first != 0) & (last == 0)  # without a branch, because keys have few rows each
    if is_unordered and op.ordered != 0 and is_searched(op, key_id):
        last = _order_short(op, key_id)
        first = lists[2 * key_id]
        is_unordered = last == 0
    if is_unordered or op.ordered == 0:
        following[slot] = first
        lists[2 * key_id] = slot + 1
        return
    before = last - 1 if last != 0 else slot
    following[slot] = 0
    following[before] = ~(slot + 1) if following[before] < 0 else slot + 1
    following[slot] = 0
    lists[2 * key_id] = first if first != 0 else slot + 1
    lists[2 * key_id + 1] = slot + 1


@inline
def is_searched(op: ArrangementBlock, key_id: int) -> bool:
    """Return whether rows of a key are searched: not if its list was long when its debts were last counted."""
    return op.has_debts == 0 or op.debts[2 * key_id] >= 0


@kernel
def _order_short(op: ArrangementBlock, key_id: int) -> int:
    """Order the list of a key that has rows, if it is short; return the link of the last, 0 if it is not."""
    link, rows = op.lists[2 * key_id], 0
    while link != 0 and rows < MAX_SHORT:
        link = op.next[link - 1]
        rows += 1
    return order(op, key_id) if link == 0 else 0


@kernel
def order(op: ArrangementBlock, key_id: int) -> int:
    """Let the list of a key that has rows begin with the oldest one; return the link of the last."""
    lists, following = op.lists, op.next
    first, last = lists[2 * key_id], lists[2 * key_id + 1]
    if last != 0:
        return last
    reversed_link, link = 0, first
    while link != 0:
        after = following[link - 1]
        following[link - 1] = reversed_link
        reversed_link, link = link, after
    lists[2 * key_id] = reversed_link
    lists[2 * key_id + 1] = first
    return first


@kernel
def unlink(op: ArrangementBlock, key_id: int, previous: int, slot: int) -> None:
    """Take a row out of the list of its key. previous: the link of the row before it, 0 for the first."""
    lists, following = op.lists, op.next
    link = following[slot]
    if link < 0:
        link = ~link
    if previous == 0:
        lists[2 * key_id] = link
    else:
        was_taken = following[previous - 1] < 0
        following[previous - 1] = ~link if was_taken else link
    if link == 0 and lists[2 * key_id + 1] != 0:
        lists[2 * key_id + 1] = previous


@inline
def skipped(op: ArrangementBlock, pass_number: int, row: int) -> int:
    """Return the link that a pass noted at a row, or -1."""
    return op.skips[row] & 0xFFFFFFFF if op.skips[row] >> 32 == pass_number else -1


@inline
def next_of(op: ArrangementBlock, slot: int) -> int:
    """Return the link of the row behind a row."""
    link = op.next[slot]
    return ~link if link < 0 else link


@kernel
def id_of_row(op: ArrangementBlock, slot: int) -> int:
    """Return the id of the key whose list has a row, or -1 if no list has it. All lists are searched."""
    for key_id in range(id_limit(op.keys)):
        link = op.lists[2 * key_id]
        while link != 0:
            if link - 1 == slot:
                return key_id
            link = next_of(op, link - 1)
    return -1


@inline
def prefetch_row(op: ArrangementBlock, slot: int) -> None:
    """Prefetch a row, and its link."""
    prefetch(op.next[slot:].address)
    for column in range(op.wide):
        prefetch(op.stored[column][slot:].address)
    for column in range(op.wide, op.columns):
        prefetch(Array32(op.stored[column])[slot:].address)


@kernel
def equal(op: ArrangementBlock, a: int, b: int) -> bool:
    """Return whether the rows of two slots are equal."""
    for column in range(op.wide):
        stored = op.stored[column]
        if stored[a] != stored[b]:
            return False
    for column in range(op.wide, op.columns):
        narrow = Array32(op.stored[column])
        if narrow[a] != narrow[b]:
            return False
    return True


@kernel
def hash_of(op: ArrangementBlock, slot: int) -> int:
    """Hash the row of a slot to 31 bits."""
    mixed = 0
    for column in range(op.wide):
        mixed = mix(mixed, op.stored[column][slot])
    for column in range(op.wide, op.columns):
        mixed = mix(mixed, Array32(op.stored[column])[slot])
    return mixed & MAX_HASH


@inline
def weight_of(op: ArrangementBlock, slot: int) -> int:
    """Return the weight of a row."""
    return op.weight[slot] if op.weighted != 0 else 1


@inline
def are_long(op: ArrangementBlock) -> bool:
    """Return whether lists are so long that their rows are not to be searched any more."""
    passed = op.passed
    return passed > (op.live >> PASSED_SHIFT) + MIN_PASSED and passed > id_limit(op.keys) >> PASSED_SHIFT


@kernel
def weigh(op: ArrangementBlock) -> None:
    """Store the weight of each row from now on."""
    if op.weighted == 0:
        for slot in range(op.top):
            op.weight[slot] = 1
        op.weighted = 1
