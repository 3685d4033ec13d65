"""The problems of a plan: each refused construct once, and none that only follows from another.

An operation that cannot be made is examined part by part. Rows of one live row stand in for its result, so that the
operations above can be examined, too. A column that has a problem is a refused value in them: whatever uses it raises a
FollowUpError, which is no problem.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from deltamark.dataflow.plan.memo import kept_by_argument
from deltamark.dataflow.scalars import expressions as tree
from deltamark.dataflow.scalars import values
from deltamark.dataflow.scalars.evaluator import evaluate
from deltamark.dataflow.scalars.expressions import Column, Comparison, Expression
from deltamark.dataflow.scalars.problems import ExpressionError, FollowUpError
from deltamark.dataflow.scalars.values import TRUE, Cell, Refused, Truth
from deltamark.dataflow.sql.algebra import operations as algebra
from deltamark.dataflow.sql.algebra.join_tree import taken_apart
from deltamark.dataflow.sql.algebra.operations import AggregateCall, ElementColumn, Relational
from deltamark.dataflow.sql.problems import SqlError, in_sql
from deltamark.dataflow.sql.rows.groups import aggregated
from deltamark.dataflow.sql.rows.joins import cell_of_pair
from deltamark.dataflow.sql.rows.outer import refuse_several_partners
from deltamark.dataflow.sql.rows.rows import Rows, standing_in, stored_term
from deltamark.dataflow.sql.rows.unions import unified_column
from deltamark.dataflow.sql.written import Place
from deltamark.dataflow.types import TOO_WIDE
from deltamark.errors import DeltamarkError

Result = TypeVar("Result")
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class _Columns(Generic[K]):
    """The columns that expressions read: their values, and the places of the expressions from which they come."""

    cell: Callable[[K], Cell]
    origin: Callable[[K], Place | None]
    examined: dict[int, Cell] = field(default_factory=dict)
    """The values of the expressions that have been examined, by their identity."""
    _places: dict[int, Place | None] = field(default_factory=dict)

    def place(self, of: Expression[K]) -> Place | None:
        """Return the place of an expression, or else that of the first part of it or column that has one."""
        if id(of) not in self._places:
            parts = (self.origin(of.key),) if isinstance(of, Column) else map(self.place, of.parts)
            known = of.place if isinstance(of.place, Place) and of.place.fragments else None
            self._places[id(of)] = known or next(filter(None, parts), None)
        return self._places[id(of)]


class Diagnosis:
    """Finds the problems of operations that cannot be made. rows_of: returns the rows of the operations below."""

    def __init__(self, rows_of: Callable[[Relational], Rows]) -> None:
        self._rows_of = rows_of
        self.problems: list[SqlError] = []

    def stand_in(self, rel: Relational, error: DeltamarkError | None) -> Rows:
        """Examine an operation, and return rows that stand in for its result. error: None if it only follows."""
        known = len(self.problems)
        cells = self._cells(rel)
        if error is not None and len(self.problems) == known:
            self._add(error)
        return standing_in(cells)

    def _add(self, error: DeltamarkError, place: Place | None = None) -> None:
        self.problems.append(in_sql(error, place))

    def _tried(self, make: Callable[[], Result], place: Place | None = None) -> Result | Refused:
        """Make something. An error is a problem."""
        try:
            return make()
        except FollowUpError:
            pass
        except DeltamarkError as error:
            self._add(error, place)
        return Refused()

    def _cells(self, rel: Relational) -> Sequence[Cell]:
        """Examine the parts of an operation; return the values of its columns."""
        match rel:
            case algebra.Filter() | algebra.Project() | algebra.Join(kind="INNER" | "SEMI" | "ANTI"):
                return self._of_tree(rel)
            case algebra.Join():
                return self._of_join(rel)
            case algebra.Aggregate():
                groups = [self._key(each, rel.rows, "in GROUP BY") for each in rel.groups]
                keys = [each for each, cell in zip(rel.groups, groups, strict=True) if not isinstance(cell, Refused)]
                return [*groups, *(self._aggregate(each, rel.rows, keys) for each in rel.calls)]
            case algebra.Distinct():
                for at in range(algebra.width(rel)):
                    self._key(Column(at), rel.rows, "in distinct rows")
                return self._rows_of(rel.rows).cells
            case algebra.SetOperation():
                parts: list[Sequence[Cell]]
                if rel.kind == "UNION":
                    parts = [self._rows_of(each).cells for each in rel.parts]
                else:
                    parts = [self._cells(algebra.Distinct(each)) for each in rel.parts]
                return self._unified(parts, partial(_origin, rel))
            case algebra.Constants():
                none = _Columns[int](_no_column, lambda _: None)
                rows = [[self._expression(each, none) for each in row] for row in rel.rows]
                return self._unified(rows, lambda _: None)
            case algebra.Limit():
                for order in rel.orders:
                    self._key(order.expression, rel.rows, "in ORDER BY")
                return self._rows_of(rel.rows).cells
            case algebra.Refused():
                self._add(rel.error)
                return [*self._rows_of(rel.rows).cells, *(Refused() for _ in range(rel.added))]
            case algebra.Extreme() | algebra.Shared():
                return self._rows_of(rel.rows).cells
            case algebra.Scan():
                return [Refused() for _ in rel.columns]

    def _unified(self, parts: Sequence[Sequence[Cell]], place: Callable[[int], Place | None]) -> Sequence[Cell]:
        """Examine the columns of a union of rows. place: returns that of a column."""
        columns = enumerate(zip(*parts, strict=True))
        found = [self._tried(partial(unified_column, same), place(at)) for at, same in columns]
        return [each if isinstance(each, Refused) else each[0] for each in found]

    def _of_tree(self, rel: Relational) -> Sequence[Cell]:
        """Examine joins, filters and projections at the top of a plan."""
        tree = taken_apart(rel)

        def cell(key: ElementColumn) -> Cell:
            number, at = key
            return self._rows_of(tree.elements[number].rel).cells[at]

        def origin(key: ElementColumn) -> Place | None:
            number, at = key
            return _origin(tree.elements[number].rel, at)

        columns = _Columns(cell, origin)
        for each in tree.elements:
            self._conditions(each.existence.conditions if each.existence else (), columns)
        self._conditions(tree.conditions, columns)
        return [self._expression(each, columns) for each in tree.columns]

    def _of_join(self, rel: algebra.Join) -> Sequence[Cell]:
        left, right = self._rows_of(rel.left), self._rows_of(rel.right)
        pair = _Columns(lambda key: cell_of_pair(left, right, key), partial(_origin_in_pair, rel))
        self._conditions(rel.conditions, pair)
        if rel.kind == "MARK":
            return [*left.cells, Truth.of(TRUE)]
        self._tried(lambda: refuse_several_partners(rel, right))
        return [*left.cells, *right.cells]

    def _conditions(self, conditions: Iterable[Expression[K]], columns: _Columns[K]) -> None:
        for each in conditions:
            self._tried(partial(values.truth_of, self._expression(each, columns)), columns.place(each))

    def _key(self, of: Expression[int], rel: Relational, use: str) -> Cell:
        """Examine an expression that is stored in one column, and return its value."""
        columns = self._columns(rel)
        cell = self._expression(of, columns)
        stored = self._tried(partial(stored_term, cell, use), columns.place(of))
        return Refused() if isinstance(stored, Refused) else cell

    def _columns(self, rel: Relational) -> _Columns[int]:
        return _Columns(self._rows_of(rel).cells.__getitem__, partial(_origin, rel))

    def _aggregate(self, call: AggregateCall, rel: Relational, keys: Sequence[Expression[int]]) -> Cell:
        known, columns = len(self.problems), self._columns(rel)
        for each in (*call.args, *([call.condition] if call.condition else [])):
            self._expression(each, columns)
        try:
            return aggregated(self._rows_of(rel), keys, [call]).cells[-1]
        except FollowUpError:
            pass
        except ExpressionError as error:
            if error.expression is None or len(self.problems) == known:
                self._add(error, columns.place(tree.Unknown(call.function, call.args, call.place)))
        except DeltamarkError as error:
            self._add(error, call.place)
        return Refused()

    def _expression(self, of: Expression[K], columns: _Columns[K]) -> Cell:
        """Examine an expression once, and return its value."""
        if id(of) not in columns.examined:
            columns.examined[id(of)] = self._examined(of, columns)
        return columns.examined[id(of)]

    def _examined(self, of: Expression[K], columns: _Columns[K]) -> Cell:
        """Examine an expression. If it has a problem, its parts are examined, too."""
        known = len(self.problems)
        try:
            return evaluate(of, columns.cell)
        except FollowUpError:
            own = None
        except ExpressionError as error:
            own = error
        for each in of.parts:
            self._expression(each, columns)
        if isinstance(of, Comparison):
            self._keep_certain(known)
        is_written = of.place is not None and of.place.exact is not None
        if own is not None and (len(self.problems) == known or (own.expression is of and is_written)):
            self._add(own, columns.place(of))
        return Refused()

    def _keep_certain(self, known: int) -> None:
        """Leave out bounds of one side of a comparison if the other has another problem: it might divide both."""
        new = self.problems[known:]
        certain = [each for each in new if TOO_WIDE not in str(each.actual)]
        self.problems[known:] = certain or new


@kept_by_argument
def _origin(rel: Relational, at: int) -> Place | None:
    """Return the place of the expression from which a column comes."""
    match rel:
        case algebra.Project():
            return _Columns(_no_column, partial(_origin, rel.rows)).place(rel.expressions[at])
        case algebra.Aggregate() if at < len(rel.groups):
            return _Columns(_no_column, partial(_origin, rel.rows)).place(rel.groups[at])
        case algebra.Aggregate():
            return rel.calls[at - len(rel.groups)].place
        case algebra.Join(kind="MARK") if at == algebra.width(rel.left):
            return None
        case algebra.Join():
            return _origin_in_pair(rel, at)
        case algebra.SetOperation():
            return _origin(rel.parts[0], at)
        case algebra.Scan() | algebra.Constants():
            return None
        case algebra.Refused() if at >= algebra.width(rel.rows):
            return None
    return _origin(rel.rows, at)


def _origin_in_pair(join: algebra.Join, at: int) -> Place | None:
    wide = algebra.width(join.left)
    return _origin(join.left, at) if at < wide else _origin(join.right, at - wide)


def _no_column(key: int) -> Cell:
    raise AssertionError(key)
