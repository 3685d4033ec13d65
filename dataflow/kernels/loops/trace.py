"""The trace of a loop: rows by key, each with its iteration and its weight summed over all epochs so far.

The rows of a key form a list, newest first. A row is found by a hash of its key, iteration and values in an open table
of (hash, slot). Its record begins as a `TraceRow`; the words behind its values belong to the operator of the trace.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Array32, Arrays, Block, Cell, Inline, Int32, Vector, Vectors
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import prefetch, wraps
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap, add
from deltamark.dataflow.kernels.hashing.hash_set import MAX_HASH, insert, remove
from deltamark.dataflow.kernels.hashing.mixing import mix

FREED = -1
"""The key id of a slot that is free."""

FAR, NEAR = 16, 8
"""The number of rows ahead at which the table and the records are prefetched. Not measured."""


class Trace(Block):
    """The rows of a loop, and the slice that is added to them."""

    size: Cell
    iteration: Vector
    diff: Vector
    key: Vector
    keys: KeyMap
    columns: int
    inputs: Vectors
    resolved: Arrays
    """Scratch: the arrays of `inputs` for the slice."""
    ids: Array
    """Scratch: the key id of each row of the slice."""
    hashes: Array
    """Scratch: the hash of each row of the slice."""
    slots: Array
    """Output: the slot of each row of the slice."""
    lists: Array32
    """For each key id `key_width` int32s, of which the first is the first slot of its list; slots count from 1."""
    key_width: int
    table: Array
    mask: int
    """The number of entries in the table, less one."""
    used: int = 0
    records: Array
    """For each slot a `TraceRow` of `record_words` words."""
    record_words: int
    next_slot: int = 1
    """The first slot that was never used."""
    free: int = 0
    """The first free slot; the free slots form a list."""


class TraceRow(Block):
    """A row of a trace."""

    weight: int
    next: Int32
    previous: Int32
    """The neighbours in the list of the key: slots, or 0."""
    key_id: Int32
    iteration: Int32
    values: Inline


ROW_WORDS = TraceRow.size_in_words


@inline
def row_at(trace: Trace, slot: int) -> TraceRow:
    """Return the row in a slot."""
    return TraceRow(trace.records[trace.record_words * slot :].address)


@kernel
def _resolve(trace: Trace, size: int) -> None:
    """Store the columns of the slice, and the key id and the hash of each row, in the scratch arrays."""
    columns, ids, hashes = trace.columns, trace.ids, trace.hashes
    key, keys, iterations = trace.key, trace.keys, trace.iteration
    hashed, low = keys.hashed != 0, keys.low
    for at in range(size):
        key_id = add(keys, key[at]) if hashed else key[at] - low
        ids[at] = key_id
        hashes[at] = mix(key_id << 20, iterations[at])
    for column in range(columns):
        source = trace.inputs[column]
        trace.resolved[column] = source
        for at in range(size):
            hashes[at] = mix(hashes[at], source[at])
    for at in range(size):
        hashes[at] &= MAX_HASH
    for at in range(size, size + FAR):  # they are prefetched
        ids[at] = 0


@kernel
def add_slice(trace: Trace) -> int:
    """Add the rows of the slice; return a negative number if a weight needs more than 64 bits.

    A row whose weight becomes 0 stays until `remove_row`.
    """
    size = trace.size
    while 2 * (trace.used + size) > trace.mask + 1:
        _grow(trace)
    _resolve(trace, size)
    ids, hashes, slots, resolved = trace.ids, trace.hashes, trace.slots, trace.resolved
    iterations, diffs, columns = trace.iteration, trace.diff, trace.columns
    table, mask, records, words = trace.table, trace.mask, trace.records, trace.record_words
    lists, width, wrapped = trace.lists, trace.key_width, 0
    for at in range(size):
        prefetch(table[hashes[at + FAR] & mask :].address)
        prefetch(lists[width * ids[at + FAR] :].address)
        prefetch(records[words * (table[hashes[at + NEAR] & mask] & 0xFFFFFFFF) :].address)
        row_hash, key_id, iteration = hashes[at], ids[at], iterations[at]
        place, slot = row_hash & mask, 0
        while True:
            entry = table[place]
            if entry == 0:
                break
            if entry >> 32 == row_hash:
                row, column = TraceRow(records[words * (entry & 0xFFFFFFFF) :].address), 0
                if row.key_id == key_id and row.iteration == iteration:
                    while column < columns and row.values[column] == resolved[column][at]:
                        column += 1
                    if column == columns:
                        slot = entry & 0xFFFFFFFF
                        break
            place = (place + 1) & mask
        if slot == 0:
            slot = _add_row(trace, at, key_id, iteration)
            table[place] = row_hash << 32 | slot
        row = TraceRow(records[words * slot :].address)
        weight = row.weight
        wrapped |= wraps(weight, diffs[at])
        row.weight = weight + diffs[at]
        slots[at] = slot
    return wrapped


@kernel
def _add_row(trace: Trace, at: int, key_id: int, iteration: int) -> int:
    """Add a row of weight 0 as the first of its list; return its slot."""
    slot, first_place, columns = trace.free, trace.key_width * key_id, trace.columns
    if slot != 0:
        trace.free = row_at(trace, slot).next
    else:
        slot = trace.next_slot
        trace.next_slot = slot + 1
    first = trace.lists[first_place]
    trace.lists[first_place] = slot
    if first != 0:
        row_at(trace, first).previous = slot
    row = row_at(trace, slot)
    row.weight = 0
    row.next = first
    row.previous = 0
    row.key_id = key_id
    row.iteration = iteration
    for column in range(columns):
        row.values[column] = trace.resolved[column][at]
    for word in range(columns, trace.record_words - ROW_WORDS):
        row.values[word] = 0
    trace.used += 1
    return slot


@kernel
def remove_row(trace: Trace, slot: int) -> None:
    """Remove a row from its list and from the table, and free its slot."""
    row = row_at(trace, slot)
    key_id, following, previous = row.key_id, row.next, row.previous
    if previous == 0:
        trace.lists[trace.key_width * key_id] = following
    else:
        row_at(trace, previous).next = following
    if following != 0:
        row_at(trace, following).previous = previous
    remove(trace.table, trace.mask, _hash_of(row, trace.columns), slot)
    row.key_id = FREED
    row.next = trace.free
    trace.free = slot
    trace.used -= 1


@kernel
def _hash_of(row: TraceRow, columns: int) -> int:
    """Return the hash of a row."""
    row_hash = mix(row.key_id << 20, row.iteration)
    for column in range(columns):
        row_hash = mix(row_hash, row.values[column])
    return row_hash & MAX_HASH


@kernel
def _grow(trace: Trace) -> None:
    """Double the table in place.

    Entries move in order, so that none comes to lie behind one that has yet to move; those before the first gap move
    last, because they may belong to the end of the table.
    """
    table, entries, waiting, count = trace.table, trace.mask + 1, trace.slots, 0
    mask = 2 * entries - 1
    while table[count] != 0:
        waiting[count] = table[count]
        table[count] = 0
        count += 1
    for place in range(count + 1, entries):
        entry = table[place]
        if entry != 0:
            table[place] = 0
            insert(table, mask, entry)
    for index in range(count):
        insert(table, mask, waiting[index])
    trace.mask = mask
