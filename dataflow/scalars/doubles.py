"""Doubles: numbers and quotients as values of IEEE 754, where SQL says DOUBLE and an exact result is not to be had."""

from __future__ import annotations

from collections.abc import Callable

from deltamark.dataflow.plan.terms import (
    Constant,
    DoubleArithmetic,
    DoubleFunction,
    FromDouble,
    Ratio,
    Term,
    double,
    number,
    product,
    quotient,
    to_double,
)
from deltamark.dataflow.scalars.problems import UNSUPPORTED
from deltamark.dataflow.types import TOO_WIDE, integer
from deltamark.errors import DeltamarkError

INEXACT = (TOO_WIDE, UNSUPPORTED)
"""The causes of errors for quotients that cannot be computed exactly, as doubles can."""


def is_double(term: Term | Ratio) -> bool:
    """Return whether a value is a double; an exact quotient is none."""
    if isinstance(term, Ratio):
        return is_double(term.numerator) or is_double(term.denominator)
    return term.type.kind == "double"


def in_double(term: Term | Ratio) -> Term:
    """Return a number or a quotient as a double."""
    if not isinstance(term, Ratio):
        return to_double(term)
    parts = (term.numerator, term.denominator)
    return arithmetic("/", *map(to_double, (_whole(term) if term.is_mean else None) or parts))


def _whole(mean: Ratio) -> tuple[Term, Term] | None:
    """Return an average as a quotient of whole numbers; None if one needs more than 64 bits."""
    scale = mean.numerator.type.scale - mean.denominator.type.scale
    if scale <= 0:
        return None
    try:
        return quotient(mean.numerator, number(1), 0), product(mean.denominator, number(10**scale))
    except DeltamarkError as error:
        if error.cause != TOO_WIDE:
            raise
    return None


def is_mean(term: Term | Ratio) -> bool:
    """Return whether a value is an average over a window. Arithmetic takes its double, as DuckDB's does."""
    return isinstance(term, Ratio) and term.is_mean


def is_inexact(error: DeltamarkError, *terms: Term | Ratio) -> bool:
    """Return whether values can be computed as doubles after an error, because one of them is a quotient."""
    return error.cause in INEXACT and any(isinstance(each, Ratio) for each in terms)


def arithmetic(sign: str, left: Term, right: Term) -> Term:
    """Compute with two doubles."""
    if sign == "-" and isinstance(left, Constant) and left.value == 0:
        return DoubleArithmetic(right, double(-1), "*")
    return DoubleArithmetic(left, right, sign)


def as_float(term: Term) -> Term:
    """Round a double to 32 bits."""
    return DoubleFunction(term, "float", 0)


def rounded_double(value: Term, places: int) -> Term:
    """Round as DuckDB does: the product with a power of ten, halves away from zero."""
    return DoubleFunction(value, "round", places)


def from_double(value: Term, scale: int, most: int, *, to_even: bool) -> Term:
    """Return the number nearest to a double, as it is stored with a scale; one beyond `most` is an error of the feed.

    to_even: whether halves go to the even number, instead of away from 0.
    """
    return FromDouble(value, to_even, integer(-most, most, scale))


def function(name: str) -> Callable[[Term], Term]:
    """Return a function of a double by its name in SQL."""
    return lambda value: DoubleFunction(value, name, 0)
