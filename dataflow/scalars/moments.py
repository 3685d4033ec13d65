"""Variances, covariances and correlations of groups: the sums of which they are made, and their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from deltamark.dataflow.kernels.moments import DIGIT_BITS
from deltamark.dataflow.plan.terms import (
    OF_SAMPLES,
    Checked,
    Equal,
    ExactMoment,
    Less,
    Moment,
    Multiply,
    Subtract,
    Term,
    number,
    product,
    quotient,
    to_double,
)
from deltamark.dataflow.scalars.values import Value
from deltamark.dataflow.types import LARGEST, Type, integer

BASE = 2**DIGIT_BITS

NO_DIGIT = number(0)
"""The high digit of a product whose sum fits in 64 bits."""

Digits = tuple[Term, Term]
"""The low and the high digit of a product."""


@dataclass(frozen=True)
class MomentSums:
    """The sums of a moment of one or two numbers, or the moment itself if one is a double.

    rows: a bound on the number of rows. Rows in which a double is NULL do not count.
    """

    function: str
    numbers: tuple[Term, ...]
    rows: int

    @cached_property
    def _exact(self) -> ExactMoment | None:
        """The moment of doubles, which an aggregate computes."""
        if all(each.type.kind != "double" for each in self.numbers):
            return None
        return ExactMoment(self.function, tuple(map(to_double, self.numbers)))

    @cached_property
    def _comoments(self) -> list[tuple[Term, ...]]:
        """The terms whose sums make each comoment: two numbers, and the digits of their product."""
        first, last = self.numbers[0], self.numbers[-1]
        pairs = [(first, last)] if self.function != "corr" else [(first, last), (first, first), (last, last)]
        return [(one, other, *_digits(one, other, self.rows)) for one, other in pairs]

    @property
    def summands(self) -> list[Term]:
        """The terms whose sums are needed, each once."""
        if self._exact is not None:
            return [self._exact]
        return list(dict.fromkeys(term for each in self._comoments for term in each if term is not NO_DIGIT))

    def value(self, count: Term, sums: Mapping[Term, Term]) -> Value:
        """Return the moment, as a double. count: the number of rows; sums: those of the summands."""
        least = 2 if self.function in OF_SAMPLES else 1
        few = Less(count, number(least)) if least > 1 else Equal(count, number(0))
        missing = None if count.type.low >= least else few
        if self._exact is not None:
            return Value(sums[self._exact], missing)
        numbers = (count, *(sums.get(term, term) for each in self._comoments for term in each))
        scale = self.numbers[0].type.scale + self.numbers[-1].type.scale
        return Value(Moment(self.function, numbers, scale), missing)


def _digits(left: Term, right: Term, rows: int) -> Digits:
    """Return the digits of the product of two numbers; the high one is 0 if the sum of products fits in 64 bits.

    A product that may not fit itself is checked for each row.
    """
    ends = [a * b for a in (left.type.low, left.type.high) for b in (right.type.low, right.type.high)]
    most, scale = max(map(abs, ends)), left.type.scale + right.type.scale
    if most * rows <= LARGEST:
        return product(left, right), NO_DIGIT
    if most <= LARGEST:
        whole: Term = product(left, right)
    else:
        whole = Checked(left, right, "*", integer(-LARGEST, LARGEST, scale))
    high = quotient(whole, number(BASE), 0)
    multiple = Multiply(high, number(BASE), Type("int", 0, whole.type.low - BASE, whole.type.high))
    return Subtract(whole, multiple, integer(0, BASE - 1)), high
