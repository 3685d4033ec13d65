"""Bound expressions: an `Expr` meets the types of a collection and becomes a `Term`.

Terms are interned, so equal ones are one object and are compared by identity; the key is explicit (operation, type,
children, tagged literal), because Python's own equality holds 1, 1.0 and True for the same. Numbers are aligned to
one scale here, and text predicates on codes become tables, so what is left to evaluate is arithmetic on int64.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from deltamark.dataflow.language.expr import Expr
from deltamark.dataflow.types import BOOL, NULL, SHORT, SHORT_BYTES, Schema, Type, date_type, integer, pack_short
from deltamark.errors import DeltamarkError

EPOCH = dt.date(1970, 1, 1)
FIRST_DAY, LAST_DAY = ((day - EPOCH).days for day in (dt.date.min, dt.date.max))


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Term:
    """An operation on terms. `value` is a column's name, a literal, a table, or a pattern."""

    op: str
    args: tuple[Term, ...]
    type: Type
    value: Any = None

    def __str__(self) -> str:
        inner = [] if self.value is None else [_brief(self.value)]
        return (
            inner[0] if self.op in ("column", "literal") else f"{self.op}({', '.join([*map(str, self.args), *inner])})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _term, (self.op, self.args, self.type, self.value)

    @property
    def columns(self) -> frozenset[str]:
        if self.op == "column":
            return frozenset([self.value])
        return frozenset().union(*(arg.columns for arg in self.args))


_terms: WeakValueDictionary[Any, Term] = WeakValueDictionary()


def _term(op: str, args: tuple[Term, ...], type_: Type, value: Any = None) -> Term:
    key = (op, tuple(map(id, args)), type_, type(value).__name__, value)
    found = _terms.get(key)
    if found is None:
        found = _terms[key] = Term(op, args, type_, value)
    return found


def _brief(value: Any) -> str:
    text = repr(value) if not isinstance(value, str) else value
    return text if len(text) < 40 else f"{text[:36]}..."


def column(name: str, type_: Type) -> Term:
    return _term("column", (), type_, name)


def number(value: int, scale: int = 0) -> Term:
    return _term("literal", (), integer(value, value, scale), value)


def null(type_: Type) -> Term:
    """A missing value of a type."""
    return _term("literal", (), type_.or_null(), NULL)


def bind(expr: Any, schema: Schema) -> Term:
    """Give an expression the types of a collection; refuse what does not fit."""
    if not isinstance(expr, Expr):
        return _literal(expr)
    if expr.op == "column":
        return column(expr.args[0], schema[expr.args[0]])
    return OPERATIONS[expr.op](expr, schema)


def condition(expr: Any, schema: Schema) -> Term:
    """Bind an expression that must be a condition."""
    term = bind(expr, schema)
    if term.type.kind != "bool":
        raise DeltamarkError("not a condition", f"{expr!r} is {term.type}", "compare it with something")
    return term


def both(one: Term | None, other: Term) -> Term:
    """Return the condition that two hold; None for one that always does."""
    return other if one is None else _term("and", (one, other), BOOL)


def passes(conditions: Sequence[Term]) -> Term:
    """Return a number whose bits say which conditions hold."""
    return _term("passes", tuple(conditions), integer(0, 2 ** len(conditions) - 1))


def substituted(term: Term, by: Mapping[str, Term]) -> Term:
    """Write a term over other columns, of the same types."""
    if term.op == "column":
        return by[term.value]
    return _term(term.op, tuple(substituted(arg, by) for arg in term.args), term.type, term.value)


def conjuncts(term: Term) -> list[Term]:
    return [part for arg in term.args for part in conjuncts(arg)] if term.op == "and" else [term]


def _literal(value: Any) -> Term:
    strange = isinstance(value, bool | dt.datetime) or (isinstance(value, Decimal) and not value.is_finite())
    if strange or not isinstance(value, int | Decimal | dt.date | str):
        remedy = "write an int, Decimal('0.05'), a date or str"
        raise DeltamarkError("not a value of an expression", f"{value!r} ({type(value).__name__})", remedy)
    if isinstance(value, int):
        return number(value)
    if isinstance(value, Decimal):
        exponent = min(int(value.as_tuple().exponent), 0)
        return number(int(value.scaleb(-exponent)), -exponent)
    if isinstance(value, dt.date):
        days = (value - EPOCH).days
        return _term("literal", (), date_type(days, days), days)
    return _term("literal", (), Type("text"), value)


def rescaled(term: Term, scale: int) -> Term:
    """Write a number with more places."""
    factor = 10 ** (scale - term.type.scale)
    if factor == 1:
        return term
    if term.op == "literal":
        return number(term.value * factor, scale)
    product = _multiply_terms(term, number(factor))
    return _term(product.op, product.args, replace(product.type, scale=scale), product.value)


def _numbers(expr: Expr, schema: Schema) -> tuple[Term, Term]:
    left, right = (bind(arg, schema) for arg in expr.args)
    for term in (left, right):
        _must_be(term, ("int",), expr)
    return left, right


def _must_be(term: Term, kinds: tuple[str, ...], expr: Expr) -> None:
    if term.type.nullable:
        raise DeltamarkError("a value that may be missing", f"{term} in {expr!r}", "give it a value by .coalesce(...)")
    if term.type.kind not in kinds:
        raise DeltamarkError(f"not of type {' or '.join(kinds)}", f"{term} is {term.type} in {expr!r}", "convert it")


def _add(expr: Expr, schema: Schema) -> Term:
    left, right = _aligned(*_numbers(expr, schema))
    (a, b), (c, d) = (left.type.low, left.type.high), (right.type.low, right.type.high)
    low, high = (a + c, b + d) if expr.op == "add" else (a - d, b - c)
    return _term(expr.op, (left, right), integer(low, high, left.type.scale))


def _aligned(left: Term, right: Term) -> tuple[Term, Term]:
    scale = max(left.type.scale, right.type.scale)
    return rescaled(left, scale), rescaled(right, scale)


def _multiply(expr: Expr, schema: Schema) -> Term:
    return _multiply_terms(*_numbers(expr, schema))


def _multiply_terms(left: Term, right: Term) -> Term:
    corners = [a * b for a in (left.type.low, left.type.high) for b in (right.type.low, right.type.high)]
    scale = left.type.scale + right.type.scale
    return _term("multiply", (left, right), integer(min(corners), max(corners), scale))


def _comparison(expr: Expr, schema: Schema) -> Term:
    left, right = (bind(arg, schema) for arg in expr.args)
    for term in (left, right):
        _must_be(term, ("int", "date", "code", "short", "text"), expr)
    if right.op == "literal" and right.type.kind == "text":
        return _with_word(expr.op, left, right.value, lambda word, other: word < other)
    if left.op == "literal" and left.type.kind == "text":
        return _with_word(expr.op, right, left.value, lambda word, other: word > other)
    if left.type.comparable != right.type.comparable or (left.type.kind == "text" and expr.op != "equal"):
        raise DeltamarkError("cannot be compared", f"{left} is {left.type}, {right} is {right.type}", "convert one")
    if left.type.kind == "int":
        left, right = _aligned(left, right)
    return _term(expr.op, (left, right), BOOL)


def _with_word(op: str, term: Term, word: str, less: Callable[[str, str], bool]) -> Term:
    """Compare a column of text with a literal."""
    match term.type.kind:
        case "code":
            test = (lambda other: other == word) if op == "equal" else (lambda other: less(other, word))
            return _lookup(term, tuple(test(other) for other in term.type.words))
        case "short" if op == "equal":
            return _member(term, (word,))
        case "text" if op == "equal":
            return _term("match", (term,), BOOL, (word,))
    raise DeltamarkError("cannot be compared", f"{term} ({term.type}) with {word!r}", "compare like with like")


def _lookup(term: Term, table: tuple[bool, ...]) -> Term:
    """Look a condition up by code."""
    return _term("lookup", (term,), BOOL, table)


def _member(term: Term, values: tuple[Any, ...]) -> Term:
    """Is the term one of the values? As sorted integers."""
    if term.type.kind == "short":
        for value in values:
            if not isinstance(value, str):
                raise DeltamarkError("cannot be one of these", f"{term} ({term.type}): {value!r}", "use its own type")
        stored = [packed for value in values if (packed := pack_short(value)) is not None]
    else:
        literals = [_literal(value) for value in values]
        for literal in literals:
            if literal.type.kind != term.type.kind or literal.type.scale > term.type.scale:
                raise DeltamarkError("cannot be one of these", f"{term} ({term.type}): {literal}", "use its own type")
        scale = term.type.scale
        stored = [rescaled(literal, scale).value if scale else literal.value for literal in literals]
    return _term("member", (term,), BOOL, tuple(sorted(set(stored))))


def _is_in(expr: Expr, schema: Schema) -> Term:
    term, values = bind(expr.args[0], schema), expr.args[1]
    _must_be(term, ("int", "date", "code", "short", "text"), expr)
    if term.type.kind == "text":
        return _any([_term("match", (term,), BOOL, (_text(value),)) for value in values])
    if term.type.kind == "code":
        for value in values:
            if not isinstance(value, str):
                raise DeltamarkError("cannot be one of these", f"{term} ({term.type}): {value!r}", "use its own type")
        return _lookup(term, tuple(word in values for word in term.type.words))
    return _member(term, values)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise DeltamarkError("not a text", repr(value), "write a str")
    return value


def _any(terms: list[Term]) -> Term:
    """Is one of these conditions true?"""
    found = terms[0] if terms else _term("equal", (number(0), number(1)), BOOL)
    for term in terms[1:]:
        found = _term("or", (found, term), BOOL)
    return found


def _like(expr: Expr, schema: Schema) -> Term:
    term, pattern = bind(expr.args[0], schema), expr.args[1]
    _must_be(term, ("code", "text"), expr)
    if not isinstance(pattern, str):
        raise DeltamarkError("not a pattern", repr(pattern), "write a str, with % for any text")
    if term.type.kind == "code":
        regex = re.compile(re.escape(pattern).replace("%", ".*").replace("_", "."), re.DOTALL)
        return _lookup(term, tuple(bool(regex.fullmatch(word)) for word in term.type.words))
    if "_" in pattern:
        raise DeltamarkError("a pattern for stored text has % alone", repr(pattern), "leave _ out")
    return _term("match", (term,), BOOL, tuple(pattern.split("%")))  # prefix, then pieces in order, suffix


def _substring(expr: Expr, schema: Schema) -> Term:
    term, start, length = bind(expr.args[0], schema), expr.args[1], expr.args[2]
    _must_be(term, ("text",), expr)
    if not (start >= 1 and 1 <= length <= SHORT_BYTES):
        raise DeltamarkError("no such substring", f"{start}, {length}", f"start at 1, take 1 to {SHORT_BYTES}")
    return _term("substring", (term,), SHORT, (start, length))


def _year(expr: Expr, schema: Schema) -> Term:
    term = bind(expr.args[0], schema)
    _must_be(term, ("date",), expr)
    low, high = term.type.low, term.type.high
    if not FIRST_DAY <= low <= high <= LAST_DAY:
        actual = f"{term}: days {low}..{high} since 1970"
        raise DeltamarkError("a year outside 1 to 9999", actual, f"declare bounds from {FIRST_DAY} to {LAST_DAY}")
    days = np.arange(low, high + 1).astype("datetime64[D]")
    years = tuple((days.astype("datetime64[Y]").astype(np.int64) + EPOCH.year).tolist())
    return _term("table", (term,), integer(years[0], years[-1]), (low, years))


def _logic(expr: Expr, schema: Schema) -> Term:
    terms = tuple(condition(arg, schema) for arg in expr.args)
    if expr.op == "not" and terms[0].op == "not":
        return terms[0].args[0]
    return _term(expr.op, terms, BOOL)


def _when(expr: Expr, schema: Schema) -> Term:
    test = condition(expr.args[0], schema)
    left, right = (bind(arg, schema) for arg in expr.args[1:])
    if left.type.comparable != right.type.comparable or left.type.kind in ("text", "bool"):
        raise DeltamarkError(
            "the branches differ", f"{left.type} and {right.type} in {expr!r}", "make them of one type"
        )
    if left.type.scale != right.type.scale:
        for term in (left, right):
            _must_be(term, ("int",), expr)
        left, right = _aligned(left, right)
    nullable = left.type.nullable or right.type.nullable
    low, high = min(left.type.low, right.type.low), max(left.type.high, right.type.high)
    return _term("when", (test, left, right), replace(left.type, low=low, high=high, nullable=nullable))


def _is_null(expr: Expr, schema: Schema) -> Term:
    return _term("is_null", (bind(expr.args[0], schema),), BOOL)


def _coalesce(expr: Expr, schema: Schema) -> Term:
    term, value = bind(expr.args[0], schema), bind(expr.args[1], schema)
    if term.type.comparable != value.type.comparable or value.type.scale > term.type.scale or value.type.nullable:
        raise DeltamarkError("no value for the missing ones", f"{value} for {term} ({term.type})", "use its own type")
    if term.type.kind == "int":
        value = rescaled(value, term.type.scale)
    low, high = min(term.type.low, value.type.low), max(term.type.high, value.type.high)
    return _term("coalesce", (term, value), replace(term.type, low=low, high=high, nullable=False))


OPERATIONS: dict[str, Callable[[Expr, Schema], Term]] = {
    "add": _add, "subtract": _add, "multiply": _multiply, "equal": _comparison, "less": _comparison,
    "is_in": _is_in, "like": _like, "substring": _substring, "year": _year, "and": _logic, "or": _logic,
    "not": _logic, "when": _when, "is_null": _is_null, "coalesce": _coalesce,
}  # fmt: skip
