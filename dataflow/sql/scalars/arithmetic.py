"""Arithmetic of values: of numbers, quotients and dates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from deltamark.dataflow.language.expr import ExprOp
from deltamark.dataflow.plan.terms import Add, Constant, Equal, Ratio, Subtract, Term, conjuncts, number, product
from deltamark.dataflow.sql.algebra.operations import Expression
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.sql.scalars import dates, numbers
from deltamark.dataflow.sql.scalars.comparisons import bound, calculated
from deltamark.dataflow.sql.scalars.conditions import TRUE, disjuncts, either, negated
from deltamark.dataflow.sql.scalars.literals import DOUBLES, constant
from deltamark.dataflow.sql.scalars.values import Value, known_count, value_of


def arithmetic(op: ExprOp) -> Callable[..., Value]:
    def compute(of: Expression, left: Value, right: Value | None = None) -> Value:
        if right is None:
            left, right = Value(number(0)), left
        missing = either(left.null, right.null)
        if TRUE in (left.null, right.null):
            return value_of(constant(of.type, None))
        if isinstance(left.term, Ratio) or isinstance(right.term, Ratio):
            _refuse_unknown_sign(op, left, right)
            return Value(_ratio_arithmetic(op, left.term, right.term), missing)
        kinds = left.term.type.kind, right.term.type.kind
        if op in ("add", "subtract") and "date" in kinds:
            return Value(dates.moved(Add if op == "add" else Subtract, left.term, right.term), missing)
        result = calculated(op, left.term, right.term)
        return Value(result, missing)

    return compute


def _refuse_unknown_sign(op: ExprOp, left: Value, right: Value) -> None:
    """Refuse a result whose denominator is a product of two numbers that may both be zero or negative.

    DuckDB computes with infinities then, whose signs and sums differ from those of the result's numerator.
    """
    missing = either(left.null, right.null)
    one, other = (known(replace(each, null=missing)) for each in (left, right))
    below = one.denominator if isinstance(one, Ratio) else number(1)
    factor = other.denominator if isinstance(other, Ratio) else number(1)
    if op == "divide":
        factor = other.numerator if isinstance(other, Ratio) else other
    if below.type.low < 1 and factor.type.low < 1:
        raise unsupported("arithmetic of quotients whose divisors may be zero or negative")


def _ratio_arithmetic(op: ExprOp, left: Term | Ratio, right: Term | Ratio) -> Term | Ratio:
    if op not in ("add", "subtract"):
        return calculated(op, left, right)
    one, other = (each if isinstance(each, Ratio) else Ratio(each, number(1)) for each in (left, right))
    if one.denominator is other.denominator:
        return Ratio(bound(op, one.numerator, other.numerator), one.denominator)
    crossed = product(one.numerator, other.denominator), product(other.numerator, one.denominator)
    return Ratio(bound(op, *crossed), product(one.denominator, other.denominator))


def of_number(function: Callable[[Term], Term]) -> Callable[..., Value]:
    def compute(of: Expression, value: Value, *others: Value) -> Value:
        if others:
            raise unsupported(f"{of.name} with {1 + len(others)} arguments")
        return Value(function(_number(of, value)), value.null)

    return compute


def of_whole_numbers(function: Callable[[Term, Term], Term]) -> Callable[..., Value]:
    def compute(of: Expression, left: Value, right: Value) -> Value:
        if TRUE in (left.null, right.null):
            return Value(number(0), TRUE)
        dividend, divisor = _number(of, left), _number(of, right)
        if dividend.type.scale or divisor.type.scale:
            raise unsupported(f"{of.name} of decimals")
        if divisor.type.low <= 0 <= divisor.type.high and not _is_null_for_zero(divisor, right.null):
            remedy = f"write x {of.name} nullif(y, 0), since DuckDB raises an error for 0"
            raise unsupported(f"{of.name} by a number that may be zero", remedy=remedy)
        return Value(function(dividend, divisor), either(left.null, right.null))

    return compute


def whole_quotient(of: Expression, left: Value, right: Value) -> Value:
    """Divide whole numbers. Decimals and doubles are divided by `//` as by `/`, as in DuckDB."""
    if of.type.name in DOUBLES:
        return arithmetic("divide")(of, left, right)
    return of_whole_numbers(numbers.truncated)(of, left, right)


def _is_null_for_zero(term: Term, missing: Term | None) -> bool:
    """Return whether a value is NULL for all rows in which its term is 0, as that of nullif(x, 0) is."""
    if missing is None:
        return False
    zero, parts = Equal(term, number(0)), disjuncts(missing)
    return any(
        zero in conjuncts(part) and all(each is zero or negated(each) in parts for each in conjuncts(part))
        for part in parts
    )


def _number(of: Expression, value: Value) -> Term:
    if isinstance(value.term, Ratio) or value.term.type.kind != "int":
        raise unsupported(f"{of.name} of a value that is no exact number")
    return value.term


def rounding(of: Expression, value: Value, places: Value | None = None) -> Value:
    if value.null is TRUE:
        return value
    if not isinstance(value.term, Ratio):
        _number(of, value)
    return Value(numbers.rounded(known(value), 0 if places is None else whole(places, of)), value.null)


def known(value: Value) -> Term | Ratio:
    """Return the term of a value for rows in which it is not NULL."""
    if not isinstance(value.term, Ratio):
        return value.term
    return Ratio(value.term.numerator, known_count(value.term.denominator, value.null))


def whole(value: Value, of: Expression) -> int:
    if not isinstance(value.term, Constant) or not isinstance(value.term.value, int):
        raise unsupported(f"{of.name} with an argument that is no constant")
    return value.term.value
