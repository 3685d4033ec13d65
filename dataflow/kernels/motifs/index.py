"""Indexes: for each key its values, sorted, with their multiplicities.

Settled rows lie in sorted lists, one for each key. The updates of the current slice lie beside them, sorted by key,
value and time: readers find those of a key and filter them by time. After the last reader they are merged into the
lists: see `settle`.

The end of a slice of an index: merge its updates into the sorted lists.

A list that outgrows its span moves; if too much of the pool is free, all lists are packed.

A retraction that precedes its insertion within a logical time is a row of negative weight until the time ends; one that
is left then is an error.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Block, Cell, Operator, Vector
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import wraps
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS, Memory
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap, add, id_limit, key_of, remove
from deltamark.dataflow.kernels.ordered.sorted_lists import (
    UNIT,
    ListHead,
    SortedListsBlock,
    allocate,
    head_of,
    move_numbers,
    needs_packing,
    number_at,
    pack,
    release,
    seek,
    set_number,
    set_weight,
    size_class_of,
    span_length,
    weight_at,
)
from deltamark.dataflow.kernels.ordered.sorting import sort_rows
from deltamark.dataflow.kernels.status import DONE, FAILED, NEEDS_ROOM


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
    loaded: int = 0
    """Whether all settled rows have the time of the current slice; see `runtime.loads`."""
    stamps: Array
    """For each number the stamp of the last stamped list that has it; see `extend`. None if there are too many
    numbers."""
    stamp: int = 0
    stamped: int = -1
    """The last stamp, and the first place of its list."""
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


NEGATIVE, OVERFLOW = 1, 2
"""Errors: a multiplicity is negative at the end of a time, or needs more than 64 bits."""


class SettleIndexBlock(Operator):
    """The operator that settles the slice of an index."""

    index: IndexBlock


class AddedRow(Block):
    """A row that enters a list."""

    place: int
    """The place before which it enters, once the removed rows have left."""
    number: int
    weight: int


ADDED_ROW_WORDS = AddedRow.size_in_words


@inline
def _added_row(added: Array, at: int) -> AddedRow:
    return AddedRow(added[ADDED_ROW_WORDS * at :].address)


@kernel
def settle(op: IndexBlock) -> int:
    """Merge the updates of the slice into the lists, unless these should be packed first."""
    if needs_packing(op):
        return NEEDS_ROOM
    op.new_negative_rows = 0
    for at in range(op.run_count):
        run = update_run_at(op.runs, at)
        if not _settle_key(op, run.key_id, run.start, update_at(op.updates, run.start).stop):
            return FAILED
    op.run_count = 0
    if op.negative_rows > 0 and op.negative_time < op.frontier:
        _report_negative_row(op)
        return FAILED
    if op.new_negative_rows > 0:
        op.negative_time = op.new_negative_time
    op.negative_rows += op.new_negative_rows
    return DONE


@kernel
def _report_negative_row(op: IndexBlock) -> None:
    """Write to the error fields the first settled row of negative weight; there is one."""
    key_id = 0
    while True:
        head = head_of(op, key_id)
        place, stop = head.start * UNIT, head.start * UNIT + head.count
        while place < stop and weight_at(op, place) > 0:
            place += 1
        if place < stop:
            break
        key_id += 1
    op.error = NEGATIVE
    op.error_key = key_id
    op.error_number = number_at(op.pool, op.width, place)
    op.error_time = op.negative_time


@kernel
def _settle_key(op: IndexBlock, key_id: int, start: int, stop: int) -> bool:
    """Merge the updates of a key into its list; return False if one of them is an error."""
    head = head_of(op, key_id)
    pool, width, updates = op.pool, op.width, op.updates
    first, count = head.start * UNIT, head.count
    added = removed = 0
    place, at = first, start
    while at < stop:
        number = update_at(updates, at).number
        place = seek(pool, width, place, first + count, number)
        exists = place < first + count and number_at(pool, width, place) == number
        end = at
        while end < stop and update_at(updates, end).number == number:
            end += 1
        weight = _new_weight(op, weight_at(op, place) if exists else 0, at, end)
        if op.error != 0:
            op.error_key = key_id
            return False
        at = end
        if exists and weight == 0:
            op.removed[removed] = place
            removed += 1
        elif exists:
            set_weight(op, place, weight)
        elif weight != 0:
            row = _added_row(op.added, added)
            row.place = place - removed
            row.number = number
            row.weight = weight
            added += 1
    _remove_rows(op, first, count, removed)
    _add_rows(op, head, count - removed, added)
    head.first_update = 0
    op.live += added - removed
    if count - removed + added == 0:
        remove(op.keys, key_of(op.keys, key_id))
    return True


@kernel
def _new_weight(op: IndexBlock, weight: int, start: int, stop: int) -> int:
    """Add the updates of a row to its weight, which may be negative only within a time that is still open."""
    updates, wrapped = op.updates, 0
    first = update_at(updates, start)
    was_negative = weight < 0
    time = op.negative_time if was_negative else first.time
    for at in range(start, stop):
        update = update_at(updates, at)
        if update.time != time:
            if weight < 0:
                break
            time = update.time
        wrapped |= wraps(weight, update.diff)
        weight += update.diff
    is_over = time < max(op.frontier, update_at(updates, stop - 1).time)
    if wrapped < 0 or (weight < 0 and is_over):
        op.error = OVERFLOW if wrapped < 0 else NEGATIVE
        op.error_number = first.number
        op.error_time = time
        return 0
    op.negative_rows -= was_negative
    if weight < 0:
        op.new_negative_rows += 1
        op.new_negative_time = time
    return weight


@kernel
def _remove_rows(op: IndexBlock, first: int, count: int, removed: int) -> None:
    """Close the gaps that removed rows leave in a list."""
    if removed == 0:
        return
    places, target = op.removed, op.removed[0]
    for at in range(removed):
        source = places[at] + 1
        stop = places[at + 1] if at + 1 < removed else first + count
        move_numbers(op, target, source, stop - source)
        target += stop - source


@kernel
def _add_rows(op: IndexBlock, head: ListHead, count: int, added: int) -> None:
    """Merge rows into a list of `count` rows, from its end on: in its span, or in a larger one."""
    old, room = head.start * UNIT, head.room
    new, total, wanted = old, count + added, 0
    if total > room:
        wanted = total + (total >> 3 if room > 0 else 0)
        new = allocate(op, wanted)
    stop = old + count
    for at in range(added - 1, -1, -1):
        row = _added_row(op.added, at)
        place = row.place
        target = new + place - old + at
        move_numbers(op, target + 1, place, stop - place)
        set_number(op.pool, op.width, target, row.number)
        set_weight(op, target, row.weight)
        stop = place
    if new != old:
        move_numbers(op, new, old, stop - old)
    if room > 0 and (new != old or total == 0):
        release(op, old, room)
    head.count = total
    if new != old or total == 0:
        head.start = new // UNIT if total > 0 else 0
        head.room = span_length(size_class_of(wanted)) if total > 0 else 0


def pack_index(memory: Memory, op: SettleIndexBlock) -> None:
    """Move the lists of an index to new memory, without gaps between them."""
    index = op.index
    pool, weights = index.pool.address, index.weights.address
    new_pool, new_weights = memory.reserve_unset(UNBOUNDED_WORDS), memory.reserve_unset(2 * UNBOUNDED_WORDS)
    pack(index, id_limit(index.keys), Array(new_pool), Array(new_weights))
    memory.replace(pool, new_pool)
    memory.replace(weights, new_weights)


INSERT_INDEX = step(insert, name="insert_index")
SETTLE_INDEX = step(settle, name="settle_index", field_of=(SettleIndexBlock, "index"), grow=pack_index)
