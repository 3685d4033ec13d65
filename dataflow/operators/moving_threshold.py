"""Moving threshold: the rows above or below a limit that changes, one limit per key.

The kernel keeps the rows whose first value lies above the limit of their group; below, if both are negated.

The limit of a group is one number, because value * denominator > numerator is equivalent to
value > floor(numerator / denominator). This is exact, and no product can overflow. Rows are kept in order of group and
value, so when a limit moves, only the rows between the old and the new limit are visited.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from deltamark.dataflow.builder.keys import key_ids, key_of
from deltamark.dataflow.builder.program import CellAddress
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.builder.terms import evaluate
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.expressions import ADD
from deltamark.dataflow.kernels.groups.grouped_rows import (
    BAD_DENOMINATOR,
    NEGATIVE,
    TWO_LIMITS,
    GroupedRowsBlock,
    RowGroup,
    RowRecord,
    emit,
    fail,
    group_step,
    record_at,
    release,
)
from deltamark.dataflow.kernels.hashing import hash_map
from deltamark.dataflow.kernels.hashing.hash_map import remove
from deltamark.dataflow.kernels.ordered import btree
from deltamark.dataflow.kernels.ordered.btree import BTree
from deltamark.dataflow.operators.by_key import Paired
from deltamark.dataflow.operators.distribution import (
    WHOLE,
    Columns,
    Distribution,
    OperatorDistribution,
    crossed,
)
from deltamark.dataflow.operators.grouped_rows import (
    NEGATED,
    RowInput,
    RowOrder,
    StoredColumn,
    grouped_rows,
    reverse_order,
    stored_columns,
)
from deltamark.dataflow.operators.input import row_count
from deltamark.dataflow.operators.node import (
    Emission,
    JoinReads,
    Keys,
    Node,
    Placing,
    Requirement,
    is_unique,
)
from deltamark.dataflow.plan.term_sql import PRODUCT, identifier, on_columns, sql
from deltamark.dataflow.plan.terms import Term, number
from deltamark.dataflow.types import LARGEST

ONE = number(1)
"""The divisor of limits that are no ratios."""


@dataclass(frozen=True, eq=False)
class MovingThreshold(Paired):
    """The rows whose value * denominator is above or below the numerator of the one limit with the same keys.

    numerator, denominator: columns of the limits; an empty denominator stands for 1.
    """

    rows: Node
    limits: Node
    row_keys: Keys
    limit_keys: Keys
    value: Term
    which: Literal["above", "below"]
    numerator: str
    denominator: str

    consolidated: ClassVar[bool] = True
    copied_sides: ClassVar[Collection[int]] = (1,)

    @property
    def keys(self) -> tuple[Keys, Keys]:
        return self.row_keys, self.limit_keys

    @property
    def limit_columns(self) -> Keys:
        """The columns of the limits that rows are compared with."""
        return tuple(filter(None, (self.numerator, self.denominator)))

    @property
    def title(self) -> str:
        return self.which

    def description(self, required: Collection[str]) -> str:
        factor = f" * {identifier(self.denominator)}" if self.denominator else ""
        sign = ">" if self.which == "above" else "<"
        bound = f"{sql(self.value, PRODUCT)}{factor} {sign} {identifier(self.numerator)}"
        return f"{bound} {on_columns(*self.keys)}".strip()

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        rows = [*self.row_keys, *sorted(self.value.columns), *columns]
        return [(self.rows, rows), (self.limits, [*self.limit_keys, *self.limit_columns])]

    def determines(self, names: frozenset[str]) -> bool:
        return is_unique(self.rows, names)

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        return super().distributed(inputs, columns) if self.row_keys else crossed(self.inputs, 1, inputs, columns)

    def wishes(self, placing: Placing) -> list[Distribution]:
        return super().wishes(placing) if self.row_keys else [placing.default(self.rows), WHOLE]

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        rows, limits = streams
        return _moving_threshold(rows, limits, self, emission.columns(self))


def _moving_threshold(stream: Stream, limits: Stream, node: MovingThreshold, names: Sequence[str]) -> Stream:
    """Append the operator, which keeps rows in order of key and value, and the limits. names: the required columns."""
    types, numerator, denominator = node.key_types, node.numerator, node.denominator
    minuend = NEGATED if node.which == "below" else None
    key = key_of(stream, node.row_keys, types)
    limit_key = key_of(limits, node.limit_keys, types, key.interner)
    keys = key_ids(stream.program, key, row_count(node), _total_size(stream, limits))
    compared = StoredColumn("", node.value.type, reverse_order(stream, evaluate(stream, node.value), minuend), minuend)
    (dividend,) = stored_columns(limits, [numerator], node.limits.schema)
    dividend = replace(dividend, cell=reverse_order(limits, dividend.cell, minuend), minuend=minuend)
    divisor = StoredColumn("", ONE.type, evaluate(limits, ONE))
    if denominator:
        (divisor,) = stored_columns(limits, [denominator], node.limits.schema)
    row_columns = stored_columns(stream, (*node.row_keys, *names), node.rows.schema)
    limit_columns = stored_columns(limits, node.limit_keys, node.limits.schema)
    inputs = (
        RowInput(stream, key.cell, [compared, *row_columns]),
        RowInput(limits, limit_key.cell, [dividend, divisor, *limit_columns]),
    )
    order = _order(has_keys=bool(node.row_keys))
    return grouped_rows(MOVING_THRESHOLD, keys, inputs, order=order)


def _order(*, has_keys: bool) -> RowOrder:
    """Return the order by value, within each group if there are keys."""
    value = RowRecord.size_in_words
    return RowOrder(value - 1, 2) if has_keys else RowOrder(value, 1)


def _total_size(stream: Stream, other: Stream) -> CellAddress:
    """Append the sum of the sizes of two streams; return its cell."""
    program, result = stream.program, stream.program.cell()
    a, b, total = (program.cell(cell) for cell in (stream.size, other.size, result))
    program.add(ADD, size=program.cell(1), a=a, b=b, result=total)
    return result


class MovingThresholdBlock(GroupedRowsBlock):
    """The rows above the limits of their groups."""

    order: BTree


class LimitedGroup(RowGroup):
    """The limit of a group, and the number of its records."""

    limit: int
    limits: int
    """The weight of all limits: 1 if the group has a limit, else 0."""
    rows: int


@inline
def _limit_of(group: LimitedGroup) -> int:
    return group.limit if group.limits != 0 else LARGEST


@kernel
def moving_threshold(op: MovingThresholdBlock, group_id: int, group: LimitedGroup) -> int:
    """End a time for a group; return an error, or 0."""
    old = _limit_of(group)
    if group.limit_chain != 0:
        error = _update_limit(op, group)
        if error != 0:
            return error
    new = _limit_of(group)
    if new != old and group.rows != 0:
        _move(op, group_id, old, new)
    if group.row_chain != 0:
        error = _apply_changes(op, group, old, new)
        if error != 0:
            return error
    if group.rows == 0 and group.limits == 0:
        remove(op.keys, hash_map.key_of(op.keys, group_id))
    return 0


@kernel
def _update_limit(op: MovingThresholdBlock, group: LimitedGroup) -> int:
    """Compute the limit of a group after the time from its touched limits; return an error, or 0."""
    limits, slot, total, last = op.limits, group.limit_chain, group.limits, 0
    group.limit_chain = 0
    while slot > 0:
        row = record_at(limits, slot)
        weight, next_touched = row.weight, row.next_touched
        total += weight - row.old_weight
        row.next_touched = 0
        if weight < 0:
            return fail(op, NEGATIVE, 1, slot)
        if weight > 0:
            last = slot
        else:
            release(limits, slot)
        slot = next_touched
    group.limits = total
    if total > 1:
        return fail(op, TWO_LIMITS, 1, last)
    if last != 0:
        numerator, denominator = record_at(limits, last).values[0], record_at(limits, last).values[1]
        if denominator <= 0:
            return fail(op, BAD_DENOMINATOR, 1, last)
        group.limit = numerator // denominator
    return 0


@kernel
def _move(op: MovingThresholdBlock, group_id: int, old: int, new: int) -> None:
    """Emit the rows between two limits that no update has touched."""
    rows, order, high, sign = op.rows, op.order, max(old, new), 1 if new < old else -1
    probe = record_at(rows, 0)
    probe.group = group_id
    probe.values[0] = min(old, new) + 1
    position = btree.seek(order, 0)
    while position != 0:
        row = record_at(rows, btree.slot_at(order, position))
        if row.values[0] > high or row.group != group_id:
            break
        if row.next_touched == 0:
            emit(op, row.values, sign * row.weight)
        position = btree.following(order, position)


@kernel
def _apply_changes(op: MovingThresholdBlock, group: LimitedGroup, old: int, new: int) -> int:
    """Update the order of the touched rows, and emit their changes; return an error, or 0."""
    rows, order, slot, count = op.rows, op.order, group.row_chain, group.rows
    group.row_chain = 0
    while slot > 0:
        row = record_at(rows, slot)
        old_weight, weight, value, next_touched = row.old_weight, row.weight, row.values[0], row.next_touched
        row.next_touched = 0
        if weight < 0:
            return fail(op, NEGATIVE, 0, slot)
        change = (weight if value > new else 0) - (old_weight if value > old else 0)
        if change != 0:
            emit(op, row.values, change)
        count += (weight != 0) - (old_weight != 0)
        if old_weight == 0 and weight != 0:
            btree.insert(order, slot)
        elif old_weight != 0 and weight == 0:
            btree.delete(order, slot)
        if weight == 0:
            release(rows, slot)
        slot = next_touched
    group.rows = count
    return 0


MOVING_THRESHOLD = group_step(moving_threshold)
