"""Null row: the rows of the input, and one row of NULLs while there are none, from time 0 on."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.groups.grouped_rows import (
    NEGATIVE,
    GroupedRowsBlock,
    RowGroup,
    emit,
    fail,
    group_step,
    record_at,
    release,
)
from deltamark.dataflow.types import NULL


class NullRowBlock(GroupedRowsBlock):
    """The rows of the input, or the row of NULLs, which is the record of slot 0."""

    is_null: int = 0
    """Whether the row of NULLs is the output."""


@kernel
def null_row(op: NullRowBlock, group: RowGroup) -> int:
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
