"""Ranges: the conjuncts of a condition that compare one column with a constant, as one range per column.

A column of conditions, or its negation, is the range of one value.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.dataflow.plan.terms import Term
from deltamark.dataflow.types import LARGEST

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
