"""Null row: the rows of a stream, or one row of NULLs while the stream has no rows.

Null row: the rows of the input, and one row of NULLs while there are none, from time 0 on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from deltamark.dataflow.builder.keys import RowCount, key_ids, key_of
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.groups.grouped_rows import (
    NEGATIVE,
    GroupedRowsBlock,
    RowGroup,
    RowRecord,
    emit,
    fail,
    group_step,
    record_at,
    release,
)
from deltamark.dataflow.operators.distribution import WHOLE, Columns, Distribution, OperatorDistribution, gather
from deltamark.dataflow.operators.grouped_rows import RowInput, grouped_rows, stored_columns
from deltamark.dataflow.operators.node import Emission, JoinReads, Node, Requirement, is_unique
from deltamark.dataflow.types import NULL


@dataclass(frozen=True, eq=False)
class NullRow(Node):
    """The rows, or one row of NULL while there are none."""

    rows: Node

    consolidated: ClassVar[bool] = True

    def required(self, columns: Sequence[str], reads: JoinReads) -> Iterable[Requirement]:
        return [(self.rows, self.schema.names)]

    def determines(self, names: frozenset[str]) -> bool:
        return is_unique(self.rows, names)

    def distributed(self, inputs: Sequence[Distribution], columns: Columns) -> OperatorDistribution:
        return gather(inputs[0], (), ())

    def emit(self, emission: Emission, streams: Sequence[Stream]) -> Stream:
        """Append the operator with its group marked as touched by time 0: the row of NULLs precedes any input."""
        (stream,) = streams
        program = stream.program
        key = key_of(stream, (), ())
        keys = key_ids(program, key, RowCount(1), stream.size)
        rows = RowInput(stream, key.cell, stored_columns(stream, self.schema.names, self.schema))
        result = grouped_rows(NULL_ROW, keys, [rows])
        block = NullRowBlock(program.ops[-1].block)
        nulls = RowRecord(block.rows.records.address).values
        for column in range(block.rows.columns):
            nulls[column] = NULL
        view(block.touched.address, 1)[0] = 0
        everywhere = emission.distribution(self).distribution == WHOLE
        block.touched_count = int(everywhere or program.read(program.worker) == 0)
        RowGroup(block.groups.address).is_touched = block.touched_count
        return result


class NullRowBlock(GroupedRowsBlock):
    """The rows of the input, or the row of NULLs, which is the record of slot 0."""

    is_null: int = 0
    """Whether the row of NULLs is the output."""


@kernel
def null_row(op: NullRowBlock, _group_id: int, group: RowGroup) -> int:
    """End a time; return an error, or 0."""
    rows, slot = op.rows, group.row_chain
    left = rows.used
    while slot > 0:
        row = record_at(rows, slot)
        if row.weight < 0:
            return fail(op, NEGATIVE, 0, slot)
        left -= row.weight == 0
        slot = row.next_touched
    is_null = 1 if left == 0 else 0
    diff = is_null - op.is_null
    op.is_null = is_null
    slot = group.row_chain
    group.row_chain = 0
    while slot > 0:
        row = record_at(rows, slot)
        change, next_touched = row.weight - row.old_weight, row.next_touched
        row.next_touched = 0
        if diff != 0 and _is_null(row.values, rows.columns):  # the input may have a row of NULLs as well
            change, diff = change + diff, 0
        if change != 0:
            emit(op, row.values, change)
        if row.weight == 0:
            release(rows, slot)
        slot = next_touched
    if diff != 0:
        emit(op, record_at(rows, 0).values, diff)
    return 0


@kernel
def _is_null(values: Array, columns: int) -> bool:
    """Return whether all values are NULL."""
    missing = 0
    for column in range(columns):
        missing += values[column] == NULL
    return missing == columns


NULL_ROW = group_step(null_row)
