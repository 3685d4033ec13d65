"""The algebra of SQL plans: typed expressions, and operations on rows whose columns are numbered.

DuckDB's planner binds a text and returns these operations; `lowering` turns them into collections.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from deltamark.dataflow.plan.memo import kept, kept_by_argument

if TYPE_CHECKING:
    from deltamark.dataflow.sql.problems import SqlError
    from deltamark.dataflow.sql.written import Place

JoinKind = Literal["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "MARK", "SINGLE"]

ColumnKey = int | tuple[int, int]
"""The number of a column; in a tree of joins the number of a leaf, and that of its column."""


class SqlType(NamedTuple):
    """A type by its name in DuckDB, and the decimal places of a DECIMAL."""

    name: str
    scale: int = 0


class Interval(NamedTuple):
    """The value of a constant interval."""

    months: int
    days: int
    micros: int


@dataclass(frozen=True)
class Expression:
    """An operation on expressions.

    op: `column`, `constant`, `case`, `cast`, `in`, `and`, `or`, `not`, `is null`, `coalesce`, a comparison, the name
    of a function, or `refused`; value: the number of a column, a constant, or the error of a refused expression; place:
    where it stands in the text, if that may be known.
    """

    op: str
    type: SqlType
    args: tuple[Expression, ...] = ()
    value: object = None
    place: Place | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The function or operator as the text has it."""
        return self.place.exact.name if self.place and self.place.exact else self.op

    @property
    def operation(self) -> str:
        """The name, and what it is the name of."""
        return self.place.exact.operation if self.place and self.place.exact else f"the function {self.op}"

    def columns(self) -> tuple[ColumnKey, ...]:
        """Return the columns that are read, each once."""
        return self._columns

    @cached_property
    def _columns(self) -> tuple[ColumnKey, ...]:
        if self.op == "column":
            return (self.value,)  # type: ignore[return-value]  # the number of a column
        return tuple(dict.fromkeys(key for each in self.args for key in each.columns()))

    @cached_property
    def elements(self) -> int:
        """The leaves of a tree of joins that are read: bit i stands for leaf i."""
        return reduce(int.__or__, (1 << key[0] for key in self._columns), 0)  # type: ignore[index]  # a pair

    def with_columns(self, change: Callable[[ColumnKey], Expression]) -> Expression:
        """Replace the columns. Parts that are one object stay one."""
        return self._with_columns(change, {})

    def _with_columns(self, change: Callable[[ColumnKey], Expression], done: dict[int, Expression]) -> Expression:
        if id(self) not in done:
            if self.op == "column":
                changed = change(self.value)  # type: ignore[arg-type]  # the number of a column
            else:
                args = tuple(each._with_columns(change, done) for each in self.args)  # noqa: SLF001
                changed = replace(self, args=args) if args else self
            done[id(self)] = changed
        return done[id(self)]


UNKNOWN = SqlType("ANY")
"""The type of a column, which its values know."""


def column(key: ColumnKey) -> Expression:
    return Expression("column", UNKNOWN, value=key)


