"""Moving threshold: the rows above or below a limit, of which each key has its own, and which may change."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.groups.group_changes import MOVING_THRESHOLD
from deltamark.dataflow.kernels.groups.grouped_rows import RowRecord
from deltamark.dataflow.kernels.groups.moving_threshold import MovingThreshold
from deltamark.dataflow.operators.rows import (
    NEGATED,
    RowInput,
    RowOrder,
    StoredColumn,
    grouped_rows,
    reverse_order,
    stored_columns,
)
from deltamark.dataflow.plan.nodes import Node, base_rows
from deltamark.dataflow.plan.terms import number
from deltamark.dataflow.types import Type


def moving_threshold(stream: Stream, limits: Stream, node: Node, types: Sequence[Type], owed: Sequence[str]) -> Stream:
    """Append the operator. types: those of the keys, spanning the types of both inputs."""
    mine, theirs, value, which, numerator, denominator = node.params
    minuend = NEGATED if which == "below" else None
    key = stream.key(mine, types)
    limit_key = limits.key(theirs, types, key.interner)
    keys = stream.program.keys(key, base_rows(node), _both(stream, limits))
    compared = StoredColumn("", reverse_order(stream, stream.evaluate(value), minuend), minuend)
    dividend = StoredColumn(numerator, reverse_order(limits, limits.column(numerator), minuend), minuend)
    divisor = StoredColumn(denominator, limits.column(denominator) if denominator else limits.evaluate(number(1)))
    inputs = (
        RowInput(stream, key.cell, [compared, *stored_columns(stream, (*mine, *owed), node.inputs[0].schema)]),
        RowInput(limits, limit_key.cell, [dividend, divisor, *stored_columns(limits, theirs, node.inputs[1].schema)]),
    )
    return grouped_rows(MOVING_THRESHOLD, MovingThreshold, keys, inputs, order=_order(has_keys=bool(mine)))


def _order(*, has_keys: bool) -> RowOrder:
    """Return the order by value, within each group if there are keys."""
    value = RowRecord.size_in_words
    return RowOrder(value - 1, 2) if has_keys else RowOrder(value, 1)


def _both(stream: Stream, other: Stream) -> int:
    """Return the cell of the size of two streams together."""
    program, result = stream.program, stream.program.cell()
    program.op(vm.ADD, program.cell(1), program.cell(stream.size), program.cell(other.size), 0, program.cell(result))
    return result
