"""Expressions over the columns of rows: those of SQL, and those written by hand.

`Expression[K]` is the union of the classes of nodes, so that type checkers find a `match` that lacks one of them. K is
the key of a column: its name in expressions by hand, and its number in plans of SQL.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, assert_never

from deltamark.dataflow.types import EPOCH

if TYPE_CHECKING:
    from deltamark.dataflow.scalars.values import Cell
    from deltamark.errors import DeltamarkError

K = TypeVar("K", bound=Hashable)
L = TypeVar("L", bound=Hashable)


class Words(Protocol):
    """The words of an expression in a text."""

    @property
    def name(self) -> str:
        """The function or operator as the text has it."""

    @property
    def operation(self) -> str:
        """The name, and the kind of construct that it names."""


class Place(Protocol):
    """Where an expression stands in a text."""

    @property
    def exact(self) -> Words | None:
        """The words that the expression is, if they are known."""


class SqlType(NamedTuple):
    """A type by its name in SQL, and the decimal places and, if they are known, all digits of a DECIMAL."""

    name: str
    scale: int = 0
    width: int = 0


UNKNOWN = SqlType("ANY")


class Interval(NamedTuple):
    """A constant interval."""

    months: int
    days: int
    micros: int = 0


class Comparator(Enum):
    """A comparison, by its symbol. NULL is equal to NULL in those of DISTINCT."""

    EQUAL = "=="
    UNEQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="
    DISTINCT = "is distinct from"
    NOT_DISTINCT = "is not distinct from"


@dataclass(frozen=True)
class Function:
    """A function. compute: makes its value from the call, and the values of the arguments."""

    name: str
    compute: Callable[..., Cell]


class Node(Generic[K]):
    """The base of all expressions."""

    place: Place | None

    @cached_property
    def parts(self) -> tuple[Expression[K], ...]:
        """The expressions that it is computed from."""
        return _parts(self)  # type: ignore[arg-type]  # every class of nodes is in the union

    def columns(self) -> tuple[K, ...]:
        """Return the columns that are read, each once."""
        return self._columns

    @cached_property
    def _columns(self) -> tuple[K, ...]:
        if isinstance(self, Column):
            return (self.key,)
        return tuple(dict.fromkeys(key for each in self.parts for key in each.columns()))

    def with_columns(self, change: Callable[[K], Expression[L]]) -> Expression[L]:
        """Replace the columns. Parts that are one object stay one."""
        return _Change(change).of(self)  # type: ignore[arg-type]  # every class of nodes is in the union

    def __str__(self) -> str:
        return _written(self)  # type: ignore[arg-type]  # every class of nodes is in the union


@dataclass(frozen=True)
class Column(Node[K]):
    """A column."""

    key: K
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Constant(Node[K]):
    """A constant: an integer, also for a decimal and the days of a date, a float, a text, a condition, or None."""

    type: SqlType
    value: int | float | str | bool | Interval | None
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Call(Node[K]):
    """A function of values, which has a value for NULL too. type: that of a result of NULL."""

    function: Function
    args: tuple[Expression[K], ...]
    type: SqlType = UNKNOWN
    place: Place | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The function or operator as the text has it."""
        return self.place.exact.name if self.place and self.place.exact else self.function.name

    @property
    def operation(self) -> str:
        return self.place.exact.operation if self.place and self.place.exact else f"the function {self.name}"


@dataclass(frozen=True)
class Unknown(Node[K]):
    """A call of an unknown function."""

    function: str
    args: tuple[Expression[K], ...]
    place: Place | None = field(default=None, compare=False)

    @property
    def operation(self) -> str:
        return self.place.exact.operation if self.place and self.place.exact else f"the function {self.function}"


@dataclass(frozen=True)
class Refused(Node[K]):
    """An expression that cannot be read. args: those of its parts that can."""

    error: DeltamarkError
    args: tuple[Expression[K], ...] = ()
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Comparison(Node[K]):
    """A comparison of two values."""

    comparator: Comparator
    left: Expression[K]
    right: Expression[K]
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class And(Node[K]):
    """The condition that all of several conditions hold."""

    args: tuple[Expression[K], ...]
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Or(Node[K]):
    """The condition that at least one of several conditions holds."""

    args: tuple[Expression[K], ...]
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Not(Node[K]):
    """The negation of a condition, which is NULL where the condition is."""

    condition: Expression[K]
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class NotFalse(Node[K]):
    """Whether a condition is true or NULL."""

    condition: Expression[K]
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class IsNull(Node[K]):
    """Whether a value is NULL."""

    value: Expression[K]
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class In(Node[K]):
    """Whether a value is one of several: NULL if it is none of them, and one of them is NULL."""

    value: Expression[K]
    others: tuple[Expression[K], ...]
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Case(Node[K]):
    """The result of the first true condition, or another one. branches: the conditions with their results."""

    branches: tuple[tuple[Expression[K], Expression[K]], ...]
    otherwise: Expression[K]
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Coalesce(Node[K]):
    """The first value that is not NULL."""

    args: tuple[Expression[K], ...]
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Cast(Node[K]):
    """A value as one of another type. source: the type that it has, if it is known."""

    value: Expression[K]
    type: SqlType
    place: Place | None = field(default=None, compare=False)
    source: SqlType = UNKNOWN


@dataclass(frozen=True)
class Shifted(Node[K]):
    """A date with an interval added."""

    day: Expression[K]
    interval: Interval
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Row(Node[K]):
    """Several values, which can be compared with others."""

    args: tuple[Expression[K], ...]
    place: Place | None = field(default=None, compare=False)


