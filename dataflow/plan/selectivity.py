"""Selectivity: an estimate of the share of rows that a condition keeps.

Values are taken to be spread evenly over the declared range of their column.

Ranges: the conjuncts of a condition that compare one column with a constant, as one range per column.

A column of conditions, or its negation, is the range of one value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from deltamark.dataflow.plan.memo import kept
from deltamark.dataflow.plan.terms import Column, Constant, Equal, Less, Lookup, Member, Not, Or, Term, conjuncts
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
    match term:
        case Column(name):
            return name, 1, 1
        case Not(Column(name)):
            return name, 0, 0
        case Equal(Column(name), Constant(int(value))):
            return name, value, value
        case Less(Column(name), Constant(int(value))):
            return name, -LARGEST, value - 1
        case Not(Less(Column(name), Constant(int(value)))):
            return name, value, LARGEST
        case Less(Constant(int(value)), Column(name)):
            return name, value + 1, LARGEST
        case Not(Less(Constant(int(value)), Column(name))):
            return name, -LARGEST, value
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
    types = {each.name: each.type for term in terms for each in _operands(term) if isinstance(each, Column)}
    ranges = [_overlap(types[name], low, high) for name, low, high in column_ranges(terms)]
    return math.prod(ranges) * math.prod(map(_selectivity, other_conditions(terms)))


def _operands(term: Term) -> tuple[Term, ...]:
    """Return the terms that a condition or its negation compares, or the column that it is."""
    inner = term.condition if isinstance(term, Not) else term
    return inner.args or (inner,)


def _overlap(of: Type, low: int, high: int) -> float:
    """Return the share of a column's range that lies in another range."""
    return max(min(high, of.high) - max(low, of.low) + 1, 0) / (of.high - of.low + 1)


def _selectivity(term: Term) -> float:
    match term:
        case Constant(value):
            return float(value)
        case Or(left, right):
            return 1 - (1 - selectivity(left)) * (1 - selectivity(right))
        case Not(condition):
            return 1 - selectivity(condition)
        case Lookup(_, results):
            return sum(results) / len(results)
        case Member(value, members):
            return min(len(members) / (value.type.high - value.type.low + 1), 1.0)
        case Less():
            return LESS_SELECTIVITY
        case Equal(left, right):
            return 1 / max(each.type.high - each.type.low + 1 for each in (left, right))
        case _:
            return DEFAULT_SELECTIVITY
