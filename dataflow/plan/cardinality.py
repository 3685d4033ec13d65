"""Cardinality: estimates of the rows of nodes and of the share of rows that a condition keeps.

The estimates start from the declared row bounds of inputs, and take values to be spread evenly over the declared range
of their column.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from deltamark.dataflow.plan.nodes import Concat, Filter, Join, Node, walk
from deltamark.dataflow.plan.ranges import column_ranges, other_conditions
from deltamark.dataflow.plan.terms import Term, conjuncts
from deltamark.dataflow.types import Type

LESS_SELECTIVITY = 0.5
"""The share of rows in which one column is less than another; not measured."""

DEFAULT_SELECTIVITY = 0.1
"""The share of rows that satisfy a condition about which nothing is known, such as a text pattern; not measured."""


def expected_rows(root: Node) -> float:
    """Estimate the number of rows of a node; linear in the number of nodes below it."""
    rows: dict[Node, float] = {}
    for node in walk(root):
        rows[node] = min(_estimate(node, [rows[each] for each in node.inputs]), node.schema.rows)
    return rows[root]


def _estimate(node: Node, inputs: list[float]) -> float:
    match node:
        case Filter():
            return inputs[0] * selectivity(node.condition)
        case Join():
            types = [node.left.schema[name] for name in node.left_keys]
            keys = math.prod(each.high - each.low + 1 for each in types)
            return inputs[0] * (inputs[1] / max(min(keys, max(inputs)), 1))
        case Concat():
            return sum(inputs)
        case _:
            return inputs[0] if inputs else node.schema.rows


def selectivity(condition: Term) -> float:
    """Estimate the share of rows that satisfy a condition."""
    terms, types = conjuncts(condition), dict(_columns(condition))
    ranges = [_overlap(types[name], low, high) for name, low, high in column_ranges(terms)]
    return math.prod(ranges) * math.prod(map(_selectivity, other_conditions(terms)))


def _columns(term: Term) -> Iterator[tuple[str, Type]]:
    if term.op == "column":
        yield term.value, term.type
    for each in term.args:
        yield from _columns(each)


def _overlap(of: Type, low: int, high: int) -> float:
    """Return the share of a column's range that lies in another range."""
    return max(min(high, of.high) - max(low, of.low) + 1, 0) / (of.high - of.low + 1)


def _selectivity(term: Term) -> float:
    match term.op:
        case "or":
            return 1 - math.prod(1 - selectivity(each) for each in term.args)
        case "not":
            return 1 - selectivity(term.args[0])
        case "lookup":
            return sum(term.value) / len(term.value)
        case "member":
            of = term.args[0].type
            return min(len(term.value) / (of.high - of.low + 1), 1.0)
        case "less":
            return LESS_SELECTIVITY
        case "equal":
            return 1 / max(each.type.high - each.type.low + 1 for each in term.args)
        case _:
            return DEFAULT_SELECTIVITY
