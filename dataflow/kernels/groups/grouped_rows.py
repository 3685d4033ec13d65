"""Tables of rows in groups, and the rows that the current time has changed.

Operators that compare rows keep them as records: the weight, the weight before the current time, the group, words of
the operator, and the values. A record is found by a hash of its values. The records that a time touches are chained by
group. When the time ends, the operator walks the chain of each touched group, emits what has changed, and frees the
records of weight zero. The order of the updates within a time is lost, and must not matter.

The rows of a large group are divided into buckets by a hash of some columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltamark.dataflow.kernels.core.blocks import (
    NONE,
    Array,
    Arrays,
    Block,
    Cell,
    Inline,
    Int32,
    Operator,
    SizedOperator,
    Vector,
    Vectors,
)
from deltamark.dataflow.kernels.core.dispatcher import Kernel, inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import end_group, prefetch, wraps
from deltamark.dataflow.kernels.core.memory import Memory
from deltamark.dataflow.kernels.core.steps import Step, arguments, code, doubled, move_table, step, words_of
from deltamark.dataflow.kernels.hashing.hash_map import KeyMap, add
from deltamark.dataflow.kernels.hashing.hash_set import MAX_HASH, find_slot, move_entries, remove
from deltamark.dataflow.kernels.hashing.mixing import mix
from deltamark.dataflow.kernels.status import DONE, FAILED, NEEDS_ROOM
from deltamark.dataflow.types import FOREVER


class BucketBlock(SizedOperator):
    """A vector of numbers of buckets, which count from 0."""

    columns: int
    inputs: Vectors
    slice_columns: Arrays
    """Scratch: the arrays of `inputs` during a slice."""
    buckets: int
    """The number of buckets."""
    out: Vector


@kernel
def bucket(op: BucketBlock) -> None:
    """Compute the buckets of the rows of the slice."""
    size, out, buckets, columns = op.size, op.out, op.buckets, op.slice_columns
    for column in range(op.columns):
        columns[column] = op.inputs[column]
    hash_columns(size, op.columns, columns, out)
    for at in range(size):
        out[at] = out[at] * buckets >> 31


@kernel
def hash_columns(size: int, count: int, columns: Arrays, hashes: Array) -> None:
    """Compute the hash of each row."""
    for at in range(size):
        hashes[at] = 0
    for column in range(count):
        source = columns[column]
        for at in range(size):
            hashes[at] = mix(hashes[at], source[at])
    for at in range(size):
        hashes[at] &= MAX_HASH


BUCKETS = step(bucket)


LAST = -1
"""The link of the last record of a chain."""

TABLE_AHEAD, RECORD_AHEAD = 12, 6
"""The number of updates by which entries of the table and records are prefetched. Not measured. The hashes that are
read beyond the slice do no harm."""

NEGATIVE, TWO_LIMITS, BAD_DENOMINATOR, WIDE_WEIGHT, OUT_OF_BOUNDS, MANY_COPIES, SEVERAL_ROWS, LONG_TEXT = range(1, 9)
"""Errors: a negative weight, two limits of one group, a denominator that is not positive, a weight of more than 64
bits, a computed value out of bounds, more copies of a row than can have values of their own, several rows of a group
that may have one, a text of a group for which there is no room."""


class RowHeader(Block):
    """The words at the start of each record."""

    weight: int
    old_weight: int
    """The weight before the current time, if the record is touched."""
    next_touched: Int32
    """The slot of the next touched record of the group, LAST if there is none, or 0 if the record is not touched."""
    hash: Int32


class RowRecord(RowHeader):
    """A record; an operator may declare the two words after the header itself."""

    next_free: int
    """The next free slot, if the record is free."""
    second_word: int
    group: int
    """The id of the key, just before the values, since rows can be in order of both."""
    values: Inline


class RowTable(Block):
    """The records of an input, in slots from 1 on. Slot 0 is the operator's."""

    size: Cell
    time: Vector
    diff: Vector
    key: Vector
    columns: int
    inputs: Vectors
    slice_columns: Arrays
    """Scratch: the arrays of `inputs` during a slice."""
    hashes: Array
    """Scratch: the hash of each update of the slice."""
    table: Array
    """Entries of a 31-bit hash and, in the low 32 bits, a slot."""
    mask: int
    """The number of entries, less one."""
    used: int = 0
    records: Array
    record_words: int
    next_slot: int = 1
    """The first slot that was never used."""
    free_slot: int = 0
    """The first free slot, or 0."""
    is_limits: int = 0
    """Whether the rows are the limits of groups."""


class RowGroup(Block):
    """The state of a group; the operator names the other words."""

    is_touched: int
    row_chain: int
    """The slot of the first touched record, or 0."""
    limit_chain: int
    """The slot of the first touched limit, or 0."""


GROUP_WORDS = RowGroup.size_in_words + 3
"""The size of a group: every operator has three words in it."""


