"""Null row: the rows, or one row of NULL while there are none."""

from __future__ import annotations

from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.kernels.groups import grouped_rows as kernel
from deltamark.dataflow.kernels.groups.group_changes import OR_NULL
from deltamark.dataflow.operators.rows import Side, columns, watch
from deltamark.dataflow.plan.nodes import NullRow
from deltamark.dataflow.types import NULL


def null_row(stream: Stream, node: NullRow) -> Stream:
    """Watch the rows from time 0 on, as if it had been touched before any input."""
    program = stream.program
    key = stream.key((), ())
    keys = program.keys(key, 1, stream.size)
    side = Side(stream, key.cell, columns(stream, node.schema.names, node.schema))
    found = watch(OR_NULL, keys, [side])
    operator = view(program.ops[-1].block, kernel.FIRST + 1)
    rows, group = view(int(operator[kernel.ROWS]), kernel.CHAIN + 1), view(int(operator[kernel.GROUPS]), 1)
    view(int(rows[kernel.RECORDS]), int(rows[kernel.WORDS]))[kernel.VALUES :] = NULL
    operator[kernel.OPEN], group[kernel.IS_OPEN] = 1, 1
    program.differ(program.ops[-1].block + 8 * kernel.OPEN, [1] + [0] * (program.workers - 1))
    return found
