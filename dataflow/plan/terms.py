"""Terms: typed expressions over the columns of one collection, as they occur in filters, projections and sums.

`Term` is the union of their classes, so that type checkers find a `match` that lacks one of them. Terms are interned:
equal ones are one object, and compare by identity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import ClassVar, Literal, Self, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from deltamark.dataflow.types import BOOL, DOUBLE, NULL, SHORT, TEXT, Type, integer, spanning, stored_double

MAX_SHOWN = 40
"""Characters of a value in an explanation; a longer one is cut."""

MAX_WRITTEN = 20_000
"""The operations up to which a term is written as text. A term that shares its parts may have 2^40 when written out."""

LONGEST_CHAIN = 32
"""The parts that are connected one after another. More become a balanced tree, through which recursion is not deep."""


_interned: WeakValueDictionary[tuple[object, ...], PlanTerm] = WeakValueDictionary()


class _Interning(type):
    """Returns the existing term when an equal one is constructed. The values are positional.

    The type of the first value is a part of the key, because 1, 1.0 and True are equal in Python.
    """

    def __call__(cls, *values: object) -> PlanTerm:
        key = (cls, type(values[0]), *values)
        found = _interned.get(key)
        if found is None:
            found = _interned[key] = super().__call__(*values)
            _derive(found, values)
        return found


class PlanTerm(metaclass=_Interning):
    """The base of all terms.

    A class declares its values in the order of its constructor: the terms that it is computed from, then others, then
    the type if the class does not determine it.
    """

    __slots__ = ("__weakref__", "args", "columns", "digest", "may_fail", "operations", "values")

    operation: ClassVar[str]
    """The name of the operation in texts and digests, such as `is_null`."""

    type: Type
    values: tuple[object, ...]
    """The values that its constructor was given."""
    args: tuple[Term, ...]
    """The terms that the term is computed from."""
    columns: frozenset[str]
    """The names of the columns that the term is computed from."""
    operations: int
    """The number of operations of the term when it is written out; equal parts count each time."""
    may_fail: bool
    """Whether computing the term can raise an error for some rows: see `Substring`, `Checked` and `FromDouble`."""
    digest: str
    """A name for the content, once `dataflow.operators.interning` has made it."""

    def __init_subclass__(cls) -> None:
        if "operation" not in vars(cls):
            cls.operation = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    @property
    def parameter(self) -> object:
        """The values other than terms and the type: None without one, the only one, or a tuple of them."""
        found = tuple(each for each in self.values if not isinstance(each, PlanTerm | Type))
        return found if len(found) > 1 else found[0] if found else None

    def with_args(self, args: tuple[Term, ...]) -> Self:
        """Return the same operation, with the same type, on other terms."""
        if args == self.args:
            return self
        remaining = iter(args)
        values = (next(remaining) if isinstance(each, PlanTerm) else each for each in self.values)
        return _rebuilt(self.__class__, values)

    def __str__(self) -> str:
        if self.operations > MAX_WRITTEN:
            return f"{self.operation}(...)"
        inner = [] if self.parameter is None else [_brief(self.parameter)]
        return f"{self.operation}({', '.join([*map(str, self.args), *inner])})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (self.__class__, self.values)


def _derive(term: PlanTerm, values: tuple[object, ...]) -> None:
    """Set the attributes of a new term that follow from its values."""
    args: tuple[PlanTerm, ...]
    match term:
        case Passes():
            args = term.conditions
        case TextCall():
            args = term.arguments
        case Moment() | ExactMoment():
            args = term.numbers
        case _:
            args = tuple(each for each in values if isinstance(each, PlanTerm))
    own = frozenset([term.name] if isinstance(term, Column) else [])
    object.__setattr__(term, "values", values)
    object.__setattr__(term, "args", args)
    object.__setattr__(term, "columns", own.union(*(arg.columns for arg in args)))
    object.__setattr__(term, "operations", 1 + sum(arg.operations for arg in args))
    may_fail = isinstance(term, Substring | Checked | FromDouble) or any(arg.may_fail for arg in args)
    object.__setattr__(term, "may_fail", may_fail)
    object.__setattr__(term, "digest", "")


TermT = TypeVar("TermT", bound=PlanTerm)


def _rebuilt(kind: Callable[..., TermT], values: Iterable[object]) -> TermT:
    """Unpickle a term. It is a function because Spark's pickler copies the code of methods, with all that it uses."""
    return kind(*values)


