"""Binding: an expression gets the types of a collection and becomes a term.

Numbers are aligned to one scale here, and comparisons with ratios are multiplied out.

Conditions that compare a term with constants.

Conditions on codes become tables, and texts of at most seven bytes become integers, so that only arithmetic on int64 is
left to evaluate.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import TypeAlias

import numpy as np

from deltamark.dataflow.language.expr import Expr, ExprOp
from deltamark.dataflow.plan.terms import (
    FALSE,
    TRUE,
    And,
    Constant,
    Equal,
    IsNull,
    Less,
    Lookup,
    Match,
    Member,
    Not,
    Or,
    PlanTerm,
    Ratio,
    Substring,
    Table,
    Term,
    When,
    aligned,
    coalesced,
    column,
    difference,
    disjunction,
    negative,
    number,
    product,
    quotient,
    rescaled,
    total,
)
from deltamark.dataflow.types import (
    EPOCH,
    FIRST_DAY,
    LAST_DAY,
    SHORT_BYTES,
    TEXT,
    TOO_WIDE,
    Schema,
    date_type,
    integer,
    pack_short,
    spanning,
)
from deltamark.errors import DeltamarkError


def literal(value: object) -> Constant:
    """Return a constant as a term."""
    strange = isinstance(value, dt.datetime) or (isinstance(value, Decimal) and not value.is_finite())
    if strange or not isinstance(value, int | Decimal | dt.date | str):
        remedy = "write an int, Decimal('0.05'), a date, str or bool"
        raise DeltamarkError("not a value of an expression", f"{value!r} ({type(value).__name__})", remedy)
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, int):
        return number(value)
    if isinstance(value, Decimal):
        exponent = min(int(value.as_tuple().exponent), 0)
        return number(int(value.scaleb(-exponent)), -exponent)
    if isinstance(value, dt.date):
        days = (value - EPOCH).days
        return Constant(days, date_type(days, days))
    return Constant(value, TEXT)


Comparison: TypeAlias = type[Equal | Less]


def word_comparison(kind: Comparison, term: Term, word: str, less: Callable[[str, str], bool]) -> Term:
    """Compare a column of codes, short texts or texts with a word."""
    match term.type.kind:
        case "code":
            test = (lambda other: other == word) if kind is Equal else (lambda other: less(other, word))
            return Lookup(term, tuple(test(other) for other in term.type.words))
        case "short" if kind is Equal:
            return _member(term, (word,))
        case "text" if kind is Equal:
            return Match(term, (word,))
    raise DeltamarkError("cannot be compared", f"{term} ({term.type}) with {word!r}", "compare like with like")


def one_of(term: Term, values: Iterable[object]) -> Term:
    """Return the condition that a term is one of some values."""
    match term.type.kind:
        case "text":
            return disjunction([Match(term, (_text(value),)) for value in values])
        case "code":
            words = _words(term, values)
            return Lookup(term, tuple(word in words for word in term.type.words))
        case _:
            return _member(term, values)


def like(term: Term, pattern: object) -> Term:
    """Return the condition that a code or a text matches a pattern, in which % stands for any text."""
    if not isinstance(pattern, str):
        raise DeltamarkError("not a pattern", repr(pattern), "write a str, with % for any text")
    if term.type.kind == "code":
        regex = re.compile(re.escape(pattern).replace("%", ".*").replace("_", "."), re.DOTALL)
        return Lookup(term, tuple(bool(regex.fullmatch(word)) for word in term.type.words))
    if "_" in pattern:
        raise DeltamarkError("a pattern for stored text has % alone", repr(pattern), "leave _ out")
    return Match(term, tuple(pattern.split("%")))  # prefix, then pieces in order, suffix


def _member(term: Term, values: Iterable[object]) -> Term:
    """Return the condition that a term is one of some values, which are stored as sorted integers."""
    if term.type.kind == "short":
        stored = [packed for word in _words(term, values) if (packed := pack_short(word)) is not None]
    else:
        constants = [literal(value) for value in values]
        for constant in constants:
            if constant.type.kind != term.type.kind or constant.type.scale > term.type.scale:
                raise DeltamarkError("cannot be one of these", f"{term} ({term.type}): {constant}", "use its own type")
        same = (rescaled(each, term.type.scale) for each in constants)
        stored = [each.value for each in same if isinstance(each, Constant) and isinstance(each.value, int)]
    return Member(term, tuple(sorted(set(stored))))


def _words(term: Term, values: Iterable[object]) -> list[str]:
    """Return the values with which a term of texts is compared."""
    words = []
    for value in values:
        if not isinstance(value, str):
            raise DeltamarkError("cannot be one of these", f"{term} ({term.type}): {value!r}", "use its own type")
        words.append(value)
    return words


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise DeltamarkError("not a text", repr(value), "write a str")
    return value


ONE = number(1)
"""The denominator of a number."""


def bind(expr: object, schema: Schema) -> Term:
    """Give an expression, or a plain value, the types of a collection; raise an error for types that do not fit."""
    bound = bind_value(expr, schema)
    if isinstance(bound, Ratio):
        raise DeltamarkError("a ratio is not a number here", repr(expr), "multiply, divide, compare or select it")
    return bound


def bind_value(expr: object, schema: Schema) -> Term | Ratio:
    """Bind an expression that may be a ratio."""
    if isinstance(expr, PlanTerm | Ratio):
        return expr  # type: ignore[return-value]  # every class of terms is in the union
    if not isinstance(expr, Expr):
        return literal(expr)
    match expr.op:
        case "column":
            return column_value(expr.args[0], schema)
        case "multiply":
            return _multiply(expr, schema)
        case "divide":
            return _divide(expr, schema)
        case _:
            return OPERATIONS[expr.op](expr, schema)


def ratio_columns(name: str) -> tuple[str, str]:
    """Return the names of the columns in which a collection keeps the two parts of a ratio."""
    return f"{name}.num", f"{name}.den"


def column_value(name: str, schema: Schema) -> Term | Ratio:
    """Return a column, or the ratio that is kept in two columns."""
    numerator, denominator = ratio_columns(name)
    names = schema.names
    if isinstance(name, str) and name not in names and numerator in names and denominator in names:
        return Ratio(column(numerator, schema[numerator]), column(denominator, schema[denominator]))
    return column(name, schema[name])


def condition(expr: object, schema: Schema) -> Term:
    """Bind an expression that must be a condition."""
    term = bind(expr, schema)
    if term.type.kind != "bool":
        raise DeltamarkError("not a condition", f"{expr!r} is {term.type}", "compare it with something")
    if term.type.nullable:
        raise _missing(term, expr)
    return term


def _numbers(expr: Expr, schema: Schema) -> tuple[Term, Term]:
    left, right = (bind(arg, schema) for arg in expr.args)
    for term in (left, right):
        _must_be(term, ("int",), expr)
    return left, right


def _ratios(expr: Expr, schema: Schema) -> tuple[Ratio, Ratio]:
    """Bind the operands of an expression as ratios: a number has the denominator 1."""
    left, right = (_as_ratio(bind_value(arg, schema)) for arg in expr.args)
    for term in (left.numerator, left.denominator, right.numerator, right.denominator):
        _must_be(term, ("int",), expr)
    return left, right


def _as_ratio(value: Term | Ratio) -> Ratio:
    return value if isinstance(value, Ratio) else Ratio(value, ONE)


def _must_be(term: Term, kinds: tuple[str, ...], expr: Expr) -> None:
    if term.type.nullable:
        raise _missing(term, expr)
    if term.type.kind not in kinds:
        names = " or ".join(kinds)
        raise DeltamarkError(
            f"not of type {names}", f"{term} is {term.type} in {expr!r}", f"use a value of type {names}"
        )


def _missing(term: Term, expr: object) -> DeltamarkError:
    return DeltamarkError("a value that may be missing", f"{term} in {expr!r}", "give it a value by .coalesce(...)")


def _addition(combined: Callable[[Term, Term], Term], expr: Expr, schema: Schema) -> Term:
    return combined(*aligned(*_numbers(expr, schema)))


def _multiply(expr: Expr, schema: Schema) -> Term | Ratio:
    left, right = _ratios(expr, schema)
    numerator = product(left.numerator, right.numerator)
    if left.denominator is right.denominator is ONE:
        return numerator
    return Ratio(numerator, _scaled(left.denominator, right.denominator))


def _divide(expr: Expr, schema: Schema) -> Ratio:
    left, right = _ratios(expr, schema)
    return Ratio(_scaled(left.numerator, right.denominator), _scaled(left.denominator, right.numerator))


def _scaled(left: Term, right: Term) -> Term:
    """Return the product of two numbers, one of which may be the denominator of a number."""
    if left is ONE or right is ONE:
        return right if left is ONE else left
    return product(left, right)


def _ratio_comparison(kind: Comparison, expr: Expr, schema: Schema) -> Term:
    """Compare ratios by their cross products, which is exact while the denominators are positive."""
    left, right = _ratios(expr, schema)
    for divisor in (left.denominator, right.denominator):
        if divisor.type.low < 1:
            actual, remedy = f"{divisor} >= {divisor.type.low} in {expr!r}", "compare the products instead"
            raise DeltamarkError("a denominator that may be zero or negative", actual, remedy)
    try:
        products = _scaled(left.numerator, right.denominator), _scaled(right.numerator, left.denominator)
        return kind(*aligned(*products))
    except DeltamarkError as error:
        if error.cause != TOO_WIDE or kind is not Less or not _has_constant_divisor(left, right):
            raise
    if left.denominator is ONE:
        left, right = (Ratio(negative(each.numerator), each.denominator) for each in (right, left))
    return Less(_rounded_down(left, right.numerator.type.scale), right.numerator)


def _has_constant_divisor(left: Ratio, right: Ratio) -> bool:
    """Return whether one side is a number, and the other one has a constant divisor."""
    divisors = left.denominator, right.denominator
    return any(number_of is ONE and isinstance(divisor, Constant) for number_of, divisor in (divisors, divisors[::-1]))


def _rounded_down(value: Ratio, scale: int) -> Term:
    """Return the largest number with some decimal places that is not larger than a ratio with a constant divisor."""
    above, below = value.numerator, value.denominator
    by = scale + below.type.scale - above.type.scale
    assert isinstance(below, Constant)
    factor, divisor = (10**by, int(below.value)) if by >= 0 else (1, int(below.value) * 10**-by)
    common = math.gcd(factor, divisor)
    return quotient(product(above, number(factor // common)), number(divisor // common), scale)


def _comparison(kind: Comparison, expr: Expr, schema: Schema) -> Term:
    try:
        return _plain_comparison(kind, expr, schema)
    except DeltamarkError as error:
        if error.cause != TOO_WIDE:
            raise
        for divided in _divided(expr, schema):
            with suppress(DeltamarkError):
                return _ratio_comparison(kind, divided, schema)
        raise


def _divided(expr: Expr, schema: Schema) -> Iterator[Expr]:
    """Yield a comparison divided by each positive constant factor of its sides."""
    left, right = expr.args
    for side in (left, right):
        for value, factor in (side.args, side.args[::-1]) if isinstance(side, Expr) and side.op == "multiply" else ():
            bound = bind_value(factor, schema)
            if isinstance(bound, Constant) and bound.type.kind == "int" and int(bound.value) > 0:
                quotient = Expr("divide", right if side is left else left, factor)
                yield Expr(expr.op, *((value, quotient) if side is left else (quotient, value)))


def _plain_comparison(kind: Comparison, expr: Expr, schema: Schema) -> Term:
    if any(isinstance(bind_value(arg, schema), Ratio) for arg in expr.args):
        return _ratio_comparison(kind, expr, schema)
    left, right = (bind(arg, schema) for arg in expr.args)
    for term in (left, right):
        _must_be(term, ("int", "date", "code", "short", "text", "bool"), expr)
    if kind is Less and left.type.kind == right.type.kind == "text":
        return Less(left, right)
    match left, right:
        case _, Constant(str(word)):
            return word_comparison(kind, left, word, lambda word, other: word < other)
        case Constant(str(word)), _:
            return word_comparison(kind, right, word, lambda word, other: word > other)
    if left.type.comparable != right.type.comparable:
        actual = f"{left} is {left.type}, {right} is {right.type}"
        raise DeltamarkError("cannot be compared", actual, "compare values of the same type")
    if left.type.kind == "int":
        left, right = aligned(left, right)
    return kind(left, right)


def _is_in(expr: Expr, schema: Schema) -> Term:
    term = bind(expr.args[0], schema)
    _must_be(term, ("int", "date", "code", "short", "text", "bool"), expr)
    return one_of(term, expr.args[1])


def _like(expr: Expr, schema: Schema) -> Term:
    term = bind(expr.args[0], schema)
    _must_be(term, ("code", "text"), expr)
    return like(term, expr.args[1])


def _substring(expr: Expr, schema: Schema) -> Term:
    term, start, length = bind(expr.args[0], schema), expr.args[1], expr.args[2]
    _must_be(term, ("text",), expr)
    if not (start >= 1 and 1 <= length <= SHORT_BYTES):
        raise DeltamarkError("no such substring", f"{start}, {length}", f"start at 1, take 1 to {SHORT_BYTES}")
    return Substring(term, start, length)


def _year(expr: Expr, schema: Schema) -> Term:
    term = bind(expr.args[0], schema)
    _must_be(term, ("date",), expr)
    low, high = term.type.low, term.type.high
    if not FIRST_DAY <= low <= high <= LAST_DAY:
        actual = f"{term}: days {low}..{high} since 1970"
        raise DeltamarkError("a year outside 1 to 9999", actual, f"declare bounds from {FIRST_DAY} to {LAST_DAY}")
    days = np.arange(low, high + 1).astype("datetime64[D]")
    years = tuple((days.astype("datetime64[Y]").astype(np.int64) + EPOCH.year).tolist())
    return Table(term, low, years, integer(years[0], years[-1]))


def _connective(kind: type[And | Or], expr: Expr, schema: Schema) -> Term:
    return kind(*(condition(arg, schema) for arg in expr.args))


def _not(expr: Expr, schema: Schema) -> Term:
    inner = condition(expr.args[0], schema)
    return inner.condition if isinstance(inner, Not) else Not(inner)


def _when(expr: Expr, schema: Schema) -> Term:
    test = condition(expr.args[0], schema)
    left, right = (bind(arg, schema) for arg in expr.args[1:])
    if left.type.comparable != right.type.comparable or left.type.kind == "text":
        actual = f"{left.type} and {right.type} in {expr!r}"
        remedy = "give both branches the same type"
        raise DeltamarkError("the branches of when(...) have different types", actual, remedy)
    if left.type.scale != right.type.scale:
        for term in (left, right):
            _must_be(term, ("int",), expr)
        left, right = aligned(left, right)
    return When(test, left, right, spanning(left.type, right.type))


def _is_null(expr: Expr, schema: Schema) -> Term:
    return IsNull(bind(expr.args[0], schema))


def _coalesce(expr: Expr, schema: Schema) -> Term:
    term, value = bind(expr.args[0], schema), bind(expr.args[1], schema)
    if term.type.comparable != value.type.comparable or value.type.scale > term.type.scale or value.type.nullable:
        actual = f"{value} ({value.type}) for {term} ({term.type})"
        raise DeltamarkError("the default of coalesce has another type", actual, "give a default of the same type")
    if term.type.kind == "int":
        value = rescaled(value, term.type.scale)
    return coalesced(term, value)


OPERATIONS: dict[ExprOp, Callable[[Expr, Schema], Term]] = {
    "add": partial(_addition, total), "subtract": partial(_addition, difference),
    "equal": partial(_comparison, Equal), "less": partial(_comparison, Less),
    "is_in": _is_in, "like": _like, "substring": _substring, "year": _year,
    "and": partial(_connective, And), "or": partial(_connective, Or), "not": _not,
    "when": _when, "is_null": _is_null, "coalesce": _coalesce,
}  # fmt: skip
