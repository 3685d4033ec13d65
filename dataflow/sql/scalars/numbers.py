"""Functions of numbers that round: integer division, and fewer decimal places."""

from __future__ import annotations

from collections.abc import Callable

from deltamark.dataflow.plan.terms import (
    Less,
    Ratio,
    Subtract,
    Term,
    When,
    negative,
    number,
    product,
    quotient,
    rescaled,
    total,
)
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.sql.scalars.values import chosen, positive
from deltamark.dataflow.types import integer


def absolute(term: Term) -> Term:
    """Return the absolute value."""
    if term.type.low >= 0:
        return term
    high = max(-term.type.low, term.type.high)
    result = integer(max(term.type.low, 0), high, term.type.scale)
    return When(_is_negative(term), negative(term), term, result)


def sign(term: Term) -> Term:
    """Return -1, 0 or 1."""
    above = Less(number(0, term.type.scale), term)
    return chosen(_is_negative(term), number(-1), chosen(above, number(1), number(0)))


def truncated(left: Term, right: Term) -> Term:
    """Divide whole numbers, and round towards zero. The divisor 0 counts as 1: the result is NULL then."""
    size = positive(absolute(right))
    result = _by_size(left, lambda dividend: quotient(dividend, size, 0))
    return result if right.type.low >= 0 else chosen(_is_negative(right), negative(result), result)


def remainder(left: Term, right: Term) -> Term:
    """Return what remains of a division that rounds towards zero."""
    size = positive(absolute(right))
    whole = product(truncated(left, size), size)
    most = size.type.high - 1
    low, high = max(min(left.type.low, 0), -most), min(max(left.type.high, 0), most)
    return Subtract(left, whole, integer(low, high))


def rounded(value: Term | Ratio, places: int) -> Term:
    """Round to some decimal places, and halves away from zero. Negative places are tens, hundreds and so on."""
    if isinstance(value, Ratio):
        dividend, divisor = _in_units(value, places)
    elif places >= value.type.scale:
        return value
    else:
        dividend, divisor = value, number(10 ** (value.type.scale - places))
    result = _by_size(dividend, lambda size: _half_up(size, divisor, max(places, 0)))
    return product(result, number(10**-places)) if places < 0 else result


def floored(term: Term) -> Term:
    """Round down to a whole number."""
    return quotient(term, number(10**term.type.scale), 0) if term.type.scale else term


def ceiled(term: Term) -> Term:
    """Round up to a whole number."""
    return negative(floored(negative(term)))


def truncated_to_whole(term: Term) -> Term:
    """Round to a whole number towards zero."""
    return _by_size(term, floored)


def _is_negative(term: Term) -> Term:
    return Less(term, number(0, term.type.scale))


def _by_size(term: Term, function: Callable[[Term], Term]) -> Term:
    """Apply a function to the absolute value, and give the result the sign of the number."""
    result = function(absolute(term))
    if term.type.low >= 0:
        return result
    low, high = -result.type.high, max(result.type.high, 0) if term.type.high > 0 else 0
    return When(_is_negative(term), negative(result), result, integer(low, high, result.type.scale))


def _half_up(dividend: Term, divisor: Term, scale: int) -> Term:
    """Divide the stored values of positive numbers, and round halves up."""
    raised = total(product(dividend, number(2)), divisor)
    return quotient(raised, product(divisor, number(2)), scale)


def _in_units(value: Ratio, places: int) -> tuple[Term, Term]:
    """Return a dividend and a divisor whose stored values have the quotient in units of a decimal place."""
    above, below = value.numerator, value.denominator
    if below.type.low < 1:
        raise unsupported("rounding of a quotient whose divisor may be zero or negative")
    by = places + below.type.scale - above.type.scale
    if by >= 0:
        return rescaled(above, above.type.scale + by), below
    return above, product(below, number(10**-by))
