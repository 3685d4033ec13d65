"""Indexes: for each key its values, sorted, with their multiplicities.

Settled rows lie in sorted lists, one for each key. The updates of the current slice lie beside them, sorted by key,
value and time: readers find those of a key and filter them by time. After the last reader they are merged into the
lists: see `index_settle`.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Block, Cell, Vector
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap, add
from deltamark.dataflow.kernels.ordered.radix_sort import sort_rows
from deltamark.dataflow.kernels.ordered.sorted_lists import SortedListsBlock, head_of


class IndexBlock(SortedListsBlock):
    """The settled rows of a collection, and the updates of the current slice. A value is `low` plus its number."""

    size: Cell
    time: Vector
    diff: Vector
    key: Vector
    value: Vector
    keys: KeyMap
    frontier: Cell
    low: int
    live: int = 0
    ids: Array
    numbers: Array
    rows: Array
    spare: Array
    counts: Array
    """Scratch of `insert`: the key ids and numbers of the updates, and what the sort needs."""
    updates: Array
    """An `Update` for each update of the slice, in order of key id, number and time."""
    runs: Array
    """A `UpdateRun` for each key that has updates."""
    run_count: int = 0
    one_time: int = 0
    """Whether all updates of the slice have the same time."""
    added: Array
    """Scratch of `settle`: an `AddedRow` for each row that enters a list."""
    removed: Array
    """Scratch of `settle`: the places of the rows that leave a list."""
    negative_rows: int = 0
    negative_time: int = 0
    """The rows of negative weight from the slices before, and their time."""
    new_negative_rows: int = 0
    new_negative_time: int = 0
    """The same from this slice."""
    error: int = 0
    error_key: int = 0
    """The id of the key."""
    error_number: int = 0
    error_time: int = 0


class Update(Block):
    """An update of the slice."""

    number: int
    time: int
    diff: int
    stop: int
    """The end of the updates of its key, if it is the first of them."""


class UpdateRun(Block):
    """The updates of one key."""

    start: int
    key_id: int


UPDATE_WORDS, UPDATE_RUN_WORDS = Update.size_in_words, UpdateRun.size_in_words


@inline
def update_at(updates: Array, at: int) -> Update:
    """Return an update of the slice."""
    return Update(updates[UPDATE_WORDS * at :].address)


@inline
def update_run_at(runs: Array, at: int) -> UpdateRun:
    """Return the updates of a key."""
    return UpdateRun(runs[UPDATE_RUN_WORDS * at :].address)


@kernel
def insert(op: IndexBlock) -> None:
    """Sort the updates of the slice."""
    size, keys, low = op.size, op.keys, op.low
    key, value, ids, numbers, rows = op.key, op.value, op.ids, op.numbers, op.rows
    hashed, low_key = keys.hashed != 0, keys.low
    for at in range(size):
        ids[at] = add(keys, key[at]) if hashed else key[at] - low_key
        numbers[at] = value[at] - low
        rows[at] = at
    rows = sort_rows(numbers, rows, op.spare, size, op.counts)
    other = op.spare if rows.address == op.rows.address else op.rows
    _write_updates(op, sort_rows(ids, rows, other, size, op.counts), size)
    op.one_time = size == 0 or op.time[0] == op.time[size - 1]


@kernel
def _write_updates(op: IndexBlock, rows: Array, size: int) -> None:
    """Write the updates in the order of their rows, and where those of each key begin."""
    ids, numbers, times, diffs, updates, runs = op.ids, op.numbers, op.time, op.diff, op.updates, op.runs
    count, key_id, first = 0, -1, 0
    for at in range(size):
        row = rows[at]
        update = update_at(updates, at)
        update.number = numbers[row]
        update.time = times[row]
        update.diff = diffs[row]
        if ids[row] != key_id:
            if count > 0:
                update_at(updates, first).stop = at
            first, key_id = at, ids[row]
            run = update_run_at(runs, count)
            run.start = at
            run.key_id = key_id
            head_of(op, key_id).first_update = at + 1
            count += 1
    if count > 0:
        update_at(updates, first).stop = size
    op.run_count = count
