"""Comparisons of values. Those of quotients multiply out, and so are exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, cast

from deltamark.dataflow.language import binder
from deltamark.dataflow.language.binder import bind_value
from deltamark.dataflow.language.expr import Expr, ExprOp
from deltamark.dataflow.plan.terms import Constant, Equal, Less, Ratio, Term, balanced, number, product
from deltamark.dataflow.sql.problems import unsupported
from deltamark.dataflow.sql.scalars import members
from deltamark.dataflow.sql.scalars.conditions import FALSE, TRUE, both, either, negated, surely
from deltamark.dataflow.sql.scalars.values import Truth, Value, known_count, text_term
from deltamark.dataflow.types import SHORT, SHORT_BYTES, Schema, pack_bytes

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "distinct", "not distinct")
NO_COLUMNS = Schema((), 0)
ONE = number(1)


def compared(op: str, left: Value, right: Value) -> Truth:
    """Compare two values."""
    missing = either(left.null, right.null)
    if op in ("distinct", "not distinct"):
        equal = both(_compared("=", left, right), negated(missing))
        same = either(equal, both(left.null, right.null))
        return Truth.of(same if op == "not distinct" else negated(same))
    if missing is TRUE:
        return Truth(None, None, total=False)
    return Truth.of(_compared(op, left, right), missing)


def _compared(op: str, left: Value, right: Value) -> Term:
    """Compare the terms of two values, neither of which is NULL."""
    match op:
        case "=":
            return _tested("equal", left, right)
        case "<>":
            return negated(_tested("equal", left, right))
        case "<":
            return _tested("less", left, right)
        case ">":
            return _tested("less", right, left)
        case "<=":
            return negated(_tested("less", right, left))
        case _:
            return negated(_tested("less", left, right))


def _tested(op: Literal["equal", "less"], left: Value, right: Value) -> Term:
    if TRUE in (left.null, right.null):
        return FALSE
    a, b = left.term, right.term
    if isinstance(a, Ratio) or isinstance(b, Ratio):
        return _ratios_compared(op, *(_known_ratio(each, either(left.null, right.null)) for each in (left, right)))
    if a.type.kind in ("text", "code", "short") and b.type.kind in ("text", "code", "short"):
        return _texts_compared(op, a, b)
    return bound(op, a, b)


def _texts_compared(op: Literal["equal", "less"], a: Term, b: Term) -> Term:
    """Compare texts by their bytes."""
    kinds = {a.type.kind, b.type.kind}
    kind = Equal if op == "equal" else Less
    match a, b:
        case Constant(str(one)), Constant(str(other)):
            return TRUE if (one == other if kind is Equal else one < other) else FALSE
        case (Constant(str()), _) | (_, Constant(str())) if "short" in kinds and kind is Less:
            return _short_before(a, b)
        case Constant(str(word)), _ if kind is Equal or "code" in kinds:
            return binder.word_comparison(kind, b, word, lambda word, other: word > other)
        case _, Constant(str(word)) if kind is Equal or "code" in kinds:
            return binder.word_comparison(kind, a, word, lambda word, other: word < other)
    if kinds == {"short"} or (kinds == {"code"} and a.type.words == b.type.words):
        return kind(a, b)
    if "short" in kinds:
        raise unsupported("a comparison of a substring with a stored text")
    return kind(text_term(a), text_term(b))


def _short_before(a: Term, b: Term) -> Term:
    """Return whether one text comes before another: a short one and a constant, which follows its first bytes."""
    constant = str(
        next(each.value for each in (a, b) if isinstance(each, Constant) and each.type.kind == "text")
    ).encode()
    packed = Constant(pack_bytes(constant[:SHORT_BYTES]), SHORT)
    if a.type.kind == "text":
        return Less(packed, b)
    if len(constant) > SHORT_BYTES:
        return negated(Less(packed, a))
    return Less(a, packed)


def _known_ratio(value: Value, missing: Term | None) -> Ratio:
    """Return a value as a ratio, for rows in which it is not NULL."""
    ratio = value.term if isinstance(value.term, Ratio) else Ratio(value.term, ONE)
    return Ratio(ratio.numerator, known_count(ratio.denominator, missing))


def _ratios_compared(op: Literal["equal", "less"], left: Ratio, right: Ratio) -> Term:
    """Compare quotients by their cross products.

    As in DuckDB, a quotient by zero is infinite, with the sign of the dividend, and 0 / 0 is greater than all others.
    """
    unsure = [each.denominator for each in (left, right) if each.denominator.type.low < 1]
    if not unsure:
        return bound(op, left, right)
    if len(unsure) > 1:
        raise unsupported("a comparison of two quotients whose divisors may be zero or negative")
    if left.denominator.type.low >= 1:
        if op == "equal":
            return _ratios_compared(op, right, left)
        return _exclusive(
            right,
            (_less_crossed(left, right), _less_crossed(right, left)),
            lambda n, zero: negated(bound("less", n, zero)),
        )
    if op == "equal":
        crossed = bound("equal", *_crossed(left, right))
        return _exclusive(left, (crossed, crossed), lambda *_: FALSE)
    return _exclusive(
        left, (_less_crossed(left, right), _less_crossed(right, left)), lambda n, zero: bound("less", n, zero)
    )


def _crossed(left: Ratio, right: Ratio) -> tuple[Term, Term]:
    return product(left.numerator, right.denominator), product(right.numerator, left.denominator)


def _less_crossed(left: Ratio, right: Ratio) -> Term:
    return bound("less", *_crossed(left, right))


def _exclusive(of: Ratio, by_sign: tuple[Term, Term], without: Callable[[Term, Term], Term]) -> Term:
    """Choose a condition by the sign of a divisor: for positive ones, for negative ones, and for zero."""
    divisor = of.denominator
    zero = number(0, divisor.type.scale)
    is_zero, below = bound("equal", divisor, zero), bound("less", divisor, zero)
    at_zero = both(is_zero, without(of.numerator, number(0, of.numerator.type.scale)))
    above = both(bound("less", zero, divisor), by_sign[0])
    return surely(either(either(above, both(below, by_sign[1])), at_zero))


def calculated(op: ExprOp, *args: Term | Ratio) -> Term | Ratio:
    """Apply an operation of the language of collections, which aligns scales and knows quotients."""
    return bind_value(Expr(op, *args), NO_COLUMNS)


def bound(op: ExprOp, *args: Term | Ratio) -> Term:
    """Apply an operation whose result is no quotient."""
    return cast("Term", calculated(op, *args))


def is_less(left: Value, right: Value) -> Term:
    """Return the condition that one value, which is not NULL, is less than another."""
    return _tested("less", replace(left, null=None), replace(right, null=None))


def one_of(value: Value, others: Sequence[Value]) -> Truth:
    """Return whether a value is one of several."""
    words = [each.term.value for each in others if isinstance(each.term, Constant)]
    known = [word for word, each in zip(words, others, strict=False) if each.null is None]
    is_constant = len(words) == len(others) and all(each.null in (None, TRUE) for each in others)
    if not is_constant or isinstance(value.term, Ratio | Constant) or not _are_texts(known):
        found = members.found(value, others)
        return found or balanced([compared("=", value, each) for each in others], disjunction)
    found = Truth.of(binder.one_of(value.term, known), value.null)
    return found if len(known) == len(others) else Truth(found.true, None, total=False)


def _are_texts(values: Sequence[object]) -> bool:
    return all(isinstance(each, str) for each in values)


def conjunction(left: Truth, right: Truth) -> Truth:
    """Return whether both conditions are true."""
    return Truth(both(left.true, right.true), either(left.false, right.false), left.total and right.total)


def disjunction(left: Truth, right: Truth) -> Truth:
    """Return whether at least one of two conditions is true."""
    return Truth(either(left.true, right.true), both(left.false, right.false), left.total and right.total)
