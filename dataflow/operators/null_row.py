"""Null row: the rows of a stream, and one row of NULLs while there are none."""

from __future__ import annotations

from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.kernels.groups.group_changes import NULL_ROW
from deltamark.dataflow.kernels.groups.grouped_rows import RowGroup, RowRecord
from deltamark.dataflow.kernels.groups.null_row import NullRowBlock
from deltamark.dataflow.operators.rows import RowInput, grouped_rows, stored_columns
from deltamark.dataflow.plan import nodes
from deltamark.dataflow.types import NULL


def null_row(stream: Stream, node: nodes.NullRow) -> Stream:
    """Append the operator as if time 0 had touched its group, so that the row of NULLs is emitted before any input."""
    program = stream.program
    key = stream.key((), ())
    keys = program.keys(key, 1, stream.size)
    rows = RowInput(stream, key.cell, stored_columns(stream, node.schema.names, node.schema))
    result = grouped_rows(NULL_ROW, NullRowBlock, keys, [rows])
    block = NullRowBlock(program.ops[-1].block)
    nulls = RowRecord(block.rows.records.address).values
    for column in range(block.rows.columns):
        nulls[column] = NULL
    block.touched_count = 1
    RowGroup(block.groups.address).is_touched = 1
    touched_count = block.address + NullRowBlock.fields["touched_count"].offset
    program.differ(touched_count, [1] + [0] * (program.workers - 1))
    return result
