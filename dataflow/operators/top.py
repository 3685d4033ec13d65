"""Top: the first rows in an order of all columns, up to a total weight; descending columns are stored complemented.

The last of these rows may have a place for a part of its weight only. All rows are kept in order. A time whose changes
all lie behind the last place emits nothing; any other time assigns the places anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from deltamark.dataflow.builder.keys import RowCount, key_ids, key_of
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.core.blocks import Array, Inline
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.memory import UNBOUNDED_WORDS
from deltamark.dataflow.kernels.groups.grouped_rows import (
    NEGATIVE,
    GroupedRowsBlock,
    RowGroup,
    RowHeader,
    RowRecord,
    RowTable,
    emit,
    fail,
    group_step,
    record_at,
    release,
)
from deltamark.dataflow.kernels.ordered import btree
from deltamark.dataflow.kernels.ordered.btree import BTree
from deltamark.dataflow.operators.distribution import Columns, Distribution, OperatorDistribution, two_phases
from deltamark.dataflow.operators.grouped_rows import (
    RowInput,
    RowOrder,
    grouped_rows,
    stored_columns,
    with_prefixes,
)
from deltamark.dataflow.operators.node import Emission, JoinReads, Node, Requirement
from deltamark.dataflow.plan.term_sql import identifier

Direction = Literal["ascending", "descending"]


@dataclass(frozen=True, eq=False)
class TopK(Node):
    """The first k rows, counting multiplicity, in an order of all columns."""

    rows: Node
    k: int
    order: tuple[tuple[str, Direction], ...]

    consolidated: ClassVar[bool] = True

    @property
    def title(self) -> str:
        return f"top {self.k}"

    def description(self, required: Collection[str]) -> str:
        places = (identifier(name) + " DESC" * (order == "descending") for name, order in self.order)
        return f"by {', '.join(places)}"

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, self.schema.names)]

    def determines(self, names: frozenset[str]) -> bool:
        return self.k == 1

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        return two_phases(self.rows, inputs[0], columns)

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        selected = _top(streams[0], self)
        if emission.distribution(self).second is None:
            return selected
        columns = {name: self.schema[name] for name in self.schema.names}
        return _top(emission.first_worker_selects(selected, columns, self), self)


def _top(stream: Stream, node: TopK) -> Stream:
    """Append the operator; all rows are in one group."""
    descending = [name for name, direction in node.order if direction == "descending"]
    key = key_of(stream, (), ())
    keys = key_ids(stream.program, key, RowCount(1), stream.size)
    compared = stored_columns(stream, dict.fromkeys(name for name, _ in node.order), node.schema, descending)
    stored, texts = with_prefixes(stream, compared)
    return grouped_rows(
        TOP, keys, [RowInput(stream, key.cell, stored)],
        order=RowOrder(RowRecord.size_in_words, len(stored), texts), places=node.k, free_places=node.k,
        placed=stream.program.memory.reserve_unset(UNBOUNDED_WORDS),
    )  # fmt: skip


class TopBlock(GroupedRowsBlock):
    """The first rows of an order."""

    order: BTree
    places: int
    free_places: int
    placed: Array
    """The slots of the rows that have a place, in order, and behind them those of the next assignment."""
    placed_count: int = 0


class PlacedRow(RowHeader):
    """A record, and how much of its weight has a place."""

    placed_weight: int
    new_placed_weight: int
    """As in the next assignment, while places are assigned anew; else 0."""
    group: int
    values: Inline


@inline
def _row_at(rows: RowTable, slot: int) -> PlacedRow:
    return PlacedRow(record_at(rows, slot).address)


@kernel
def top(op: TopBlock, _group_id: int, group: RowGroup) -> int:
    """End a time; return an error, or 0."""
    rows, order, slot, matters = op.rows, op.order, group.row_chain, False
    while slot > 0:
        row = _row_at(rows, slot)
        old, new = row.old_weight, row.weight
        if new < 0:
            return fail(op, NEGATIVE, 0, slot)
        if old == 0 and new != 0:
            btree.insert(order, slot)
        elif old != 0 and new == 0:
            btree.delete(order, slot)
        matters |= old != new and _matters(op, order, slot)
        slot = row.next_touched
    if matters:
        _assign_places(op, rows, order)
    slot = group.row_chain
    group.row_chain = 0
    while slot > 0:
        row = _row_at(rows, slot)
        next_touched = row.next_touched
        row.next_touched = 0
        if row.weight == 0:
            release(rows, slot)
        slot = next_touched
    return 0


@kernel
def _matters(op: TopBlock, order: BTree, slot: int) -> bool:
    """Return whether a place is free, or a row lies at or before the last place."""
    if op.free_places > 0 or op.placed_count == 0:
        return True
    return not btree.precedes(order, op.placed[op.placed_count - 1], slot)


@kernel
def _assign_places(op: TopBlock, rows: RowTable, order: BTree) -> None:
    """Assign the places anew, and emit the changes."""
    old_count, places, position, count = op.placed_count, op.places, btree.start(order), 0
    old, new = op.placed, op.placed[old_count:]
    while places > 0 and position != 0:
        slot = btree.slot_at(order, position)
        row = _row_at(rows, slot)
        weight = min(places, row.weight)
        if weight != row.placed_weight:
            emit(op, row.values, weight - row.placed_weight)
        places -= weight
        row.new_placed_weight = weight
        new[count] = slot
        count += 1
        position = btree.following(order, position)
    for index in range(old_count):
        row = _row_at(rows, old[index])
        if row.new_placed_weight == 0:
            emit(op, row.values, -row.placed_weight)
        row.placed_weight = 0
    for index in range(count):
        slot = new[index]
        row = _row_at(rows, slot)
        row.placed_weight = row.new_placed_weight
        row.new_placed_weight = 0
        old[index] = slot
    op.placed_count = count
    op.free_places = places


TOP = group_step(top)
