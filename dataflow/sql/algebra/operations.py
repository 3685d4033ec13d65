"""The algebra of SQL plans: operations on rows whose columns are numbered.

DuckDB's planner binds a text and returns these operations; `lowering` turns them into collections.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar

from deltamark.dataflow.plan.memo import kept, kept_by_argument
from deltamark.dataflow.scalars.expressions import Column, Comparator, Comparison, Expression, SqlType

if TYPE_CHECKING:
    from deltamark.dataflow.sql.problems import SqlError
    from deltamark.dataflow.sql.written import Place

JoinKind = Literal["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "MARK", "SINGLE"]

ElementColumn = tuple[int, int]
"""In a tree of joins, the number of an element, and that of its column."""

K = TypeVar("K", bound=Hashable)


def columns(count: int, first: int = 0) -> tuple[Column[int], ...]:
    """Return columns with successive numbers."""
    return tuple(Column(first + each) for each in range(count))


EQUALITIES = (Comparator.EQUAL, Comparator.NOT_DISTINCT)


def equated(condition: Expression[K]) -> tuple[K, K] | None:
    """Return the columns that a condition makes equal; None if it is no such condition."""
    match condition:
        case Comparison(comparator, Column(one), Column(other)) if comparator in EQUALITIES:
            return one, other
    return None


def copies(expressions: Sequence[Expression[int]]) -> dict[int, int]:
    """Return, for the expressions that are columns, which."""
    return {at: each.key for at, each in enumerate(expressions) if isinstance(each, Column)}


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate: its function, the argument, and the condition on rows that it reads."""

    function: str
    args: tuple[Expression[int], ...]
    type: SqlType
    distinct: bool = False
    condition: Expression[int] | None = None
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
    conditions: tuple[Expression[int], ...]


@dataclass(frozen=True, eq=False)
class Project:
    """Expressions over each row."""

    rows: Relational
    expressions: tuple[Expression[int], ...]


@dataclass(frozen=True, eq=False)
class Join:
    """Pairs of rows that satisfy all conditions, whose columns are those of the left side, then of the right one.

    SEMI and ANTI have the columns of the left side; MARK adds whether the left row has a partner. SINGLE is LEFT with
    at most one partner. knows_null: whether ANTI keeps no row for which the comparison may be NULL (NOT IN).
    """

    kind: JoinKind
    left: Relational
    right: Relational
    conditions: tuple[Expression[int], ...]
    knows_null: bool = False
    place: Place | None = None


@dataclass(frozen=True, eq=False)
class Aggregate:
    """Aggregates of groups. Without groups there is one row, even if there are no rows."""

    rows: Relational
    groups: tuple[Expression[int], ...]
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

    expression: Expression[int]
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
    rows: tuple[tuple[Expression[int], ...], ...]


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
            below = (column for at, column in copies(rel.expressions).items() if at in columns)
            return is_unique(rel.rows, frozenset(below))
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
            pairs = (equated(each) or () for each in rel.conditions)
            keys = frozenset(column - wide for pair in pairs for column in pair if column >= wide)
            one = rel.kind == "SINGLE" or is_unique(rel.right, keys)
            return one and is_unique(rel.left, frozenset(each for each in columns if each < wide))
    return False