def columns(count: int, first: int = 0) -> tuple[Expression, ...]:
    """Return columns with successive numbers."""
    return tuple(column(first + each) for each in range(count))


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate: its function, the argument, and the condition on rows that it reads."""

    function: str
    args: tuple[Expression, ...]
    type: SqlType
    distinct: bool = False
    condition: Expression | None = None
    place: Place | None = field(default=None, compare=False)
    construct: Callable[[], tuple[str, Place | None]] | None = field(default=None, compare=False)
    """Returns the construct of the text from which DuckDB made the call, in words, and where it stands."""

    @property
    def name(self) -> str:
        """The function as the text has it."""
        return self.place.exact.name if self.place and self.place.exact else self.function


@dataclass(frozen=True, eq=False)
class Scan:
    """The rows of a relation."""

    relation: str
    columns: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Filter:
    """The rows that satisfy all conditions."""

    rows: Relational
    conditions: tuple[Expression, ...]


@dataclass(frozen=True, eq=False)
class Project:
    """Expressions over each row."""

    rows: Relational
    expressions: tuple[Expression, ...]


@dataclass(frozen=True, eq=False)
class Join:
    """Pairs of rows that satisfy all conditions, whose columns are those of the left side, then of the right one.

    SEMI and ANTI have the columns of the left side; MARK adds whether the left row has a partner. SINGLE is LEFT with
    at most one partner. knows_null: whether ANTI keeps no row for which the comparison may be NULL (NOT IN).
    """

    kind: JoinKind
    left: Relational
    right: Relational
    conditions: tuple[Expression, ...]
    knows_null: bool = False
    place: Place | None = None


@dataclass(frozen=True, eq=False)
class Aggregate:
    """Aggregates of groups. Without groups there is one row, even if there are no rows."""

    rows: Relational
    groups: tuple[Expression, ...]
    calls: tuple[AggregateCall, ...]


@dataclass(frozen=True, eq=False)
class Extreme:
    """The rows of each group in which a column is largest or smallest. NULL is neither."""

    rows: Relational
    keys: tuple[int, ...]
    column: int
    which: Literal["smallest", "largest"]


@dataclass(frozen=True, eq=False)
class Distinct:
    """Each row once."""

    rows: Relational


@dataclass(frozen=True, eq=False)
class SetOperation:
    """UNION ALL, or EXCEPT or INTERSECT of distinct rows."""

    kind: Literal["UNION", "EXCEPT", "INTERSECT"]
    parts: tuple[Relational, ...]


class Order(NamedTuple):
    """A key of ORDER BY."""

    expression: Expression
    descending: bool
    nulls_first: bool


ALL_ROWS = 2**64 - 1
"""The count of a limit without one."""


@dataclass(frozen=True, eq=False)
class Limit:
    """The rows from `offset` on, at most `count`, in an order."""

    rows: Relational
    orders: tuple[Order, ...]
    count: int
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Constants:
    """Rows of constant expressions. types: those of the columns."""

    types: tuple[SqlType, ...]
    rows: tuple[tuple[Expression, ...], ...]


@dataclass(frozen=True, eq=False)
class Shared:
    """Rows that several operations read: a common table expression."""

    rows: Relational


@dataclass(frozen=True, eq=False)
class Refused:
    """An operation that is not supported: columns of rows, and then others of which nothing is known."""

    rows: Relational
    added: int
    error: SqlError


Relational: TypeAlias = (
    Scan | Filter | Project | Join | Aggregate | Extreme | Distinct | SetOperation | Limit | Constants | Shared
    | Refused
)  # fmt: skip


@kept
def width(rel: Relational) -> int:
    """Return the number of columns."""
    match rel:
        case Scan():
            return len(rel.columns)
        case Filter() | Extreme() | Distinct() | Limit() | Shared():
            return width(rel.rows)
        case Project():
            return len(rel.expressions)
        case Join(kind="SEMI" | "ANTI"):
            return width(rel.left)
        case Join(kind="MARK"):
            return width(rel.left) + 1
        case Join():
            return width(rel.left) + width(rel.right)
        case Aggregate():
            return len(rel.groups) + len(rel.calls)
        case SetOperation():
            return width(rel.parts[0])
        case Constants():
            return len(rel.types)
        case Refused():
            return width(rel.rows) + rel.added


@kept_by_argument
def is_unique(rel: Relational, columns: frozenset[int]) -> bool:
    """Return whether each combination of values of some columns has at most one row."""
    match rel:
        case Filter() | Extreme() | Shared():
            return is_unique(rel.rows, columns)
        case Project():
            below = {each.value for at, each in enumerate(rel.expressions) if at in columns and each.op == "column"}
            return is_unique(rel.rows, frozenset(below))  # type: ignore[arg-type]  # numbers of columns
        case Aggregate():
            return set(range(len(rel.groups))) <= columns
        case Distinct():
            return set(range(width(rel))) <= columns or is_unique(rel.rows, columns)
        case Limit():
            return rel.count == 1 or is_unique(rel.rows, columns)
        case Constants():
            return len(rel.rows) <= 1
        case Refused():
            return True  # its own error is enough
        case Join(kind="SEMI" | "ANTI" | "MARK"):
            return is_unique(rel.left, columns)
        case Join(kind="INNER" | "LEFT" | "SINGLE"):
            wide = width(rel.left)
            keys = set()
            for each in rel.conditions:
                if each.op in ("=", "not distinct") and all(arg.op == "column" for arg in each.args):
                    keys |= {arg.value - wide for arg in each.args if arg.value >= wide}  # type: ignore[operator]
            one = rel.kind == "SINGLE" or is_unique(rel.right, frozenset(keys))
            return one and is_unique(rel.left, frozenset(each for each in columns if each < wide))
    return False