class GroupedRowsBlock(Operator):
    """An operator that processes the groups changed by a time when the time ends."""

    rows: RowTable
    limits: RowTable = NONE
    keys: KeyMap
    groups: Array
    """The state of each key id: GROUP_WORDS words."""
    ending: int
    """The address of the code of the kernel that ends a time for a group."""
    frontier: Cell
    open_time: int = 0
    touched: Array
    """The ids of the groups that `open_time` has touched."""
    touched_count: int = 0
    out_size: Cell
    out_time: Array
    out_diff: Array
    out: Arrays
    error: int = 0
    error_is_limit: int = 0
    error_slot: int = 0
    """The record that the error is about, and whether it is a limit."""


@kernel
def hash_slice(rows: RowTable) -> None:
    """Load the addresses of the columns of this slice, and hash its updates."""
    inputs, columns = rows.inputs, rows.slice_columns
    for column in range(rows.columns):
        columns[column] = inputs[column]
    hash_columns(rows.size, rows.columns, columns, rows.hashes)


@kernel
def needs_rehash(rows: RowTable) -> bool:
    """Return whether the table is too small for the updates of the slice."""
    return 2 * (rows.used + rows.size) > rows.mask + 1


@kernel
def add_time(op: GroupedRowsBlock, rows: RowTable, at: int) -> int:
    """Add the updates of one time, from `at` on; return where the next time begins, or -1 if a weight is too large."""
    size, times, diffs, hashes, table, mask = rows.size, rows.time, rows.diff, rows.hashes, rows.table, rows.mask
    records, words, columns, sources = rows.records, rows.record_words, rows.columns, rows.slice_columns
    groups, touched, opened, is_limits = op.groups, op.touched, op.touched_count, rows.is_limits != 0
    time, wrapped = times[at], 0
    while at < size and times[at] == time:
        prefetch(table[hashes[at + TABLE_AHEAD] & mask :].address)
        prefetch(records[words * (table[hashes[at + RECORD_AHEAD] & mask] & 0xFFFFFFFF) :].address)
        row_hash = hashes[at]
        place, slot = row_hash & mask, 0
        while True:
            entry = table[place]
            if entry == 0:
                break
            if entry >> 32 == row_hash and _equals(records, words, entry & 0xFFFFFFFF, columns, sources, at):
                slot = entry & 0xFFFFFFFF
                break
            place = (place + 1) & mask
        if slot == 0:
            slot = _new_record(op, rows, at)
            table[place] = row_hash << 32 | slot
        record = RowRecord(records[words * slot :].address)
        weight = record.weight
        if record.next_touched == 0:
            record.old_weight = weight
            group_id = record.group
            group = RowGroup(groups[GROUP_WORDS * group_id :].address)
            _chain(group, record, slot, is_limits)
            touched[opened] = group_id
            opened += group.is_touched == 0
            group.is_touched = 1
        wrapped |= wraps(weight, diffs[at])
        record.weight = weight + diffs[at]
        at += 1
    op.touched_count = opened
    if wrapped < 0:
        op.error = WIDE_WEIGHT
        return -1
    return at


@inline
def _equals(records: Array, words: int, slot: int, columns: int, sources: Arrays, at: int) -> bool:
    """Return whether a record has the values of an update."""
    values, column = RowRecord(records[words * slot :].address).values, 0
    while column < columns and values[column] == sources[column][at]:
        column += 1
    return column == columns


@inline
def _chain(group: RowGroup, record: RowRecord, slot: int, is_limits: bool) -> None:
    """Put a record at the front of the chain of its group."""
    first = group.limit_chain if is_limits else group.row_chain
    record.next_touched = first if first != 0 else LAST
    if is_limits:
        group.limit_chain = slot
    else:
        group.row_chain = slot


@kernel
def _new_record(op: GroupedRowsBlock, rows: RowTable, at: int) -> int:
    """Make a record of weight 0 with the values of an update; return its slot."""
    slot, keys, key = rows.free_slot, op.keys, rows.key[at]
    if slot != 0:
        rows.free_slot = record_at(rows, slot).next_free
    else:
        slot = rows.next_slot
        rows.next_slot = slot + 1
    record = record_at(rows, slot)
    record.weight = 0
    record.next_free = 0
    record.second_word = 0
    record.next_touched = 0
    record.hash = rows.hashes[at]
    record.group = add(keys, key) if keys.hashed != 0 else key - keys.low
    sources = rows.slice_columns
    for column in range(rows.columns):
        record.values[column] = sources[column][at]
    rows.used += 1
    return slot


@inline
def record_at(rows: RowTable, slot: int) -> RowRecord:
    """Return the record of a slot."""
    return RowRecord(rows.records[rows.record_words * slot :].address)


