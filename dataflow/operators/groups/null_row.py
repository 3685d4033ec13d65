"""Null row: the rows of a stream, or one row of NULLs while the stream has no rows."""

from __future__ import annotations

from deltamark.dataflow.builder.key_ids import key_ids
from deltamark.dataflow.builder.keys import key_of
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.kernels.groups.group_changes import NULL_ROW
from deltamark.dataflow.kernels.groups.grouped_rows import RowGroup, RowRecord
from deltamark.dataflow.kernels.groups.null_row import NullRowBlock
from deltamark.dataflow.operators.groups.grouped_rows import RowInput, grouped_rows, stored_columns
from deltamark.dataflow.plan import nodes
from deltamark.dataflow.plan.cardinality import RowCount
from deltamark.dataflow.types import NULL


def null_row(stream: Stream, node: nodes.NullRow, *, everywhere: bool) -> Stream:
    """Append the operator with its group marked as touched by time 0, so that the row of NULLs precedes any input.

    everywhere: whether every worker has the rows, not only the first one.
    """
    program = stream.program
    key = key_of(stream, (), ())
    keys = key_ids(program, key, RowCount(1), stream.size)
    rows = RowInput(stream, key.cell, stored_columns(stream, node.schema.names, node.schema))
    result = grouped_rows(NULL_ROW, NullRowBlock, keys, [rows])
    block = NullRowBlock(program.ops[-1].block)
    nulls = RowRecord(block.rows.records.address).values
    for column in range(block.rows.columns):
        nulls[column] = NULL
    block.touched_count = 1
    RowGroup(block.groups.address).is_touched = 1
    touched_count = block.address + NullRowBlock.fields["touched_count"].offset
    program.set_per_worker(touched_count, [1] + [int(everywhere)] * (program.workers - 1))
    return result
