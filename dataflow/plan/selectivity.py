"""Selectivity: an estimate of the share of rows that a condition keeps.

Values are taken to be spread evenly over the declared range of their column.
"""

from __future__ import annotations

import math

from deltamark.dataflow.plan.memo import kept
from deltamark.dataflow.plan.ranges import column_ranges, other_conditions
from deltamark.dataflow.plan.terms import Term, conjuncts
from deltamark.dataflow.types import Type

LESS_SELECTIVITY = 0.5
"""The share of rows in which one column is less than another; not measured."""

DEFAULT_SELECTIVITY = 0.1
"""The share of rows that satisfy a condition about which nothing is known, such as a text pattern or the comparison of
a sum; not measured."""


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
