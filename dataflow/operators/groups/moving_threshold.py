"""Moving threshold: the rows above or below a limit that changes, one limit per key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from deltamark.dataflow.builder.key_ids import key_ids
from deltamark.dataflow.builder.keys import key_of
from deltamark.dataflow.builder.stream import Stream
from deltamark.dataflow.builder.terms import evaluate
from deltamark.dataflow.kernels.expressions import BinaryBlock
from deltamark.dataflow.kernels.groups.group_changes import MOVING_THRESHOLD
from deltamark.dataflow.kernels.groups.grouped_rows import RowRecord
from deltamark.dataflow.kernels.groups.moving_threshold import MovingThresholdBlock
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.operators.groups.grouped_rows import (
    NEGATED,
    RowInput,
    RowOrder,
    StoredColumn,
    grouped_rows,
    reverse_order,
    stored_columns,
)
from deltamark.dataflow.plan import nodes
from deltamark.dataflow.plan.cardinality import row_count
from deltamark.dataflow.plan.terms import number

ONE = number(1)
"""The divisor of limits that are no ratios."""


def moving_threshold(stream: Stream, limits: Stream, node: nodes.MovingThreshold, names: Sequence[str]) -> Stream:
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
    return grouped_rows(MOVING_THRESHOLD, MovingThresholdBlock, keys, inputs, order=order)


def _order(*, has_keys: bool) -> RowOrder:
    """Return the order by value, within each group if there are keys."""
    value = RowRecord.size_in_words
    return RowOrder(value - 1, 2) if has_keys else RowOrder(value, 1)


def _total_size(stream: Stream, other: Stream) -> int:
    """Append the sum of the sizes of two streams; return its cell."""
    program, result = stream.program, stream.program.cell()
    a, b, total = (program.cell(cell) for cell in (stream.size, other.size, result))
    program.add(Opcode.ADD, BinaryBlock, size=program.cell(1), a=a, b=b, result=total)
    return result
