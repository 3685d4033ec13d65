"""At most one: the rows of a collection, of which each group may have one when a time ends; more are an error."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from deltamark.dataflow.builder.keys import key_ids, key_of
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.groups.grouped_rows import (
    NEGATIVE,
    SEVERAL_ROWS,
    GroupedRowsBlock,
    RowGroup,
    emit,
    fail,
    group_step,
    record_at,
    release,
)
from deltamark.dataflow.kernels.hashing import hash_map
from deltamark.dataflow.kernels.hashing.hash_map import remove
from deltamark.dataflow.operators.by_key import Grouped
from deltamark.dataflow.operators.grouped_rows import RowInput, grouped_rows, stored_columns
from deltamark.dataflow.operators.input import row_count
from deltamark.dataflow.operators.node import Emission, JoinReads, Requirement, is_unique
from deltamark.dataflow.plan.term_sql import by_columns


@dataclass(frozen=True, eq=False)
class AtMostOne(Grouped):
    """The rows, of which each combination of values of the keys may have one."""

    consolidated: ClassVar[bool] = True
    needs_complete_times: ClassVar[bool] = True

    def description(self, required: Collection[str]) -> str:
        return by_columns(self.keys)

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, [*self.keys, *columns])]

    def determines(self, names: frozenset[str]) -> bool:
        return set(self.keys) <= names or is_unique(self.rows, names)

    def has_null(self, name: str) -> bool:
        return self.rows.has_null(name)

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        (stream,) = streams
        names = tuple(dict.fromkeys([*self.keys, *emission.columns(self)]))
        key = key_of(stream, self.keys, [self.schema[name] for name in self.keys])
        keys = key_ids(stream.program, key, row_count(self), stream.size)
        return grouped_rows(AT_MOST_ONE, keys, [RowInput(stream, key.cell, stored_columns(stream, names, self.schema))])


class CountedGroup(RowGroup):
    """A group, and its number of rows."""

    count: int


@kernel
def at_most_one(op: GroupedRowsBlock, group_id: int, group: CountedGroup) -> int:
    """End a time for a group; return an error, or 0."""
    rows, slot, last = op.rows, group.row_chain, 0
    group.row_chain = 0
    while slot > 0:
        row = record_at(rows, slot)
        weight, next_touched = row.weight, row.next_touched
        row.next_touched = 0
        if weight < 0:
            return fail(op, NEGATIVE, 0, slot)
        if weight != row.old_weight:
            group.count += weight - row.old_weight
            emit(op, row.values, weight - row.old_weight)
        if weight == 0:
            release(rows, slot)
        else:
            last = slot
        slot = next_touched
    if group.count > 1:
        return fail(op, SEVERAL_ROWS, 0, last)
    if group.count == 0:
        remove(op.keys, hash_map.key_of(op.keys, group_id))
    return 0


AT_MOST_ONE = group_step(at_most_one)
