"""Extreme: the rows of each group that have its best value; large groups hold a tournament of smaller ones.

Ties are included. The kernel finds the largest value; for the smallest, values are complemented first.

The rows of a group form two lists: those that have the best value, and the others. So a row that does not beat the best
value is added and removed in constant time, and one that does costs the rows that it emits. The others are searched
only when the last of the best rows has gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from deltamark.dataflow.builder.keys import MAX_PACKED_KEYS, key_ids, key_of
from deltamark.dataflow.builder.program import VectorAddress
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.core.blocks import Inline
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.groups.grouped_rows import (
    BUCKETS,
    LAST,
    NEGATIVE,
    GroupedRowsBlock,
    RowGroup,
    RowHeader,
    RowTable,
    emit,
    fail,
    group_step,
    record_at,
    release,
    replace,
)
from deltamark.dataflow.kernels.hashing import hash_map
from deltamark.dataflow.kernels.hashing.hash_map import remove
from deltamark.dataflow.operators.by_key import Grouped
from deltamark.dataflow.operators.distribution import Columns, Distribution, OperatorDistribution, two_phases
from deltamark.dataflow.operators.grouped_rows import RowInput, grouped_rows, stored_columns
from deltamark.dataflow.operators.input import base_rows, row_count
from deltamark.dataflow.operators.node import Emission, JoinReads, Requirement
from deltamark.dataflow.plan.term_sql import by_columns, identifier
from deltamark.dataflow.types import Type, integer, key_count

BUCKET = "bucket of a tournament"
"""The name of the column of buckets, which no schema has."""

MAX_GROUP_ROWS, BUCKET_ROWS = 512, 64
"""Groups that may have more than MAX_GROUP_ROWS rows are split into buckets of about BUCKET_ROWS. Not measured."""

MAX_HASHED_ROWS = 2**31
"""The largest number of buckets: these are computed from hashes of 31 bits."""


@dataclass(frozen=True, eq=False)
class Extreme(Grouped):
    """The rows of each group that attain the largest or smallest value of a column.

    levels: the numbers of groups of a tournament, the largest first; () lets the operator choose.
    """

    column: str
    which: Literal["largest", "smallest"]
    levels: tuple[int, ...]

    consolidated: ClassVar[bool] = True

    @property
    def title(self) -> str:
        return self.which

    def description(self, required: Collection[str]) -> str:
        groups = ", ".join(map(str, self.levels))
        levels = f", in {len(self.levels)} levels of {groups} groups" if groups else ""
        return f"{identifier(self.column)} {by_columns(self.keys)}".strip() + levels

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, [self.column, *self.keys, *columns])]

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        if not self.keys:
            return two_phases(self.rows, inputs[0], columns)
        return super().distributed(inputs, columns)

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        names = emission.columns(self)
        selected = _extreme(streams[0], self, names)
        if emission.distribution(self).second is None:
            return selected
        columns = {name: self.schema[name] for name in dict.fromkeys([self.column, *names])}
        return _extreme(emission.first_worker_selects(selected, columns, self), self, names)


def _extreme(stream: Stream, node: Extreme, columns_read: Sequence[str]) -> Stream:
    """Append the levels of the tournament, each of which finds the winners among those of the level before."""
    keys = node.keys
    names = tuple(dict.fromkeys([node.column, *keys, *columns_read]))
    complemented = frozenset([node.column] if node.which == "smallest" else [])
    types = tuple(node.schema[name] for name in keys)
    for buckets in _levels(node, types):
        bucketed = _with_buckets(stream, _bucket_columns(node, names, buckets), buckets)
        level_key = (*keys, BUCKET), (*types, integer(0, buckets - 1))
        stream = _level(bucketed, node, names, complemented, level_key)
    return _level(stream, node, names, complemented, (keys, types))


def _level(
    stream: Stream,
    node: Extreme,
    names: Sequence[str],
    complemented: frozenset[str],
    key: tuple[Sequence[str], Sequence[Type]],
) -> Stream:
    """Append one level. key: the names and the types of the columns that are its groups."""
    number = key_of(stream, *key)
    keys = key_ids(stream.program, number, row_count(node), stream.size)
    rows = RowInput(stream, number.cell, stored_columns(stream, names, node.schema, complemented))
    return grouped_rows(EXTREME, keys, [rows])


def _levels(node: Extreme, types: Sequence[Type]) -> tuple[int, ...]:
    """Return the numbers of buckets of the levels, which the plan may give; none if a key with a bucket is too wide."""
    levels = node.levels
    groups = key_count(types)
    rows = min(node.rows.schema.rows, base_rows(node), MAX_HASHED_ROWS) // groups
    while not node.levels and rows > MAX_GROUP_ROWS:
        rows //= BUCKET_ROWS
        levels += (rows,)
    return levels if groups * max(levels, default=1) <= MAX_PACKED_KEYS else ()


def _bucket_columns(node: Extreme, names: Sequence[str], buckets: int) -> Sequence[str]:
    """Return the columns that determine the bucket of a row.

    The compared value is one of them only if the other columns have too few values, so that a row whose value changes
    usually stays in its bucket.
    """
    others = [name for name in names if name not in (node.column, *node.keys)]
    suffice = key_count(node.schema[name] for name in others) >= buckets
    return others if others and suffice else [node.column, *others]


def _with_buckets(stream: Stream, names: Sequence[str], buckets: int) -> Stream:
    """Add the column of buckets to a stream."""

    def compute(name: str) -> VectorAddress:
        if name != BUCKET:
            return stream.column(name)
        program, result = stream.program, stream.program.vector()
        program.add(
            BUCKETS, size=stream.size, columns=len(names),
            inputs=program.table([stream.column(each) for each in names]), slice_columns=program.words(len(names)),
            buckets=buckets, out=result,
        )  # fmt: skip
        return result

    return Stream(stream.program, stream.size, stream.time, stream.diff, compute, raw=stream.raw)


BEST, OTHERS = 0, 1
"""The lists of a group."""


class ExtremeGroup(RowGroup):
    """The lists of a group, and the value of its best rows."""

    best: int
    lists: Inline
    """The first slot of BEST and of OTHERS, or 0."""


class ListedRow(RowHeader):
    """A record in one of the lists of its group."""

    previous: int
    following: int
    group: int
    values: Inline


@inline
def _row_at(rows: RowTable, slot: int) -> ListedRow:
    return ListedRow(record_at(rows, slot).address)


@kernel
def extreme(op: GroupedRowsBlock, group_id: int, group: ExtremeGroup) -> int:
    """End a time for a group; return an error, or 0."""
    rows = op.rows
    found, best, slot = False, 0, group.row_chain
    while slot != LAST:
        row = _row_at(rows, slot)
        weight, value = row.weight, row.values[0]
        if weight < 0:
            return fail(op, NEGATIVE, 0, slot)
        if weight > 0 and (not found or value > best):
            found, best = True, value
        slot = row.next_touched
    if found and (group.lists[BEST] == 0 or best > group.best):
        _set_best(op, rows, group, best)
    _apply_changes(op, rows, group)
    if group.lists[BEST] == 0:
        if group.lists[OTHERS] != 0:
            _find_best(op, rows, group)
        else:
            remove(op.keys, hash_map.key_of(op.keys, group_id))
    return 0


@kernel
def _set_best(op: GroupedRowsBlock, rows: RowTable, group: ExtremeGroup, best: int) -> None:
    """Retract the best rows, since a better value has come."""
    slot = group.lists[BEST]
    while slot != 0:
        row = _row_at(rows, slot)
        emit(op, row.values, -(row.old_weight if row.next_touched != 0 else row.weight))
        following = row.following
        _link(rows, group, OTHERS, slot)
        slot = following
    group.lists[BEST] = 0
    group.best = best


@kernel
def _apply_changes(op: GroupedRowsBlock, rows: RowTable, group: ExtremeGroup) -> None:
    """Emit the changes of the best rows; link the touched rows that are new, and unlink those of weight zero."""
    slot, best, waiting = group.row_chain, group.best, 0
    group.row_chain = 0
    while slot != LAST:
        row = _row_at(rows, slot)
        next_touched = row.next_touched
        row.next_touched = 0
        if row.old_weight == 0 and row.weight == 0:
            release(rows, slot)
        elif row.values[0] == best:
            _apply_best(op, rows, group, slot)
        else:
            waiting = _apply_other(rows, group, slot, waiting)
        slot = next_touched
    _change_others(rows, group, waiting)


@kernel
def _apply_other(rows: RowTable, group: ExtremeGroup, slot: int, waiting: int) -> int:
    """Let a new row take the place of a removed one in a list, which saves four accesses to neighbours.

    Return the row that now waits for such a pair: its slot if it has gone, -slot if it is new, or 0.
    """
    row = _row_at(rows, slot)
    old, new = row.old_weight, row.weight
    if old != 0 and new != 0:
        return waiting
    change = slot if new == 0 else -slot
    if waiting == 0:
        return change
    if (waiting > 0) == (change > 0):
        _change_others(rows, group, change)
        return waiting
    replace(rows, max(waiting, change), -min(waiting, change))
    return 0


@kernel
def _change_others(rows: RowTable, group: ExtremeGroup, waiting: int) -> None:
    """Unlink or link a row that found no pair."""
    if waiting > 0:
        _remove(rows, group, OTHERS, waiting)
    elif waiting < 0:
        _link(rows, group, OTHERS, -waiting)


@kernel
def _apply_best(op: GroupedRowsBlock, rows: RowTable, group: ExtremeGroup, slot: int) -> None:
    """Emit the change of a row that has the best value."""
    row = _row_at(rows, slot)
    old, new = row.old_weight, row.weight
    if new != old:
        emit(op, row.values, new - old)
    if old == 0:
        _link(rows, group, BEST, slot)
    elif new == 0:
        _remove(rows, group, BEST, slot)


@kernel
def _remove(rows: RowTable, group: ExtremeGroup, which: int, slot: int) -> None:
    _unlink(rows, group, which, _row_at(rows, slot))
    release(rows, slot)


@kernel
def _find_best(op: GroupedRowsBlock, rows: RowTable, group: ExtremeGroup) -> None:
    """Find the best of the other rows."""
    slot = group.lists[OTHERS]
    best = _row_at(rows, slot).values[0]
    while slot != 0:
        row = _row_at(rows, slot)
        best = max(best, row.values[0])
        slot = row.following
    group.best = best
    slot = group.lists[OTHERS]
    while slot != 0:
        row = _row_at(rows, slot)
        following = row.following
        if row.values[0] == best:
            _unlink(rows, group, OTHERS, row)
            _link(rows, group, BEST, slot)
            emit(op, row.values, row.weight)
        slot = following


@kernel
def _link(rows: RowTable, group: ExtremeGroup, which: int, slot: int) -> None:
    """Put a row at the front of a list."""
    row, first = _row_at(rows, slot), group.lists[which]
    row.previous = 0
    row.following = first
    if first != 0:
        _row_at(rows, first).previous = slot
    group.lists[which] = slot


@kernel
def _unlink(rows: RowTable, group: ExtremeGroup, which: int, row: ListedRow) -> None:
    """Remove a row from its list."""
    previous, following = row.previous, row.following
    if previous != 0:
        _row_at(rows, previous).following = following
    else:
        group.lists[which] = following
    if following != 0:
        _row_at(rows, following).previous = previous


EXTREME = group_step(extreme)
