"""Terms: typed expressions over the columns of one collection, as they occur in filters, projections and sums.

Terms are interned, so equal ones are one object and compare by identity. The key is explicit (operation, type,
arguments, tagged value), because 1, 1.0 and True are equal in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Literal, TypeVar
from weakref import WeakValueDictionary

from deltamark.dataflow.types import BOOL, NULL, Type, integer

TermOp = Literal[
    "column", "literal", "add", "subtract", "multiply", "quotient", "equal", "less", "and", "or", "not", "lookup",
    "table", "member", "match", "substring", "text", "when", "is_null", "coalesce", "passes",
]  # fmt: skip

MAX_SHOWN = 40
"""Characters of a value in an explanation; a longer one is cut."""

MAX_WRITTEN = 20_000
"""The operations up to which a term is written as text. A term that shares its parts may have 2^40 when written out."""

LONGEST_CHAIN = 32
"""The parts that are connected one after another. More become a balanced tree, through which recursion is not deep."""


_interned: WeakValueDictionary[tuple[object, ...], Term] = WeakValueDictionary()


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Term:
    """An operation on terms.

    op         args          value
    column     -             the name
    literal    -             a number, the days of a date, a text, a condition, or NULL
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
    columns: frozenset[str] = field(init=False)
    """The names of the columns that the term is computed from."""
    operations: int = field(init=False)
    """The number of operations of the term when it is written out; equal parts count each time."""
    may_fail: bool = field(init=False)
    """Whether computing the term can raise an error for some rows: a substring may be too long to pack."""
    digest: str = field(init=False, default="")
    """A name for the content, once `dataflow.operators.interning` has made it."""

    def __post_init__(self) -> None:
        own = frozenset([self.value] if self.op == "column" else [])
        object.__setattr__(self, "columns", own.union(*(arg.columns for arg in self.args)))
        object.__setattr__(self, "operations", 1 + sum(arg.operations for arg in self.args))
        object.__setattr__(self, "may_fail", self.op == "substring" or any(arg.may_fail for arg in self.args))

    def __str__(self) -> str:
        if self.operations > MAX_WRITTEN:
            return f"{self.op}(...)"
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


def all_of(terms: Sequence[Term]) -> Term:
    """Return the condition that all of at least one hold."""
    return balanced(terms, conjunction)


def disjunction(terms: Sequence[Term]) -> Term:
    """Return the condition that at least one holds; without terms it never does."""
    if not terms:
        return Term.of("literal", (), BOOL, value=False)
    return balanced(terms, lambda left, right: Term.of("or", (left, right), BOOL))


Part = TypeVar("Part")


def balanced(parts: Sequence[Part], connect: Callable[[Part, Part], Part]) -> Part:
    """Connect parts by an associative operation: one after another, or, if they are many, as a tree of halves."""
    if len(parts) <= LONGEST_CHAIN:
        return reduce(connect, parts)
    middle = len(parts) // 2
    return connect(balanced(parts[:middle], connect), balanced(parts[middle:], connect))


def conjuncts(condition: Term) -> list[Term]:
    """Split a condition into the terms that must all hold."""
    return parts_of(condition, "and")


def parts_of(term: Term, op: TermOp) -> list[Term]:
    """Split a term into the parts that an operation connects, from left to right. A shared connection is split once."""
    found: list[Term] = []
    remaining, split = [term], set()
    while remaining:
        part = remaining.pop()
        if part.op != op:
            found.append(part)
        elif part not in split:
            split.add(part)
            remaining += reversed(part.args)
    return found


def subterms(term: Term) -> Iterator[Term]:
    """Yield a term and all of its parts, each once."""
    remaining, seen = [term], {term}
    while remaining:
        part = remaining.pop()
        yield part
        new = [arg for arg in dict.fromkeys(part.args) if arg not in seen]
        seen.update(new)
        remaining += new


def filter_bitmap(conditions: Sequence[Term]) -> Term:
    """Return a number whose bits say which conditions hold."""
    return Term.of("passes", tuple(conditions), integer(0, 2 ** len(conditions) - 1))


def substituted(of: Term, by: Mapping[str, Term]) -> Term:
    """Replace the columns of a term by terms of the same types."""
    return _changed(of, lambda part: by[part.value] if part.op == "column" else None, {})


def replaced(of: Term, by: Mapping[Term, Term]) -> Term:
    """Replace parts of a term by terms of the same types."""
    return _changed(of, by.get, {})


def _changed(of: Term, change: Callable[[Term], Term | None], done: dict[Term, Term]) -> Term:
    """Replace the parts of a term for which there is another one. done: the results for parts, each made once."""
    if of not in done:
        other = change(of)
        if other is None:
            args = tuple(_changed(arg, change, done) for arg in of.args)
            other = Term.of(of.op, args, of.type, of.value)
        done[of] = other
    return done[of]


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
