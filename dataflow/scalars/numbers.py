"""Numbers: exact arithmetic of integers, decimals and quotients, and functions that round."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from deltamark.dataflow.plan.terms import (
    TRUE,
    Checked,
    Constant,
    Equal,
    Less,
    Ratio,
    Subtract,
    Term,
    When,
    aligned,
    conjuncts,
    double,
    negative,
    number,
    product,
    quotient,
    rescaled,
    total,
)
from deltamark.dataflow.scalars import doubles
from deltamark.dataflow.scalars.doubles import in_double, is_double, is_inexact, is_mean
from deltamark.dataflow.scalars.expressions import Call
from deltamark.dataflow.scalars.problems import unsupported
from deltamark.dataflow.scalars.values import (
    DOUBLES,
    Value,
    both,
    chosen,
    constant,
    disjuncts,
    either,
    known_count,
    negated,
    positive,
    surely,
    value_of,
)
from deltamark.dataflow.types import LARGEST, TOO_WIDE, integer
from deltamark.errors import DeltamarkError

ONE = number(1)
"""The denominator of a number."""


def refuse_others(*terms: Term) -> None:
    """Raise an error for a term that is no number."""
    for term in terms:
        if term.type.kind != "int":
            raise DeltamarkError("not of type int", f"{term} is {term.type}", "use a value of type int")


def as_ratio(value: Term | Ratio) -> Ratio:
    """Return a number as a quotient by 1."""
    ratio = value if isinstance(value, Ratio) else Ratio(value, ONE)
    refuse_others(ratio.numerator, ratio.denominator)
    return ratio


def scaled(left: Term, right: Term) -> Term:
    """Return the product of two numbers, one of which may be the denominator of a number."""
    if left is ONE or right is ONE:
        return right if left is ONE else left
    return product(left, right)


Combine = Callable[["Term | Ratio", "Term | Ratio"], "Term | Ratio"]


def combined(of: Call[object], left: Value, right: Value, combine: Combine, sign: str) -> Value:
    """Combine two values, of which neither is NULL where the result is not.

    combine: computes exactly. Where it cannot, a quotient is a double; other numbers are checked for each row.
    sign: the operation.
    """
    missing = either(left.null, right.null)
    if TRUE in (left.null, right.null):
        return value_of(constant(of.type, None))
    terms = left.term, right.term
    if not any(is_double(each) or is_mean(each) for each in terms):
        try:
            if sign != "/" and any(isinstance(each, Ratio) for each in terms):
                _refuse_unknown_sign(left, right)
            return Value(combine(*terms), missing)
        except DeltamarkError as error:
            is_number = not any(isinstance(each, Ratio) or each.type.kind != "int" for each in terms)
            if is_number and error.cause == TOO_WIDE and of.type.name not in DOUBLES:
                return Value(checked(sign, left, right), missing)
            if not is_inexact(error, *terms) and not (is_number and error.cause == TOO_WIDE):
                raise
    return Value(_of_type(of, doubles.arithmetic(sign, *map(in_double, terms))), missing)


def _of_type(of: Call[object], value: Term) -> Term:
    """Return the result of a call, rounded to 32 bits if it is a FLOAT."""
    return doubles.as_float(value) if of.type.name == "FLOAT" else value


def checked(sign: str, left: Value, right: Value) -> Term:
    """Compute a number for each row in which it is not NULL, and fail if it needs more than 64 bits."""
    missing = either(left.null, right.null)
    a, b = (_unless(missing, each.term) for each in (left, right))
    if sign == "*":
        return _checked("*", a, b, a.type.scale + b.type.scale)
    scale = max(a.type.scale, b.type.scale)
    a, b = (_rescaled(each, scale) for each in (a, b))
    return _checked("+" if sign == "+" else "-", a, b, scale)


def _unless(missing: Term | None, term: Term | Ratio) -> Term:
    """Return a number, or 0 where a condition holds."""
    assert not isinstance(term, Ratio)
    return chosen(surely(missing), number(0, term.type.scale), term)


def _rescaled(term: Term, scale: int) -> Term:
    try:
        return rescaled(term, scale)
    except DeltamarkError:
        return _checked("*", term, number(10 ** (scale - term.type.scale)), scale)


def _checked(sign: Literal["+", "-", "*"], left: Term, right: Term, scale: int) -> Term:
    compute = {"+": operator.add, "-": operator.sub, "*": operator.mul}[sign]
    ends = [compute(*each) for each in itertools.product(*((each.type.low, each.type.high) for each in (left, right)))]
    low, high = max(min(ends), -LARGEST), min(max(ends), LARGEST)
    return Checked(left, right, sign, integer(min(low, LARGEST), max(high, -LARGEST), scale))


def _refuse_unknown_sign(left: Value, right: Value) -> None:
    """Refuse a result whose denominator is a product of two numbers that may both be zero or negative.

    DuckDB computes with infinities then, whose signs and sums differ from those of the result's numerator.
    """
    missing = either(left.null, right.null)
    one, other = (known(replace(each, null=missing)) for each in (left, right))
    if all(isinstance(each, Ratio) and each.denominator.type.low < 1 for each in (one, other)):
        raise unsupported("arithmetic of quotients whose divisors may be zero or negative")


def sum_of(add: Callable[[Term, Term], Term]) -> Callable[[Term | Ratio, Term | Ratio], Term | Ratio]:
    """Return the sum or the difference of numbers or quotients. add: that of numbers of one scale."""

    def compute(left: Term | Ratio, right: Term | Ratio) -> Term | Ratio:
        if not isinstance(left, Ratio) and not isinstance(right, Ratio):
            refuse_others(left, right)
            return add(*aligned(left, right))
        one, other = as_ratio(left), as_ratio(right)
        if one.denominator is other.denominator:
            return Ratio(add(*aligned(one.numerator, other.numerator)), one.denominator)
        crossed = product(one.numerator, other.denominator), product(other.numerator, one.denominator)
        return Ratio(add(*aligned(*crossed)), product(one.denominator, other.denominator))

    return compute


def product_of(left: Term | Ratio, right: Term | Ratio) -> Term | Ratio:
    """Multiply numbers or quotients."""
    one, other = as_ratio(left), as_ratio(right)
    if not isinstance(left, Ratio) and not isinstance(right, Ratio):
        return product(left, right)
    return Ratio(scaled(one.numerator, other.numerator), scaled(one.denominator, other.denominator))


def multiplied(of: Call[object], left: Value, right: Value) -> Value:
    return combined(of, left, right, product_of, "*")


def divided(of: Call[object], left: Value, right: Value) -> Value:
    def divide(one: Term | Ratio, other: Term | Ratio) -> Term | Ratio:
        by = as_ratio(other)
        if not isinstance(one, Ratio) and not isinstance(other, Ratio):
            return Ratio(as_ratio(one).numerator, by.numerator)
        inverse = Value(Ratio(by.denominator, by.numerator), right.null)
        _refuse_unknown_sign(left, inverse)
        return product_of(one, inverse.term)

    return combined(of, left, right, divide, "/")


def of_number(
    function: Callable[[Term], Term], of_double: Callable[[Term], Term] | None = None
) -> Callable[..., Value]:
    """Return a function of numbers. of_double: that of doubles and quotients."""

    def compute(of: Call[object], value: Value, *others: Value) -> Value:
        if others:
            raise unsupported(f"{of.name} with {1 + len(others)} arguments")
        if of_double is not None and (isinstance(value.term, Ratio) or is_double(value.term)):
            return Value(of_double(in_double(value.term)), value.null)
        return Value(function(exact_number(of, value)), value.null)

    return compute


def of_whole_numbers(function: Callable[[Term, Term], Term]) -> Callable[..., Value]:
    def compute(of: Call[object], left: Value, right: Value) -> Value:
        if TRUE in (left.null, right.null):
            return Value(number(0), TRUE)
        if of.name == "%" and of.type.name in DOUBLES:
            remains = doubles.arithmetic("%", in_double(left.term), in_double(right.term))
            return Value(_of_type(of, remains), either(left.null, right.null))
        dividend, divisor = exact_number(of, left), exact_number(of, right)
        if dividend.type.scale or divisor.type.scale:
            raise unsupported(f"{of.name} of decimals")
        if divisor.type.low <= 0 <= divisor.type.high and not _is_null_for_zero(divisor, right.null):
            remedy = f"write x {of.name} nullif(y, 0), which is NULL for 0"
            raise unsupported(f"{of.name} by a number that may be zero", remedy=remedy)
        return Value(function(dividend, divisor), either(left.null, right.null))

    return compute


def _is_null_for_zero(term: Term, missing: Term | None) -> bool:
    """Return whether a value is NULL for all rows in which its term is 0, as that of nullif(x, 0) is."""
    if missing is None:
        return False
    zero, parts = Equal(term, number(0)), disjuncts(missing)
    return any(
        zero in conjuncts(part) and all(each is zero or negated(each) in parts for each in conjuncts(part))
        for part in parts
    )


def exact_number(of: Call[object], value: Value) -> Term:
    """Return the argument of a function that takes exact numbers alone."""
    if isinstance(value.term, Ratio) or value.term.type.kind != "int":
        raise unsupported(f"{of.name} of a value that is no exact number")
    return value.term


def rounding(of: Call[object], value: Value, places: Value | None = None) -> Value:
    if value.null is TRUE:
        return value
    count = 0 if places is None else whole(places, of)
    if not isinstance(value.term, Ratio) and not is_double(value.term):
        exact_number(of, value)
    found = rounded(known(value), count)
    return Value(_of_type(of, in_double(found)) if is_double(found) else found, value.null)


def known(value: Value) -> Term | Ratio:
    """Return the term of a value for rows in which it is not NULL."""
    if not isinstance(value.term, Ratio):
        return value.term
    return Ratio(value.term.numerator, known_count(value.term.denominator, value.null))


def whole(value: Value, of: Call[object]) -> int:
    if not isinstance(value.term, Constant) or not isinstance(value.term.value, int):
        raise unsupported(f"{of.name} with an argument that is no constant")
    return value.term.value


def absolute(term: Term) -> Term:
    """Return the absolute value."""
    if term.type.low >= 0:
        return term
    high = max(-term.type.low, term.type.high)
    result = integer(max(term.type.low, 0), high, term.type.scale)
    return When(_is_negative(term), negative(term), term, result)


def sign_of_double(value: Term) -> Term:
    """Return -1, 0 or 1, and 0 for NaN."""
    above = both(Less(double(0), value), negated(Less(double(math.inf), value)))
    return chosen(Less(value, double(0)), number(-1), chosen(surely(above), number(1), number(0)))


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
    multiple = product(truncated(left, size), size)
    most = size.type.high - 1
    low, high = max(min(left.type.low, 0), -most), min(max(left.type.high, 0), most)
    return Subtract(left, multiple, integer(low, high))


def rounded(value: Term | Ratio, places: int) -> Term:
    """Round to some decimal places, and halves away from zero. Negative places are tens, hundreds and so on.

    The result is a double if the value is, or is a quotient whose divisor may be zero or negative.
    """
    if is_double(value):
        return doubles.rounded_double(in_double(value), places)
    if isinstance(value, Ratio):
        try:
            dividend, divisor = _in_units(value, places)
        except DeltamarkError as error:
            if not is_inexact(error, value):
                raise
            return doubles.rounded_double(in_double(value), places)
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
    try:
        raised = total(product(dividend, number(2)), divisor)
        return quotient(raised, product(divisor, number(2)), scale)
    except DeltamarkError as error:
        if error.cause != TOO_WIDE or not isinstance(divisor, Constant):
            raise
    half = int(divisor.value) - int(divisor.value) // 2
    whole = quotient(dividend, divisor, scale)
    rest = Subtract(dividend, product(whole, divisor), integer(0, int(divisor.value) - 1))
    return total(whole, chosen(Less(rest, number(half)), number(0, scale), number(1, scale)))


def _in_units(value: Ratio, places: int) -> tuple[Term, Term]:
    """Return a dividend and a divisor whose stored values have the quotient in units of a decimal place."""
    above, below = value.numerator, value.denominator
    if below.type.low < 1:
        raise unsupported("rounding of a quotient whose divisor may be zero or negative")
    by = places + below.type.scale - above.type.scale
    if by >= 0:
        return rescaled(above, above.type.scale + by), below
    return above, product(below, number(10**-by))