@inline
def emit(op: GroupedRowsBlock, values: Array, diff: int) -> None:
    """Write an update of a row to the output."""
    at = op.out_size
    op.out_time[at] = op.open_time
    op.out_diff[at] = diff
    out = op.out
    for column in range(op.rows.columns):
        out[column][at] = values[column]
    op.out_size = at + 1


@kernel
def release(rows: RowTable, slot: int) -> None:
    """Remove a record from the table, and free its slot."""
    remove(rows.table, rows.mask, record_at(rows, slot).hash, slot)
    _free(rows, slot)


@kernel
def _free(rows: RowTable, slot: int) -> None:
    record_at(rows, slot).next_free = rows.free_slot
    rows.free_slot = slot
    rows.used -= 1


@kernel
def replace(rows: RowTable, slot: int, new: int) -> None:
    """Release a record, and move another to its slot, where the words of the operator stay."""
    record, other, table, mask = record_at(rows, slot), record_at(rows, new), rows.table, rows.mask
    remove(table, mask, record.hash, slot)
    row_hash = other.hash
    table[find_slot(table, mask, row_hash, new)] = row_hash << 32 | slot
    record.hash = row_hash
    record.weight = other.weight
    record.group = other.group
    for column in range(rows.columns):
        record.values[column] = other.values[column]
    _free(rows, new)


@kernel
def rehash(rows: RowTable, table: Array, mask: int) -> None:
    """Move all entries to an empty table of another size."""
    move_entries(rows.table, rows.mask, table, mask)
    rows.table = table
    rows.mask = mask


@kernel
def fail(op: GroupedRowsBlock, error: int, is_limit: int, slot: int) -> int:
    """Record an error about a record; return the error."""
    op.error = error
    op.error_is_limit = is_limit
    op.error_slot = slot
    return error


def _idle(op: GroupedRowsBlock) -> tuple[int, ...]:
    limits = words_of(op.limits, "size") if op.limits.address else ()
    return (*words_of(op.rows, "size"), *limits, *words_of(op, "touched_count", "out_size"))


def _grow(memory: Memory, op: GroupedRowsBlock) -> None:
    for rows in (op.rows, op.limits):
        if rows.address != 0 and needs_rehash(rows):
            _grow_table(memory, rows)


def _grow_table(memory: Memory, rows: RowTable) -> None:
    slots = 2 * doubled(rows.mask + 1, rows.used + rows.size)
    move_table(memory, rows.table, slots, lambda table: rehash(rows, table, slots - 1))


@kernel
def update_groups(op: GroupedRowsBlock) -> int:
    """Add the updates of the slice, and process the groups of the times that end.

    A failure is described by `op.error`.
    """
    rows, limits, frontier = op.rows, op.limits, op.frontier
    has_limits = limits.address != 0
    if needs_rehash(rows) or (has_limits and needs_rehash(limits)):
        return NEEDS_ROOM
    op.out_size = 0
    hash_slice(rows)
    size, times, at, limits_size, limit_times, limit = rows.size, rows.time, 0, 0, rows.time, 0
    if has_limits:
        hash_slice(limits)
        limits_size, limit_times = limits.size, limits.time
    while at < size or limit < limits_size:
        time = times[at] if at < size else FOREVER
        limit_time = limit_times[limit] if limit < limits_size else FOREVER
        now = min(time, limit_time)
        if now != op.open_time:
            if op.touched_count > 0 and _end_time(op) != 0:
                return FAILED
            op.open_time = now
        if time == now:
            at = add_time(op, rows, at)
        if limit_time == now:
            limit = add_time(op, limits, limit)
        if at < 0 or limit < 0:
            return FAILED
    if op.touched_count > 0 and op.open_time < frontier and _end_time(op) != 0:
        return FAILED
    return DONE


@kernel
def _end_time(op: GroupedRowsBlock) -> int:
    """Process the groups that the open time has touched; return an error, or 0."""
    groups, touched, ending = op.groups, op.touched, op.ending
    for place in range(op.touched_count):
        group_id = touched[place]
        group = RowGroup(groups[GROUP_WORDS * group_id :].address)
        group.is_touched = 0
        error = end_group(ending, op.address, group_id, group.address)
        if error != 0:
            return error
    op.touched_count = 0
    return 0


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupStep(Step):
    """A step over grouped rows. ending: the kernel that ends a time for one group."""

    ending: Kernel

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return self.kernel, self.ending

    def ending_code(self) -> int:
        """Return the address of the code of the kernel that ends a time."""
        return code(self.ending)


def group_step(ending: Kernel) -> GroupStep:
    """Declare a step over grouped rows by the kernel that takes the block, the id of a group, and the group."""
    return GroupStep(
        kernel=update_groups, ending=ending, name=ending.py_func.__qualname__, block=arguments(ending)[0], field="",
        idle=_idle, grow=_grow, ends_times=True,
    )  # fmt: skip