def _brief(value: object) -> str:
    text = repr(value) if not isinstance(value, str) else value
    return text if len(text) < MAX_SHOWN else f"{text[: MAX_SHOWN - 4]}..."


@dataclass(frozen=True, eq=False, slots=True)
class Column(PlanTerm):
    """A column of the collection."""

    name: str
    type: Type

    def __str__(self) -> str:
        return _brief(self.name)


@dataclass(frozen=True, eq=False, slots=True)
class Constant(PlanTerm):
    """A number, the days of a date, a code, a packed short text, a text, a condition, or NULL."""

    operation: ClassVar[str] = "literal"
    value: int | str
    type: Type

    def __str__(self) -> str:
        return _brief(self.value)


@dataclass(frozen=True, eq=False, slots=True)
class _Arithmetic(PlanTerm):
    """The base of the numbers that are computed from two others."""

    left: Term
    right: Term
    type: Type


class Add(_Arithmetic):
    """The sum of two numbers."""

    __slots__ = ()


class Subtract(_Arithmetic):
    """The difference of two numbers."""

    __slots__ = ()


class Multiply(_Arithmetic):
    """The product of two numbers."""

    __slots__ = ()


class Quotient(_Arithmetic):
    """The stored value of a number by that of another one, which is positive, rounded down."""

    __slots__ = ()


@dataclass(frozen=True, eq=False, slots=True)
class Table(PlanTerm):
    """The number that a table has for a number. results: those for low, low + 1, ..."""

    number: Term
    low: int
    results: tuple[int, ...]
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class When(PlanTerm):
    """One of two values, which a condition chooses."""

    condition: Term
    yes: Term
    no: Term
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class Coalesce(PlanTerm):
    """A value, or another one where it is NULL."""

    value: Term
    other: Term
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class Passes(PlanTerm):
    """The number whose bit i says whether condition i holds."""

    conditions: tuple[Term, ...]
    type: Type

    @property
    def parameter(self) -> object:
        return None

    def with_args(self, args: tuple[Term, ...]) -> Passes:
        return Passes(args, self.type)


@dataclass(frozen=True, eq=False, slots=True)
class Text(PlanTerm):
    """The word of a code, or a short text, as a text."""

    code: Term
    type = TEXT


@dataclass(frozen=True, eq=False, slots=True)
class Substring(PlanTerm):
    """Some characters of a text, from a place on that counts from 1, as a short text."""

    text: Term
    start: int
    length: int
    type = SHORT


OF_SAMPLES = ("var_samp", "variance", "stddev", "stddev_samp", "covar_samp")
"""The moments that are divided by one less than the number of rows. They are NULL for one row."""
ROOTS = ("stddev", "stddev_samp", "stddev_pop")
MOMENTS = (*OF_SAMPLES, "var_pop", "stddev_pop", "covar_pop", "corr")


@dataclass(frozen=True, eq=False, slots=True)
class Moment(PlanTerm):
    """A variance, a covariance or a correlation, as a double, by its function in SQL.

    numbers: the number of rows, then for each comoment the sums of two values and of the two digits of their product:
    see `kernels/moments.py`. scale: the decimal places of the product.
    """

    function: str
    numbers: tuple[Term, ...]
    scale: int
    type = DOUBLE

    @property
    def parameter(self) -> object:
        return self.function, self.scale

    def with_args(self, args: tuple[Term, ...]) -> Moment:
        return Moment(self.function, args, self.scale)


@dataclass(frozen=True, eq=False, slots=True)
class ExactMoment(PlanTerm):
    """A variance, a covariance or a correlation of doubles over a group, which only an aggregate computes.

    Rows in which a number is NULL do not count. It is 0 for too few rows.
    """

    function: str
    numbers: tuple[Term, ...]
    type = DOUBLE

    @property
    def parameter(self) -> object:
        return self.function

    def with_args(self, args: tuple[Term, ...]) -> ExactMoment:
        return ExactMoment(self.function, args)


@dataclass(frozen=True, eq=False, slots=True)
class TextCall(PlanTerm):
    """A function of texts and numbers. function: one of `kernels.text.calls`, or regexp_matches.

    It is missing where one of its texts is, except that concat_ws leaves out all but the first.
    """

    function: str
    arguments: tuple[Term, ...]
    type: Type

    @property
    def parameter(self) -> object:
        return self.function

    def with_args(self, args: tuple[Term, ...]) -> TextCall:
        return TextCall(self.function, args, self.type)


