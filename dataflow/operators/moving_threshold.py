"""Moving threshold: the rows above or below a limit that changes, one limit per key."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.kernels.expressions import BinaryBlock
from deltamark.dataflow.kernels.groups.group_changes import MOVING_THRESHOLD
from deltamark.dataflow.kernels.groups.grouped_rows import RowRecord
from deltamark.dataflow.kernels.groups.moving_threshold import MovingThresholdBlock
from deltamark.dataflow.kernels.opcodes import Opcode
from deltamark.dataflow.operators.rows import (
    NEGATED,
    RowInput,
    RowOrder,
    StoredColumn,
    grouped_rows,
    reverse_order,
    stored_columns,
)
from deltamark.dataflow.plan import nodes
from deltamark.dataflow.plan.terms import number
from deltamark.dataflow.plan.traversal import base_rows


def moving_threshold(stream: Stream, limits: Stream, node: nodes.MovingThreshold, names: Sequence[str]) -> Stream:
    """Append the operator, which keeps rows in order of key and value, and the limits. names: the required columns."""
    mine, theirs, types = node.row_keys, node.limit_keys, node.key_types
    numerator, denominator = node.numerator, node.denominator
    minuend = NEGATED if node.which == "below" else None
    key = stream.key(mine, types)
    limit_key = limits.key(theirs, types, key.interner)
    keys = stream.program.keys(key, base_rows(node), _both(stream, limits))
    compared = StoredColumn("", reverse_order(stream, stream.evaluate(node.value), minuend), minuend)
    dividend = StoredColumn(numerator, reverse_order(limits, limits.column(numerator), minuend), minuend)
    divisor = StoredColumn(denominator, limits.column(denominator) if denominator else limits.evaluate(number(1)))
    inputs = (
        RowInput(stream, key.cell, [compared, *stored_columns(stream, (*mine, *names), node.rows.schema)]),
        RowInput(limits, limit_key.cell, [dividend, divisor, *stored_columns(limits, theirs, node.limits.schema)]),
    )
    return grouped_rows(MOVING_THRESHOLD, MovingThresholdBlock, keys, inputs, order=_order(has_keys=bool(mine)))


def _order(*, has_keys: bool) -> RowOrder:
    """Return the order by value, within each group if there are keys."""
    value = RowRecord.size_in_words
    return RowOrder(value - 1, 2) if has_keys else RowOrder(value, 1)


def _both(stream: Stream, other: Stream) -> int:
    """Return the cell of the size of two streams together."""
    program, result = stream.program, stream.program.cell()
    cells = (program.cell(each) for each in (stream.size, other.size, result))
    program.add(Opcode.ADD, BinaryBlock, size=program.cell(1), **dict(zip(("a", "b", "result"), cells, strict=True)))
    return result
