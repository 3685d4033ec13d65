"""Descriptions of plan nodes, without their inputs: names of operators as users know them, and arguments in SQL."""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Sequence
from typing import assert_never

from deltamark.dataflow.plan.nodes import (
    Aggregate,
    Concat,
    Consolidate,
    Direction,
    Extend,
    Extreme,
    Filter,
    IndexRead,
    Input,
    Iterate,
    Join,
    Measure,
    MovingThreshold,
    Negate,
    Node,
    NullRow,
    Project,
    Seek,
    Sum,
    Threshold,
    TopK,
    Variable,
)
from deltamark.dataflow.plan.term_sql import PRODUCT, identifier, listed, sql
from deltamark.dataflow.plan.terms import Term


def title(node: Node) -> str:
    """Name the operator of a node: `distinct`, or `smallest`."""
    match node:
        case Threshold(least=1):
            return "distinct"
        case Join(left_keys=()):
            return "cross join"
        case Extreme() | MovingThreshold():
            return node.which
        case TopK():
            return f"top {node.k}"
        case Variable():
            return "rows of the loop"
        case _:
            return node.operation


def describe(node: Node, columns: Names[str] | None = None) -> str:
    """Describe the arguments of a node: `by shop: sum(price) AS total`; empty if it has none.

    columns: the required columns; by default, all. Other columns of an input or a projection are left out.
    """
    required = node.schema.names if columns is None else columns
    match node:
        case Input():
            return _input(node, required)
        case Filter():
            return sql(node.condition)
        case Project():
            return ", ".join(_column(name, term) for name, term in node.columns if name in required)
        case Aggregate():
            return ": ".join(filter(None, [_by(node.keys), ", ".join(map(_sum, node.sums))]))
        case Threshold():
            return "" if node.least == 1 else f"at least {node.least} copies"
        case Join():
            return f"{_on(*node.keys)} -> {listed(name for name in node.schema.names if name in required)}".strip()
        case Extreme():
            return f"{identifier(node.column)} {_by(node.keys)}".strip() + _levels(node.levels)
        case TopK():
            return f"by {', '.join(f'{identifier(name)}{_direction(order)}' for name, order in node.order)}"
        case MovingThreshold():
            return f"{_bound(node)} {_on(*node.keys)}".strip()
        case Extend() if node.proposer is not None:
            return f"{_extension(node)}, proposed by index {node.proposer}"
        case Extend() | Seek() | Measure():
            return _extension(node)
        case Iterate():
            return f"loop {node.depth}"
        case Variable():
            return str(node.depth)
        case Concat() | Negate() | NullRow() | Consolidate():
            return ""
        case _:
            assert_never(node)


def _input(node: Input, required: Names[str]) -> str:
    names, number = [name for name in node.schema.names if name in required], len(node.schema.names)
    return f"{node.name} ({len(names)} of {number} columns){': ' if names else ''}{listed(names)}"


def _list(values: Sequence[object]) -> str:
    return ", ".join(map(str, values)) or "nothing"


def _on(left: Sequence[str], right: Sequence[str]) -> str:
    pairs = [(identifier(mine), identifier(theirs)) for mine, theirs in zip(left, right, strict=True)]
    keys = ", ".join(mine if mine == theirs else f"{mine} = {theirs}" for mine, theirs in pairs)
    return f"on {keys}" if keys else ""


def _column(name: str, term: Term) -> str:
    text = sql(term)
    return text if text == identifier(name) else f"{text} AS {identifier(name)}"


def _sum(column: Sum) -> str:
    value = "count(*)" if column.term is None else f"sum({sql(column.term)})"
    return f"{value} AS {identifier(column.name)}"


def _by(keys: Sequence[str]) -> str:
    return f"by {listed(keys)}" if keys else ""


def _levels(levels: Sequence[int]) -> str:
    return f", in {len(levels)} levels of {_list(levels)} groups" if levels else ""


def _direction(order: Direction) -> str:
    return " DESC" if order == "descending" else ""


def _bound(node: MovingThreshold) -> str:
    """Describe the comparison of a row with its limit."""
    factor = f" * {identifier(node.denominator)}" if node.denominator else ""
    return f"{sql(node.value, PRODUCT)}{factor} {'>' if node.which == 'above' else '<'} {identifier(node.numerator)}"


def _extension(node: Extend | Seek | Measure) -> str:
    return f"{identifier(node.column)} from {'; '.join(map(_index, node.indexes))}"


def _index(read: IndexRead) -> str:
    return f"{_list(read.row_keys)} to {read.value} ({read.version})"