@dataclass(frozen=True, eq=False, slots=True)
class Checked(PlanTerm):
    """A sum, a difference or a product, by its sign, that fails for a row in which it needs more than 64 bits."""

    left: Term
    right: Term
    sign: Literal["+", "-", "*"]
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class ToDouble(PlanTerm):
    """The double that stands for a number."""

    number: Term
    type = DOUBLE


@dataclass(frozen=True, eq=False, slots=True)
class FromDouble(PlanTerm):
    """The number nearest to a double; it fails for a row in which there is none. Halves go away from zero.

    to_even: whether halves go to the even number instead.
    """

    value: Term
    to_even: bool
    type: Type


@dataclass(frozen=True, eq=False, slots=True)
class DoubleArithmetic(PlanTerm):
    """A function of two doubles: + - * / % ** or atan2."""

    left: Term
    right: Term
    sign: str
    type = DOUBLE


@dataclass(frozen=True, eq=False, slots=True)
class DoubleFunction(PlanTerm):
    """A function of a double, by its name in SQL; `float` rounds to 32 bits. places: for `round` alone."""

    value: Term
    function: str
    places: int
    type = DOUBLE


class _Condition(PlanTerm):
    """The base of conditions that are true or false for every row."""

    __slots__ = ()
    type = BOOL


@dataclass(frozen=True, eq=False, slots=True)
class _OfTwo(_Condition):
    """The base of the conditions on two values or conditions."""

    left: Term
    right: Term


class Equal(_OfTwo):
    """The condition that two values are equal."""

    __slots__ = ()


class Less(_OfTwo):
    """The condition that one value is less than another."""

    __slots__ = ()


class And(_OfTwo):
    """The condition that two conditions hold."""

    __slots__ = ()


class Or(_OfTwo):
    """The condition that at least one of two conditions holds."""

    __slots__ = ()


@dataclass(frozen=True, eq=False, slots=True)
class Not(_Condition):
    """The condition that another one does not hold."""

    condition: Term


@dataclass(frozen=True, eq=False, slots=True)
class IsNull(_Condition):
    """The condition that a value is NULL."""

    value: Term


