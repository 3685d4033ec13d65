"""Conditions as terms, of which None stands for one that never holds."""

from __future__ import annotations

from deltamark.dataflow.plan.terms import FALSE, TRUE, And, Column, IsNull, Not, Or, Term, conjuncts, parts_of

__all__ = ["FALSE", "TRUE"]


def both(left: Term | None, right: Term | None) -> Term | None:
    """Return the conjunction of two conditions; None is a condition that never holds."""
    if left is None or right is None or FALSE in (left, right):
        return None
    if left is TRUE or left is right:
        return right
    return left if right is TRUE else And(left, right)


def either(left: Term | None, right: Term | None) -> Term | None:
    """Return the disjunction of two conditions; None is a condition that never holds."""
    left, right = (None if each is FALSE else each for each in (left, right))
    if left is None or right is None:
        return left if right is None else right
    if TRUE in (left, right):
        return TRUE
    return left if left is right else Or(left, right)


def negated(condition: Term | None) -> Term:
    """Return the negation of a condition."""
    if condition is None or condition is FALSE:
        return TRUE
    if condition is TRUE:
        return FALSE
    return condition.condition if isinstance(condition, Not) else Not(condition)


def surely(condition: Term | None) -> Term:
    """Return a condition as a term."""
    return FALSE if condition is None else condition


def never_null(condition: Term) -> list[Term]:
    """Return the terms `is_null(column)` that cannot hold where a condition does."""
    found = [each.condition for each in conjuncts(condition) if isinstance(each, Not)]
    return [each for each in found if isinstance(each, IsNull) and isinstance(each.value, Column)]


def disjuncts(condition: Term) -> list[Term]:
    """Split a condition into the terms of which at least one must hold."""
    return parts_of(condition, Or)
