"""Cardinality: estimates of the rows of nodes and of the share of rows that a condition keeps.

The estimates start from the declared row bounds of inputs, and take values to be spread evenly over the declared range
of their column. Sums are not: the range of a sum is that of the sum of all rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from deltamark.dataflow.plan.memo import kept
from deltamark.dataflow.plan.nodes import Aggregate, Concat, Filter, Join, Node, Project
from deltamark.dataflow.plan.ranges import column_ranges, other_conditions
from deltamark.dataflow.plan.terms import Term, all_of, conjuncts
from deltamark.dataflow.plan.traversal import base_rows, has_joined_rows
from deltamark.dataflow.types import Type, key_count

LESS_SELECTIVITY = 0.5
"""The share of rows in which one column is less than another; not measured."""

DEFAULT_SELECTIVITY = 0.1
"""The share of rows that satisfy a condition about which nothing is known, such as a text pattern or the comparison of
a sum; not measured."""


@dataclass(frozen=True)
class RowCount:
    """The live rows of a node: a bound, by which memory is sized, and their expected number, if it is known."""

    bound: int
    expected: float = math.inf


def row_count(root: Node) -> RowCount:
    """Count the live rows of a node."""
    return RowCount(base_rows(root), expected_rows(root))


def repeats_rows(node: Node, names: Iterable[str]) -> bool:
    """Return whether joins below a node are expected to make more rows than some of its columns have values.

    Then many of these rows are equal.
    """
    return has_joined_rows(node) and expected_rows(node) > key_count(node.schema[name] for name in names)


_expected: WeakKeyDictionary[Node, float] = WeakKeyDictionary()
"""The estimates of nodes, as long as these live."""


def expected_rows(root: Node) -> float:
    """Estimate the number of rows of a node, once for each node below it."""
    remaining = [root]
    while remaining:
        node = remaining[-1]
        if unknown := [each for each in node.inputs if each not in _expected]:
            remaining += unknown
            continue
        if node not in _expected:
            _expected[node] = min(_estimate(node, [_expected[each] for each in node.inputs]), node.schema.rows)
        remaining.pop()
    return _expected[root]


def _estimate(node: Node, inputs: list[float]) -> float:
    match node:
        case Filter():
            return inputs[0] * _kept_share(node)
        case Join():
            types = [node.left.schema[name] for name in node.left_keys]
            keys = math.prod(each.high - each.low + 1 for each in types)
            return inputs[0] * (inputs[1] / max(min(keys, max(inputs)), 1))
        case Concat():
            return sum(inputs)
        case _:
            return inputs[0] if inputs else node.schema.rows


def _kept_share(node: Filter) -> float:
    """Estimate the share of rows that a filter keeps."""
    sums = _sums(node.rows)
    terms = conjuncts(node.condition)
    of_sums = [each for each in terms if each.columns & sums]
    others = [each for each in terms if not each.columns & sums]
    return DEFAULT_SELECTIVITY ** len(of_sums) * (selectivity(all_of(others)) if others else 1.0)


def _sums(node: Node) -> set[str]:
    """Return the columns that are sums."""
    match node:
        case Aggregate():
            return {each.name for each in node.sums}
        case Filter():
            return _sums(node.rows)
        case Project():
            sums = _sums(node.rows)
            return {name for name, source in node.copied.items() if source in sums}
    return set()


@kept
def selectivity(condition: Term) -> float:
    """Estimate the share of rows that satisfy a condition."""
    terms = conjuncts(condition)
    types = {each.value: each.type for term in terms for each in _operands(term) if each.op == "column"}
    ranges = [_overlap(types[name], low, high) for name, low, high in column_ranges(terms)]
    return math.prod(ranges) * math.prod(map(_selectivity, other_conditions(terms)))


def _operands(term: Term) -> tuple[Term, ...]:
    """Return the terms that a condition or its negation compares, or the column that it is."""
    inner = term.args[0] if term.op == "not" else term
    return inner.args or (inner,)


def _overlap(of: Type, low: int, high: int) -> float:
    """Return the share of a column's range that lies in another range."""
    return max(min(high, of.high) - max(low, of.low) + 1, 0) / (of.high - of.low + 1)


def _selectivity(term: Term) -> float:
    match term.op:
        case "literal":
            return float(term.value)
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
