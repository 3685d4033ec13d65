"""Selectivity: an estimate of the share of rows that a condition keeps.

Values are taken to be spread evenly over the declared range of their column.

Ranges: the conjuncts of a condition that compare one column with a constant, as one range per column.

A column of conditions, or its negation, is the range of one value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from deltamark.dataflow.plan.memo import kept
from deltamark.dataflow.plan.terms import Term, conjuncts
from deltamark.dataflow.types import LARGEST, Type

ColumnRange = tuple[str, int, int]
"""A column, and the lowest and highest value that satisfy the condition."""

NO_VALUES = 1, 0
"""A range without values. The range above the largest number has no low end of 64 bits, so it is written like this."""


def column_ranges(terms: Sequence[Term]) -> list[ColumnRange]:
    """Return one range per column, in the order in which the columns are first named."""
    found: dict[str, tuple[int, int]] = {}
    for term in terms:
        if (each := _range(term)) is not None:
            name, low, high = each
            before = found.get(name, (-LARGEST, LARGEST))
            found[name] = (max(before[0], low), min(before[1], high))
    return [(name, low, high) if low <= LARGEST else (name, *NO_VALUES) for name, (low, high) in found.items()]


def other_conditions(terms: Sequence[Term]) -> list[Term]:
    """Return the conditions that are not ranges."""
    return [term for term in terms if _range(term) is None]


def _range(term: Term) -> ColumnRange | None:
    """Read a condition as a range, if it is one."""
    negated = term.op == "not"
    inner = term.args[0] if negated else term
    if inner.op == "column":
        return inner.value, int(not negated), int(not negated)
    if inner.op not in ("less", "equal") or (negated and inner.op == "equal"):
        return None
    left, right = inner.args
    if left.type.kind == "text":
        return None
    if left.op == "column" and right.op == "literal":
        if inner.op == "equal":
            return left.value, right.value, right.value
        return (left.value, right.value, LARGEST) if negated else (left.value, -LARGEST, right.value - 1)
    if right.op == "column" and left.op == "literal" and inner.op == "less":
        return (right.value, -LARGEST, left.value) if negated else (right.value, left.value + 1, LARGEST)
    return None


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
