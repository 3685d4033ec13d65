"""Descriptions of plan nodes in words, without their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from deltamark.dataflow.plan.nodes import (
    Aggregate,
    Concat,
    Consolidate,
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
from deltamark.dataflow.plan.terms import Term


def describe(node: Node) -> str:
    """Describe the parameters of a node: `by shop, sum price` for an aggregate; empty if it has none."""
    match node:
        case Input():
            return node.name
        case Filter():
            return str(node.condition)
        case Project():
            return ", ".join(_column(name, term) for name, term in node.columns)
        case Aggregate():
            return "; ".join([_by(node.keys), *filter(None, [", ".join(map(_sum, node.sums))])])
        case Threshold():
            return f"at least {node.least}"
        case Join():
            return f"on {_equal(*node.keys)}"
        case Extreme():
            levels = f", {len(node.levels)} levels: {_list(node.levels)}" if node.levels else ""
            return f"{node.which} {node.column} {_by(node.keys)}{levels}"
        case TopK():
            return f"{node.k} by {', '.join(f'{name} {direction}' for name, direction in node.order)}"
        case MovingThreshold():
            by = f" * {node.denominator}" if node.denominator else ""
            return f"{node.value}{by} {node.which} {node.numerator}, on {_equal(*node.keys)}"
        case Extend() if node.proposer is not None:
            return f"{_extension(node)}, proposed by {node.proposer}"
        case Extend() | Seek() | Measure():
            return _extension(node)
        case Iterate() | Variable():
            return f"loop {node.depth}"
        case Concat() | Negate() | NullRow() | Consolidate():
            return ""
        case _:
            assert_never(node)


def _list(names: Sequence[object]) -> str:
    return ", ".join(map(str, names)) or "nothing"


def _by(keys: Sequence[str]) -> str:
    return f"by {_list(keys)}"


def _equal(left: Sequence[str], right: Sequence[str]) -> str:
    pairs = zip(left, right, strict=True)
    return _list([mine if mine == theirs else f"{mine} = {theirs}" for mine, theirs in pairs])


def _column(name: str, term: Term) -> str:
    return name if term.op == "column" and term.value == name else f"{name} = {term}"


def _sum(column: Sum) -> str:
    return f"{column.name} = count" if column.term is None else f"{column.name} = sum {column.term}"


def _extension(node: Extend | Seek | Measure) -> str:
    return f"{node.column} from {'; '.join(map(_index, node.indexes))}"


def _index(read: IndexRead) -> str:
    return f"{_list(read.row_keys)} to {read.value} ({read.version})"
