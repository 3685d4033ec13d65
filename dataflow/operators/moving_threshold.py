"""Moving threshold: the rows above or below a limit that changes, one limit per key."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.dataflow.codegen.columns import Stream
from deltamark.dataflow.kernels import interpreter as vm
from deltamark.dataflow.kernels.groups.group_changes import BOUND
from deltamark.dataflow.kernels.groups.grouped_rows import GROUP, VALUES
from deltamark.dataflow.operators.rows import NEGATED, Column, Order, Side, columns, turn, watch
from deltamark.dataflow.plan.nodes import MovingThreshold
from deltamark.dataflow.plan.terms import number
from deltamark.dataflow.plan.traversal import base_rows


def moving_threshold(stream: Stream, limits: Stream, node: MovingThreshold, names: Sequence[str]) -> Stream:
    """Append the operator, which keeps rows in order of key and value, and the limits. names: the required columns."""
    mine, theirs, types = node.row_keys, node.limit_keys, node.key_types
    numerator, denominator = node.numerator, node.denominator
    turned = NEGATED if node.which == "below" else None
    key = stream.key(mine, types)
    limit_key = limits.key(theirs, types, key.interner)
    keys = stream.program.keys(key, base_rows(node), _both(stream, limits))
    compared = Column("", turn(stream, stream.evaluate(node.value), turned), turned)
    divided = Column(numerator, turn(limits, limits.column(numerator), turned), turned)
    by = Column(denominator, limits.column(denominator) if denominator else limits.evaluate(number(1)))
    sides = (
        Side(stream, key.cell, [compared, *columns(stream, (*mine, *names), node.rows.schema)]),
        Side(limits, limit_key.cell, [divided, by, *columns(limits, theirs, node.limits.schema)]),
    )
    return watch(BOUND, keys, sides, Order(GROUP, 2) if mine else Order(VALUES, 1))


def _both(stream: Stream, other: Stream) -> int:
    """Return the cell of the size of two streams together."""
    program, result = stream.program, stream.program.cell()
    program.op(vm.ADD, program.cell(1), program.cell(stream.size), program.cell(other.size), 0, program.cell(result))
    return result
