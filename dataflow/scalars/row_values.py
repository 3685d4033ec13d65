"""Comparisons of rows, such as `(a, b) IN ((1, 2), (3, 4))`, by way of comparisons of their values.

DuckDB compares rows as it sorts them: the first values that differ decide, NULL equals NULL and comes last. So such a
comparison is never NULL.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

from deltamark.dataflow.scalars.expressions import (
    And,
    Comparator,
    Comparison,
    Expression,
    In,
    IsNull,
    Not,
    Or,
    Row,
    is_not_null,
)
from deltamark.dataflow.scalars.problems import unsupported

K = TypeVar("K", bound=Hashable)


def without_rows(of: Comparison[K] | In[K]) -> Expression[K] | None:
    """Return a comparison of rows as a condition on their values; None if it compares no rows."""
    sides = (of.left, of.right) if isinstance(of, Comparison) else (of.value, *of.others)
    if not any(isinstance(each, Row) for each in sides):
        return None
    if isinstance(of, In):
        return Or(tuple(_equal(of.value, each) for each in of.others), of.place)
    match of.comparator:
        case Comparator.EQUAL | Comparator.NOT_DISTINCT:
            return _equal(of.left, of.right)
        case Comparator.UNEQUAL | Comparator.DISTINCT:
            return Not(_equal(of.left, of.right), of.place)
        case Comparator.LESS:
            return _less(of.left, of.right)
        case Comparator.GREATER:
            return _less(of.right, of.left)
        case Comparator.AT_MOST:
            return Not(_less(of.right, of.left), of.place)
        case Comparator.AT_LEAST:
            return Not(_less(of.left, of.right), of.place)


def _equal(left: Expression[K], right: Expression[K]) -> Expression[K]:
    if not isinstance(left, Row) and not isinstance(right, Row):
        return Comparison(Comparator.NOT_DISTINCT, left, right)
    return And(tuple(_equal(*each) for each in _pairs(left, right)))


def _less(left: Expression[K], right: Expression[K]) -> Expression[K]:
    if not isinstance(left, Row) and not isinstance(right, Row):
        return And((is_not_null(left), Or((IsNull(right), Comparison(Comparator.LESS, left, right)))))
    pairs = _pairs(left, right)
    choices = [And((*(_equal(*each) for each in pairs[:at]), _less(*pairs[at]))) for at in range(len(pairs))]
    return Or(tuple(choices))


def _pairs(left: Expression[K], right: Expression[K]) -> list[tuple[Expression[K], Expression[K]]]:
    if isinstance(left, Row) and isinstance(right, Row) and len(left.args) == len(right.args):
        return list(zip(left.args, right.args, strict=True))
    raise unsupported("a comparison of a row with a value that is not written as one")
