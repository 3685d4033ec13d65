"""Expressions of SQL over the values of columns, with the logic of three values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import reduce
from typing import cast

from deltamark.dataflow.plan.terms import Constant, Ratio, balanced
from deltamark.dataflow.sql.algebra.operations import ColumnKey, Expression, Interval
from deltamark.dataflow.sql.problems import UNSUPPORTED, SqlError, unsupported
from deltamark.dataflow.sql.scalars import dates, numbers, texts
from deltamark.dataflow.sql.scalars.arithmetic import known
from deltamark.dataflow.sql.scalars.choices import case_of, first_known
from deltamark.dataflow.sql.scalars.comparisons import COMPARISONS, compared, conjunction, disjunction, one_of
from deltamark.dataflow.sql.scalars.conditions import TRUE, either, negated
from deltamark.dataflow.sql.scalars.functions import FUNCTIONS
from deltamark.dataflow.sql.scalars.literals import NUMBERS, constant, constant_of_text
from deltamark.dataflow.sql.scalars.values import Cell, Truth, Value, as_number, truth_of, value_of
from deltamark.dataflow.types import TOO_WIDE
from deltamark.errors import DeltamarkError

SEVERAL_ROWS = "More than one row returned by a subquery"
"""The error of DuckDB's plans in a branch that is never taken: `first` is supported for one row only."""


def evaluate(expression: Expression, column: Callable[[ColumnKey], Cell]) -> Cell:
    """Compute an expression. column: returns the value of a column."""
    return _Evaluator(column).cell(expression)


def condition(expression: Expression, column: Callable[[ColumnKey], Cell]) -> Truth:
    """Compute a condition."""
    return truth_of(evaluate(expression, column))


