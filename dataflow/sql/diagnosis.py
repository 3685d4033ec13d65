"""The problems of a text: each refused construct once, and none that only follows from another.

An operation that cannot be made is examined part by part. Rows of one live row stand in for its result, so that the
operations above can be examined, too. A column that has a problem is a refused value in them: whatever uses it raises a
FollowUpError, which is no problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from deltamark.dataflow.scalars import values
from deltamark.dataflow.scalars.evaluator import evaluate
from deltamark.dataflow.scalars.expressions import Column, Comparison, Expression, Unknown
from deltamark.dataflow.scalars.problems import ExpressionError, FollowUpError
from deltamark.dataflow.scalars.values import Cell, Refused
from deltamark.dataflow.sql.groups import AggregateCall, aggregated
from deltamark.dataflow.sql.joins import unified_column
from deltamark.dataflow.sql.problems import SqlError, in_sql
from deltamark.dataflow.sql.rows import Rows, standing_in
from deltamark.dataflow.sql.windows import WindowCall, windowed
from deltamark.dataflow.sql.written import Place
from deltamark.dataflow.types import TOO_WIDE
from deltamark.errors import DeltamarkError

Result = TypeVar("Result")

Origin = Callable[[], Place | None]
"""Returns the place of the expression from which a column comes. Places are looked up for errors only."""


def nowhere() -> None:
    """Return the place of a column that no expression makes."""


@dataclass(frozen=True)
class Columns:
    """The columns that expressions read: their values, and their origins."""

    cells: Sequence[Cell]
    origins: Sequence[Origin]
    examined: dict[int, tuple[Expression[int], Cell]] = field(default_factory=dict)
    """The expressions that have been examined, with their values, by their identity."""
    _places: dict[int, tuple[Expression[int], Place | None]] = field(default_factory=dict)

    def place(self, of: Expression[int]) -> Place | None:
        """Return the place of an expression, or else that of the first part of it or column that has one."""
        if id(of) not in self._places:
            parts = (self.origins[of.key](),) if isinstance(of, Column) else map(self.place, of.parts)
            known = of.place if isinstance(of.place, Place) and of.place.fragments else None
            self._places[id(of)] = of, known or next(filter(None, parts), None)
        return self._places[id(of)][1]

    def origin(self, of: Expression[int]) -> Origin:
        return partial(self.place, of)


class Diagnosis:
    """Finds the problems of operations that cannot be made."""

    def __init__(self) -> None:
        self.problems: list[SqlError] = []

    def made(self, make: Callable[[], Rows], examine: Callable[[], Sequence[Cell]]) -> Rows:
        """Make the rows of an operation. If they cannot be made, examine it, and return rows that stand in for them.

        examine: adds the problems of the operation's parts, and returns the values of its columns.
        """
        known, own = len(self.problems), None
        try:
            return make()
        except FollowUpError:
            pass
        except DeltamarkError as error:
            own = error
        cells = examine()
        if own is not None and len(self.problems) == known:
            self.add(own)
        return standing_in(cells)

    def add(self, error: DeltamarkError, place: Place | None = None) -> None:
        self.problems.append(in_sql(error, place))

    def tried(self, make: Callable[[], Result], place: Place | None = None) -> Result | Refused:
        """Make something. An error is a problem."""
        try:
            return make()
        except FollowUpError:
            pass
        except DeltamarkError as error:
            self.add(error, place)
        return Refused()

    def unified(self, parts: Sequence[Sequence[Cell]], origins: Sequence[Origin]) -> Sequence[Cell]:
        """Examine the columns of a union of rows."""
        found = [
            self.tried(partial(unified_column, same), origin())
            for same, origin in zip(zip(*parts, strict=True), origins, strict=True)
        ]
        return [each if isinstance(each, Refused) else each[0] for each in found]

    def conditions(self, conditions: Iterable[Expression[int]], columns: Columns) -> None:
        for each in conditions:
            self.tried(partial(values.truth_of, self.expression(each, columns)), columns.place(each))

    def aggregate(self, call: AggregateCall, rows: Rows, keys: Sequence[Expression[int]], columns: Columns) -> Cell:
        known = len(self.problems)
        ordered = [each.expression for each in call.order]
        for each in (*call.args, *ordered, *([call.condition] if call.condition else [])):
            self.expression(each, columns)
        try:
            return aggregated(rows, keys, [call]).cells[-1]
        except FollowUpError:
            pass
        except ExpressionError as error:
            if error.expression is None or len(self.problems) == known:
                self.add(error, columns.place(Unknown(call.function, call.args, call.place)))
        except DeltamarkError as error:
            self.add(error, call.place)
        return Refused()

    def window(self, call: WindowCall, rows: Rows, columns: Columns) -> Cell:
        """Examine a call over a window, and return its value."""
        known = len(self.problems)
        for each in call.expressions:
            self.expression(each, columns)
        if known < len(self.problems):
            return Refused()
        return self.tried(lambda: windowed(rows, [call]).cells[-1], call.place)

    def expression(self, of: Expression[int], columns: Columns) -> Cell:
        """Examine an expression once, and return its value."""
        if id(of) not in columns.examined:
            columns.examined[id(of)] = of, self._examined(of, columns)
        return columns.examined[id(of)][1]

    def _examined(self, of: Expression[int], columns: Columns) -> Cell:
        """Examine an expression. If it has a problem, its parts are examined, too."""
        known, own = len(self.problems), None
        try:
            return evaluate(of, columns.cells.__getitem__)
        except FollowUpError:
            pass
        except ExpressionError as error:
            own = error
        for each in of.parts:
            self.expression(each, columns)
        if isinstance(of, Comparison):
            self._keep_certain(known)
        is_written = of.place is not None and of.place.exact is not None
        if own is not None and (len(self.problems) == known or (own.expression is of and is_written)):
            self.add(own, columns.place(of))
        return Refused()

    def _keep_certain(self, known: int) -> None:
        """Leave out bounds of one side of a comparison if the other has another problem: it might divide both."""
        new = self.problems[known:]
        certain = [each for each in new if TOO_WIDE not in str(each.actual)]
        self.problems[known:] = certain or new