@dataclass(frozen=True, eq=False, slots=True)
class Lookup(_Condition):
    """A condition on a code. results: whether it holds, for each code."""

    code: Term
    results: tuple[bool, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Member(_Condition):
    """The condition that a value is among some values, which are sorted."""

    value: Term
    members: tuple[int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Match(_Condition):
    """The condition that a text consists of pieces, with any text between them."""

    text: Term
    pieces: tuple[str, ...]


# fmt: off
Term: TypeAlias = (
    Column | Constant | Add | Subtract | Multiply | Quotient | Table | When | Coalesce | Passes | Text | Substring
    | TextCall | Equal | Less | And | Or | Not | IsNull | Lookup | Member | Match | Checked | ToDouble | FromDouble
    | DoubleArithmetic | DoubleFunction | Moment | ExactMoment
)
# fmt: on


@dataclass(frozen=True)
class Ratio:
    """An exact quotient of two numbers, which SQL calls a DOUBLE. A collection keeps it in two columns."""

    numerator: Term
    denominator: Term
    is_mean: bool = field(default=False, kw_only=True)
    """Whether it is an average of numbers over a window, whose double is that of one division."""

    def __str__(self) -> str:
        return f"{self.numerator} / {self.denominator}"


def column(name: str, type_: Type) -> Term:
    return Column(name, type_)


def number(value: int, scale: int = 0) -> Constant:
    return Constant(value, integer(value, value, scale))


def double(value: float) -> Constant:
    """Return a double as a constant."""
    stored = stored_double(value)
    return Constant(stored, replace(DOUBLE, low=stored, high=stored))


def to_double(of: Term) -> Term:
    """Return the double that stands for a number."""
    if of.type.kind == "double":
        return of
    if isinstance(of, Constant) and isinstance(of.value, int):
        return double(of.value / 10**of.type.scale)
    return ToDouble(of)


def null(type_: Type) -> Term:
    """Return the NULL of a type."""
    return Constant(NULL, type_.or_null())


FALSE, TRUE = (Constant(value, BOOL) for value in (False, True))


def conjunction(left: Term | None, right: Term) -> Term:
    """Return the condition that both hold; None stands for a condition that always does."""
    return right if left is None else And(left, right)


def all_of(terms: Sequence[Term]) -> Term:
    """Return the condition that all of at least one hold."""
    return balanced(terms, And)


def disjunction(terms: Sequence[Term]) -> Term:
    """Return the condition that at least one holds; without terms it never does."""
    return balanced(terms, Or) if terms else FALSE


Part = TypeVar("Part")


def balanced(parts: Sequence[Part], connect: Callable[[Part, Part], Part]) -> Part:
    """Connect parts by an associative operation: one after another, or, if they are many, as a tree of halves."""
    if len(parts) <= LONGEST_CHAIN:
        return reduce(connect, parts)
    middle = len(parts) // 2
    return connect(balanced(parts[:middle], connect), balanced(parts[middle:], connect))


def conjuncts(condition: Term) -> list[Term]:
    """Split a condition into the terms that must all hold."""
    return parts_of(condition, And)


def parts_of(term: Term, kind: type[And | Or]) -> list[Term]:
    """Split a term into the parts that an operation connects, from left to right. A shared connection is split once."""
    found: list[Term] = []
    remaining, split = [term], set()
    while remaining:
        part = remaining.pop()
        if not isinstance(part, kind):
            found.append(part)
        elif part not in split:
            split.add(part)
            remaining += part.right, part.left
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
    return Passes(tuple(conditions), integer(0, 2 ** len(conditions) - 1))


def substituted(of: Term, by: Mapping[str, Term]) -> Term:
    """Replace the columns of a term by terms of the same types."""
    return _changed(of, lambda part: by[part.name] if isinstance(part, Column) else None, {})


def replaced(of: Term, by: Mapping[Term, Term]) -> Term:
    """Replace parts of a term by terms of the same types."""
    return _changed(of, by.get, {})


def _changed(of: Term, change: Callable[[Term], Term | None], done: dict[Term, Term]) -> Term:
    """Replace the parts of a term for which there is another one. done: the results for parts, each made once."""
    if of not in done:
        done[of] = change(of) or of.with_args(tuple(_changed(arg, change, done) for arg in of.args))
    return done[of]


def total(left: Term, right: Term) -> Add:
    """Add two numbers with the same decimal places."""
    a, b = left.type, right.type
    return Add(left, right, integer(a.low + b.low, a.high + b.high, a.scale))


def difference(left: Term, right: Term) -> Subtract:
    """Subtract two numbers with the same decimal places."""
    a, b = left.type, right.type
    return Subtract(left, right, integer(a.low - b.high, a.high - b.low, a.scale))


def negative(term: Term) -> Subtract:
    """Negate a number."""
    return difference(number(0, term.type.scale), term)


def product(left: Term, right: Term) -> Multiply:
    corners = [a * b for a in (left.type.low, left.type.high) for b in (right.type.low, right.type.high)]
    return Multiply(left, right, integer(min(corners), max(corners), left.type.scale + right.type.scale))


def quotient(left: Term, right: Term, scale: int) -> Quotient:
    """Divide the stored value of a number by that of a positive one, and round down. scale: that of the result."""
    corners = [a // b for a in (left.type.low, left.type.high) for b in (right.type.low, right.type.high)]
    return Quotient(left, right, integer(min(corners), max(corners), scale))


def coalesced(value: Term, other: Term) -> Coalesce:
    """Replace NULL by another value of the same type, which is not NULL."""
    return Coalesce(value, other, replace(spanning(value.type, other.type), nullable=False))


def shifted(of: Term, by: int) -> Term:
    """Add `by` units of the last decimal place."""
    return total(of, number(by, of.type.scale)) if by else of


def rescaled(of: Term, scale: int) -> Term:
    """Write a number with more decimal places."""
    factor = 10 ** (scale - of.type.scale)
    if factor == 1:
        return of
    if isinstance(of, Constant) and isinstance(of.value, int):
        return number(of.value * factor, scale)
    scaled = product(of, number(factor))
    return Multiply(scaled.left, scaled.right, replace(scaled.type, scale=scale))


def aligned(left: Term, right: Term) -> tuple[Term, Term]:
    """Write two numbers with the same decimal places."""
    scale = max(left.type.scale, right.type.scale)
    return rescaled(left, scale), rescaled(right, scale)