class _Evaluator:
    def __init__(self, column: Callable[[ColumnKey], Cell]) -> None:
        self._column = column
        self._cells: dict[int, Cell] = {}
        """The values of expressions by their identity: an expression may be a part of several others."""

    def cell(self, of: Expression) -> Cell:
        """Compute an expression once, and add its place to errors."""
        if id(of) not in self._cells:
            self._cells[id(of)] = self._placed(of)
        return self._cells[id(of)]

    def _placed(self, of: Expression) -> Cell:
        try:
            return self._cell(of)
        except SqlError as error:
            if error.expression and (error.place or not of.place):
                raise
            expression, place = error.expression or of, error.place or of.place
            raise SqlError(error.cause, str(error.actual), error.remedy, place, expression) from error
        except DeltamarkError as error:
            actual = f"{error.cause}: {error.actual}"
            raise SqlError(UNSUPPORTED, actual, error.remedy, of.place, of) from error

    def _cell(self, of: Expression) -> Cell:
        match of.op:
            case "column":
                return self._column(of.value)  # type: ignore[arg-type]  # the number of a column
            case "constant":
                return constant(of.type, of.value)
            case "refused":
                raise cast("SqlError", of.value)
            case "and" | "or":
                return balanced(list(map(self._truth, of.args)), conjunction if of.op == "and" else disjunction)
            case "not":
                inner = self._truth(of.args[0])
                return Truth(inner.false, inner.true, inner.total)
            case "not false":
                return Truth.of(negated(self._truth(of.args[0]).false))
            case "is null" | "is not null":
                missing = self.cell(of.args[0]).nulls
                return Truth.of(missing if of.op == "is null" else negated(missing))
            case "in" | "not in":
                value, *others = map(self._value, of.args)
                found = one_of(value, others)
                return found if of.op == "in" else Truth(found.false, found.true, found.total)
            case "case":
                results = [self.cell(each) for each in (*of.args[1::2], of.args[-1])]
                return case_of([self._truth(each) for each in of.args[:-1:2]], results)
            case "coalesce" | "ifnull":
                return reduce(first_known, map(self.cell, of.args))
            case "error" if str(of.args[0].value).startswith(SEVERAL_ROWS):
                return constant(of.type, None)
            case "constant_or_null":
                first, *rest = map(self.cell, of.args)
                missing = reduce(either, (each.nulls for each in rest))
                return case_of([Truth.of(missing)], [constant(of.type, None), first])
            case "cast":
                return self._cast(of)
            case op if op in COMPARISONS:
                return self._compared(of)
            case "+" | "-" if any(each.type.name == "INTERVAL" for each in of.args):
                return self._later(of)
            case op if op in FUNCTIONS:
                return FUNCTIONS[op](of, *map(self._value, of.args))
        raise unsupported(of.operation)

    def _compared(self, of: Expression) -> Truth:
        """Compare two values. If a product with a constant is too wide, both sides are divided by the constant."""
        try:
            return compared(of.op, *map(self._value, of.args))
        except DeltamarkError as error:
            if not _is_too_wide(error):
                raise
            for divided in self._divided(of):
                with suppress(DeltamarkError):
                    return compared(of.op, *divided)
            raise

    def _divided(self, of: Expression) -> Iterator[tuple[Value, Value]]:
        """Yield both sides of a comparison divided by each positive constant factor of one of them."""
        for at, side in enumerate(of.args):
            for value, factor in (side.args, side.args[::-1]) if side.op == "*" else ():
                if factor.op == "constant" and (divided := self._quotient(of.args[1 - at], factor)) is not None:
                    yield (self._value(value), divided) if at == 0 else (divided, self._value(value))

    def _quotient(self, of: Expression, by: Expression) -> Value | None:
        """Divide a number by a constant; None unless both are known, and the constant is positive."""
        try:
            dividend, divisor = self._value(of), self._value(by)
        except DeltamarkError:  # the other side is too wide, too
            return None
        if isinstance(dividend.term, Ratio) or not isinstance(divisor.term, Constant):
            return None
        if isinstance(divisor.term.value, int) and divisor.term.value > 0:
            return Value(Ratio(dividend.term, divisor.term), dividend.null)
        return None

    def _later(self, of: Expression) -> Cell:
        """Add a constant interval to a date, or subtract it."""
        interval = next(each for each in of.args if each.type.name == "INTERVAL")
        day = self._value(next((each for each in of.args if each is not interval), interval))
        if interval.op != "constant" or len(of.args) != 2 or interval.value is None:
            raise unsupported("an interval that is no constant")
        if day.null is TRUE:
            return day
        span = cast("Interval", interval.value)
        if span.micros or isinstance(day.term, Ratio) or day.term.type.kind != "date":
            raise unsupported("an interval of less than a day, or arithmetic of intervals")
        by = 1 if of.op == "+" else -1
        return Value(dates.later(day.term, by * span.months, by * span.days), day.null)

    def _truth(self, of: Expression) -> Truth:
        return truth_of(self.cell(of))

    def _value(self, of: Expression) -> Value:
        return value_of(self.cell(of))

    def _cast(self, of: Expression) -> Cell:
        cell, name = self.cell(of.args[0]), of.type.name
        value = value_of(cell)
        if value.null is TRUE:
            return constant(of.type, None)
        if isinstance(value.term, Constant) and isinstance(value.term.value, str):
            return value if name == "VARCHAR" else constant_of_text(of.type, value.term.value)
        if name == "BOOLEAN":
            return truth_of(cell)
        if not isinstance(value.term, Ratio) and name in NUMBERS:
            value = Value(as_number(value.term), value.null)
        kind = "ratio" if isinstance(value.term, Ratio) else value.term.type.kind
        if kind == "ratio" and name in ("DOUBLE", "FLOAT"):
            return value
        if kind == "int" and name in NUMBERS:
            assert not isinstance(value.term, Ratio)
            if name in ("DOUBLE", "FLOAT"):
                return value
            return Value(numbers.rounded(value.term, of.type.scale), value.null)
        if kind == "ratio" and name in NUMBERS:
            return Value(numbers.rounded(known(value), of.type.scale), value.null)
        if (kind == "date" and name in ("DATE", "TIMESTAMP")) or (
            kind in ("text", "code", "short") and name == "VARCHAR"
        ):
            return value
        if kind == "bool" and name == "VARCHAR":
            assert not isinstance(value.term, Ratio)
            return Value(texts.of_condition(value.term), value.null)
        words = {"int": "a number", "ratio": "a quotient", "date": "a date", "bool": "a condition"}
        raise unsupported(f"a cast of {words.get(kind, 'a text')} to {name}")


def _is_too_wide(error: BaseException | None) -> bool:
    """Return whether an error, perhaps with a place in the text, is about bounds that are too wide."""
    return isinstance(error, DeltamarkError) and (error.cause == TOO_WIDE or _is_too_wide(error.__cause__))
