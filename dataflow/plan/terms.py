"""Terms: typed expressions over the columns of one collection, as they occur in filters, projections and sums.

Terms are interned, so equal ones are one object and compare by identity. The key is explicit (operation, type,
arguments, tagged value), because 1, 1.0 and True are equal in Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from weakref import WeakValueDictionary

from deltamark.dataflow.types import BOOL, NULL, Type, integer

TermOp = Literal[
    "column", "literal", "add", "subtract", "multiply", "quotient", "equal", "less", "and", "or", "not", "lookup",
    "table", "member", "match", "substring", "text", "when", "is_null", "coalesce", "passes",
]  # fmt: skip

MAX_SHOWN = 40
"""Characters of a value in an explanation; a longer one is cut."""


_interned: WeakValueDictionary[tuple[object, ...], Term] = WeakValueDictionary()


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Term:
    """An operation on terms.

    op         args          value
    column     -             the name
    literal    -             a number, the days of a date, a text, or NULL
    add, ...   left, right   -  (also subtract, multiply, equal, less, and, or)
    quotient   left, right   -: the stored value of left by that of right, which is positive, rounded down
    not        condition     -
    lookup     code          for each code, whether the condition holds
    table      number        (low, the results for low, low + 1, ...)
    member     value         the sorted values that satisfy the condition
    match      text          its pieces, with any text between them
    substring  text          (start, length)
    text       code          -: the word of the code, as a text
    when       test, a, b    -
    is_null    value         -
    coalesce   value, other  -
    passes     conditions    -: the number whose bit i says whether condition i holds
    """

    op: TermOp
    args: tuple[Term, ...]
    type: Type
    value: Any = None

    def __str__(self) -> str:
        inner = [] if self.value is None else [_brief(self.value)]
        if self.op in ("column", "literal"):
            return inner[0]
        return f"{self.op}({', '.join([*map(str, self.args), *inner])})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (self.op, self.args, self.type, self.value)

    @classmethod
    def of(cls, op: TermOp, args: tuple[Term, ...], type_: Type, value: Any = None) -> Term:
        """Return the interned term."""
        key = (op, tuple(map(id, args)), type_, type(value).__name__, value)
        found = _interned.get(key)
        if found is None:
            found = _interned[key] = cls(op, args, type_, value)
        return found

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns that the term is computed from."""
        if self.op == "column":
            return frozenset([self.value])
        return frozenset().union(*(arg.columns for arg in self.args))

    @property
    def may_fail(self) -> bool:
        """Whether computing the term can raise an error for some rows: a substring may be too long to pack."""
        return self.op == "substring" or any(arg.may_fail for arg in self.args)


@dataclass(frozen=True)
class Ratio:
    """An exact quotient of two numbers. A collection keeps it in two columns."""

    numerator: Term
    denominator: Term

    def __str__(self) -> str:
        return f"{self.numerator} / {self.denominator}"


def _rebuilt(op: TermOp, args: tuple[Term, ...], type_: Type, value: Any) -> Term:
    """Unpickle a term. It is a function because Spark's pickler copies the code of methods, with all that it uses."""
    return Term.of(op, args, type_, value)


def _brief(value: object) -> str:
    text = repr(value) if not isinstance(value, str) else value
    return text if len(text) < MAX_SHOWN else f"{text[: MAX_SHOWN - 4]}..."


def column(name: str, type_: Type) -> Term:
    return Term.of("column", (), type_, name)


def number(value: int, scale: int = 0) -> Term:
    return Term.of("literal", (), integer(value, value, scale), value)


def null(type_: Type) -> Term:
    """Return the NULL of a type."""
    return Term.of("literal", (), type_.or_null(), NULL)


def conjunction(left: Term | None, right: Term) -> Term:
    """Return the condition that both hold; None stands for a condition that always does."""
    return right if left is None else Term.of("and", (left, right), BOOL)


def disjunction(terms: Sequence[Term]) -> Term:
    """Return the condition that at least one holds; without terms it never does."""
    result = terms[0] if terms else Term.of("equal", (number(0), number(1)), BOOL)
    for each in terms[1:]:
        result = Term.of("or", (result, each), BOOL)
    return result


def conjuncts(condition: Term) -> list[Term]:
    """Split a condition into the terms that must all hold."""
    if condition.op != "and":
        return [condition]
    return [part for arg in condition.args for part in conjuncts(arg)]


def filter_bitmap(conditions: Sequence[Term]) -> Term:
    """Return a number whose bits say which conditions hold."""
    return Term.of("passes", tuple(conditions), integer(0, 2 ** len(conditions) - 1))


def substituted(of: Term, by: Mapping[str, Term]) -> Term:
    """Replace the columns of a term by terms of the same types."""
    if of.op == "column":
        return by[of.value]
    return Term.of(of.op, tuple(substituted(arg, by) for arg in of.args), of.type, of.value)


def replaced(of: Term, by: Mapping[Term, Term]) -> Term:
    """Replace parts of a term by terms of the same types."""
    if of in by:
        return by[of]
    return Term.of(of.op, tuple(replaced(arg, by) for arg in of.args), of.type, of.value)


def product(left: Term, right: Term) -> Term:
    corners = [a * b for a in (left.type.low, left.type.high) for b in (right.type.low, right.type.high)]
    scale = left.type.scale + right.type.scale
    return Term.of("multiply", (left, right), integer(min(corners), max(corners), scale))


def quotient(left: Term, right: Term, scale: int) -> Term:
    """Divide the stored value of a number by that of a positive one, and round down. scale: that of the result."""
    corners = [a // b for a in (left.type.low, left.type.high) for b in (right.type.low, right.type.high)]
    return Term.of("quotient", (left, right), integer(min(corners), max(corners), scale))


def shifted(of: Term, by: int) -> Term:
    """Add `by` units of the last decimal place."""
    scale = of.type.scale
    return Term.of("add", (of, number(by, scale)), integer(of.type.low + by, of.type.high + by, scale)) if by else of


def rescaled(of: Term, scale: int) -> Term:
    """Write a number with more decimal places."""
    factor = 10 ** (scale - of.type.scale)
    if factor == 1:
        return of
    if of.op == "literal":
        return number(of.value * factor, scale)
    scaled = product(of, number(factor))
    return Term.of(scaled.op, scaled.args, replace(scaled.type, scale=scale), scaled.value)


def aligned(left: Term, right: Term) -> tuple[Term, Term]:
    """Write two numbers with the same decimal places."""
    scale = max(left.type.scale, right.type.scale)
    return rescaled(left, scale), rescaled(right, scale)