# fmt: off
Expression: TypeAlias = (
    Column[K] | Constant[K] | Call[K] | Unknown[K] | Refused[K] | Comparison[K] | And[K] | Or[K] | Not[K] | NotFalse[K]
    | IsNull[K] | In[K] | Case[K] | Coalesce[K] | Cast[K] | Shifted[K] | Row[K]
)
# fmt: on


def is_not_null(value: Expression[K], place: Place | None = None) -> Expression[K]:
    return Not(IsNull(value, place), place)


def conjuncts(condition: Expression[K]) -> list[Expression[K]]:
    """Split a condition into those that must all hold."""
    if not isinstance(condition, And):
        return [condition]
    return [part for each in condition.args for part in conjuncts(each)]


def _parts(of: Expression[K]) -> tuple[Expression[K], ...]:
    match of:
        case Column() | Constant():
            return ()
        case Call() | Unknown() | Refused() | And() | Or() | Coalesce() | Row():
            return of.args
        case Comparison():
            return of.left, of.right
        case Not() | NotFalse():
            return (of.condition,)
        case IsNull() | Cast():
            return (of.value,)
        case In():
            return of.value, *of.others
        case Case():
            return *(each for branch in of.branches for each in branch), of.otherwise
        case Shifted():
            return (of.day,)
    assert_never(of)


class _Change(Generic[K, L]):
    """Replaces the columns of expressions, each once."""

    def __init__(self, change: Callable[[K], Expression[L]]) -> None:
        self._change = change
        self._done: dict[int, tuple[Expression[K], Expression[L]]] = {}
        """The changed expressions by the identity of the others, which are kept: no other one has their identity."""

    def of(self, each: Expression[K]) -> Expression[L]:
        if id(each) not in self._done:
            self._done[id(each)] = each, self._changed(each)
        return self._done[id(each)][1]

    def _all(self, each: tuple[Expression[K], ...]) -> tuple[Expression[L], ...]:
        return tuple(map(self.of, each))

    def _changed(self, of: Expression[K]) -> Expression[L]:
        match of:
            case Column():
                return self._change(of.key)
            case Constant():
                return Constant(of.type, of.value, of.place)
            case Call():
                return Call(of.function, self._all(of.args), of.type, of.place)
            case Unknown():
                return Unknown(of.function, self._all(of.args), of.place)
            case Refused():
                return Refused(of.error, self._all(of.args), of.place)
            case Comparison():
                return Comparison(of.comparator, self.of(of.left), self.of(of.right), of.place)
            case And():
                return And(self._all(of.args), of.place)
            case Or():
                return Or(self._all(of.args), of.place)
            case Not():
                return Not(self.of(of.condition), of.place)
            case NotFalse():
                return NotFalse(self.of(of.condition), of.place)
            case IsNull():
                return IsNull(self.of(of.value), of.place)
            case In():
                return In(self.of(of.value), self._all(of.others), of.place)
            case Case():
                branches = tuple((self.of(test), self.of(result)) for test, result in of.branches)
                return Case(branches, self.of(of.otherwise), of.place)
            case Coalesce():
                return Coalesce(self._all(of.args), of.place)
            case Cast():
                return Cast(self.of(of.value), of.type, of.place, of.source)
            case Shifted():
                return Shifted(self.of(of.day), of.interval, of.place)
            case Row():
                return Row(self._all(of.args), of.place)
        assert_never(of)


INFIX = (Comparison, And, Or, Shifted)


def _written(of: Expression[K]) -> str:
    """Write an expression as it is written by hand."""
    match of:
        case Column():
            return str(of.key)
        case Constant():
            return _constant(of)
        case Call(Function(name), (value,)) if _is_symbol(name):
            return f"{name}{_operand(value)}"
        case Call(Function(name)) if _is_symbol(name):
            return f" {name} ".join(map(_operand, of.args))
        case Call(Function(name)) | Unknown(name):
            return f"{name}({_listed(of.args)})"
        case Refused():
            return "..."
        case Comparison():
            return f"{_operand(of.left)} {of.comparator.value} {_operand(of.right)}"
        case And() | Or():
            return (" & " if isinstance(of, And) else " | ").join(map(_operand, of.args))
        case Not():
            return f"~{_operand(of.condition)}"
        case NotFalse():
            return f"not_false({of.condition})"
        case IsNull():
            return f"is_null({of.value})"
        case In():
            return f"is_in({of.value}, [{_listed(of.others)}])"
        case Case():
            branches = ".".join(f"when({test}, {result})" for test, result in of.branches)
            return f"{branches}.otherwise({of.otherwise})"
        case Coalesce():
            return f"coalesce({_listed(of.args)})"
        case Cast():
            return f"cast({of.value}, {of.type.name})"
        case Shifted():
            return f"{_operand(of.day)} + {of.interval}"
        case Row():
            return f"({_listed(of.args)})"
    assert_never(of)


def _constant(of: Constant[K]) -> str:
    match of.type.name, of.value:
        case "DECIMAL", int():
            return f"{Decimal(of.value).scaleb(-of.type.scale):f}"
        case "DATE", int():
            return str(EPOCH + dt.timedelta(days=of.value))
        case _, str():
            return repr(of.value)
    return str(of.value)


def _is_symbol(name: str) -> bool:
    return not any(map(str.isalpha, name))


def _operand(of: Expression[K]) -> str:
    infix = isinstance(of, INFIX) or (isinstance(of, Call) and _is_symbol(of.function.name))
    return f"({of})" if infix else str(of)


def _listed(args: tuple[Expression[K], ...]) -> str:
    return ", ".join(map(str, args))
