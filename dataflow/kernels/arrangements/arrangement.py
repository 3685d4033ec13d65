"""Arrangements: rows by key, shared by every operator that joins on that key.

A settled row lies in a slot; the slots of a key form two lists, NEW (newest first, to which rows are added) and OLD
(oldest first, in which retractions look). A search that reaches the end of OLD reverses NEW and appends it, so each row
is moved at most once, and rows that leave in the order of their arrival are found at once. If a search nevertheless
passes more than MAX_PASSED rows, rows are found by a hash of their values from the next slice on: see `row_lookup`.

The updates of the current slice lie behind the settled rows, from slot `mark` on, in the order of their arrival: update
i in slot `mark + i`, linked into NEW like a row, with its time and diff in the vectors of the slice. So readers need no
time for settled rows, and an insertion costs three stores a row. After the last reader, `settle` turns insertions into
rows and cancels retractions against equal rows, the oldest first. Freed slots are reused.

While a past time is held, later updates are not settled: the updates of each slice are appended to those of the slice
before, with their times, diffs and keys in a log, and readers see all of them. They are settled up to the oldest held
time as if they were the updates of one slice.

The weight of a row is 1 unless `weighted` is set. A retraction that precedes its insertion within a logical time is a
row of negative weight until the time ends; one that is left then is an error.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.arrangements.row_lookup import RowLookup
from deltamark.dataflow.kernels.core.blocks import NONE, Array, Array32, Arrays, Cell, Operator, Vector, Vectors
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap, add


class ArrangementBlock(Operator):
    """The rows of a collection by key, and the updates of the current slice."""

    size: Cell
    time: Vector
    diff: Vector
    key: Vector
    keys: KeyMap
    frontier: Cell
    lists: Array32
    """A pair for each key id: the first slot of NEW and of OLD, plus 1."""
    present: Array = NONE
    """A bit for each key id, set once the key has had rows; none unless few keys have rows and many are looked up."""
    next: Array32
    """For each slot the next one of its list, plus 1; the free slots form a list of their own."""
    mark: int = 0
    """The first slot behind the settled rows."""
    free: int = 0
    """The first free slot, plus 1."""
    live: int = 0
    weighted: int = 0
    weight: Array
    unit_inserts: int = 0
    """Whether all updates of the slice have the diff 1."""
    negative_rows: int = 0
    negative_time: int = 0
    negative_slot: int = 0
    """The last row of negative weight, and the time since which there is one."""
    scratch: Array
    holes: Array
    """The slots behind `mark` that were freed while the slice was settled: their number, then the slots."""
    columns: int
    inputs: Vectors
    stored: Arrays
    settled: Array
    """For each update of the slice: `stamp`, once it is settled."""
    stamp: int = 0
    lookup: RowLookup = NONE
    wants_lookup: int = 0
    visible_time: Vector
    visible_diff: Vector
    """The times and diffs of all updates from `mark` on; those of the slice begin at number `first`."""
    first: int = 0
    log_time: Array = NONE
    log_diff: Array = NONE
    log_key: Array = NONE
    """The updates that are kept rather than settled, while a past time is held."""


@kernel
def insert(op: ArrangementBlock) -> None:
    """Append the updates of the slice."""
    size, first = op.size, op.mark + op.first
    for column in range(op.columns):
        source, target = op.inputs[column], op.stored[column][first:]
        for at in range(size):
            target[at] = source[at]
    key, diff, keys, lists, following = op.key, op.diff, op.keys, op.lists, op.next
    unit_inserts, hashed, low = 1, keys.hashed != 0, keys.low
    for at in range(size):
        key_id = add(keys, key[at]) if hashed else key[at] - low
        slot = first + at
        following[slot] = lists[2 * key_id]
        lists[2 * key_id] = slot + 1
        unit_inserts &= diff[at] == 1
    op.unit_inserts = unit_inserts
    if op.present.address != 0:
        present = op.present
        for at in range(size):
            key_id = key[at] - low
            present[key_id >> 6] |= 1 << (key_id & 63)
    if op.log_time.address != 0:
        _log(op, size)


@kernel
def _log(op: ArrangementBlock, size: int) -> None:
    """Keep the times, diffs and keys of the slice."""
    first, time, diff, key = op.first, op.time, op.diff, op.key
    for at in range(size):
        op.log_time[first + at] = time[at]
        op.log_diff[first + at] = diff[at]
        op.log_key[first + at] = key[at]
