"""The values of expressions over the values of columns, with the logic of three values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from decimal import Decimal
from functools import reduce
from typing import Generic, TypeVar, assert_never

from deltamark.dataflow.plan.terms import TRUE, Checked, Constant, DoubleArithmetic, Ratio, Term, balanced, double
from deltamark.dataflow.scalars import expressions as tree
from deltamark.dataflow.scalars import times
from deltamark.dataflow.scalars.comparisons import (
    case_of,
    compared,
    conjunction,
    disjunction,
    exactly_compared,
    first_known,
    one_of,
)
from deltamark.dataflow.scalars.doubles import as_float, from_double, in_double, is_double, is_inexact
from deltamark.dataflow.scalars.expressions import Expression, SqlType
from deltamark.dataflow.scalars.functions import MULTIPLY, later
from deltamark.dataflow.scalars.numbers import known, rounded
from deltamark.dataflow.scalars.problems import ExpressionError, unsupported
from deltamark.dataflow.scalars.row_values import without_rows
from deltamark.dataflow.scalars.texts import date_text, number_text, of_condition
from deltamark.dataflow.scalars.values import (
    CONDITIONS,
    DOUBLES,
    NUMBERS,
    TIMESTAMP,
    TIMESTAMPTZ,
    Cell,
    Truth,
    Value,
    as_number,
    chosen,
    constant,
    exact,
    negated,
    number_truth,
    surely,
    truth_of,
    value_of,
)
from deltamark.dataflow.types import EPOCH, LARGEST, TIMESTAMPS, TOO_WIDE, microseconds
from deltamark.errors import DeltamarkError, shortened

K = TypeVar("K", bound=Hashable)

CAST_FROM = {
    "int": "a number", "ratio": "a quotient", "double": "a DOUBLE", "date": "a date", "bool": "a condition",
}  # fmt: skip
"""The kinds of values in words, for errors."""


def evaluate(expression: Expression[K], column: Callable[[K], Cell]) -> Cell:
    """Compute an expression. column: returns the value of a column."""
    return _Evaluator(column).cell(expression)


def condition(expression: Expression[K], column: Callable[[K], Cell]) -> Truth:
    """Compute a condition."""
    return _Evaluator(column).truth(expression)


class _Evaluator(Generic[K]):
    def __init__(self, column: Callable[[K], Cell]) -> None:
        self._column = column
        self._cells: dict[int, tuple[Expression[K], Cell]] = {}
        """The values of expressions by their identity: an expression may be a part of several others. The expressions
        are kept, too: another one could have the identity of one that is released, as those of row comparisons are.
        """

    def cell(self, of: Expression[K]) -> Cell:
        """Compute an expression once, and add its place to errors."""
        if id(of) not in self._cells:
            self._cells[id(of)] = of, self._placed(of)
        return self._cells[id(of)][1]

    def truth(self, of: Expression[K]) -> Truth:
        """Compute a condition once."""
        cell = self.cell(of)
        try:
            return truth_of(cell)
        except DeltamarkError as error:
            actual = f"{of} is {error.actual}"
            raise ExpressionError(error.cause, actual, error.remedy, of.place, of) from error

    def _placed(self, of: Expression[K]) -> Cell:
        try:
            return self._cell(of)
        except ExpressionError as error:
            if error.expression and (error.place or not of.place):
                raise
            expression, place = error.expression or of, error.place or of.place
            raise ExpressionError(error.cause, str(error.actual), error.remedy, place, expression) from error
        except DeltamarkError as error:
            raise ExpressionError(error.cause, str(error.actual), error.remedy, of.place, of) from error

    def _cell(self, of: Expression[K]) -> Cell:
        match of:
            case tree.Column():
                return self._column(of.key)
            case tree.Constant():
                return constant(of.type, of.value)
            case tree.Call():
                return of.function.compute(of, *map(self._value, of.args))
            case tree.Unknown():
                raise unsupported(of.operation)
            case tree.Refused():
                raise of.error
            case tree.Comparison() | tree.In() if (values := without_rows(of)) is not None:
                return self.truth(values)
            case tree.Comparison():
                return self._compared(of)
            case tree.And():
                return balanced(list(map(self.truth, of.args)), conjunction)
            case tree.Or():
                return balanced(list(map(self.truth, of.args)), disjunction)
            case tree.Not():
                inner = self.truth(of.condition)
                return Truth(inner.false, inner.true, inner.total)
            case tree.NotFalse():
                return Truth.of(negated(self.truth(of.condition).false))
            case tree.IsNull(tree.Row()):
                return Truth.of(None)
            case tree.IsNull():
                return Truth.of(self.cell(of.value).nulls)
            case tree.In():
                return one_of(self._value(of.value), list(map(self._value, of.others)))
            case tree.Case():
                results = [self.cell(each) for each in (*(result for _, result in of.branches), of.otherwise)]
                return case_of([self.truth(test) for test, _ in of.branches], results)
            case tree.Coalesce():
                return reduce(first_known, map(self.cell, of.args))
            case tree.Cast():
                return self._cast(of)
            case tree.Shifted():
                return self._shifted(of)
            case tree.Row():
                raise unsupported("a row as a value")
        assert_never(of)

    def _compared(self, of: tree.Comparison[K]) -> Truth:
        """Compare two values. If a product with a constant is too wide, both sides are divided by the constant."""
        left, right = self._value(of.left), self._value(of.right)
        if not any(isinstance(each.term, Checked | DoubleArithmetic) for each in (left, right)):
            try:
                return exactly_compared(of.comparator, left, right)
            except DeltamarkError as error:
                if error.cause != TOO_WIDE:
                    return compared(of.comparator, left, right)
        for one, other in self._divided(of):
            with suppress(DeltamarkError):
                return exactly_compared(of.comparator, one, other)
        return compared(of.comparator, left, right)

    def _divided(self, of: tree.Comparison[K]) -> Iterator[tuple[Value, Value]]:
        """Yield both sides of a comparison divided by each positive constant factor of one of them."""
        for side, other in ((of.left, of.right), (of.right, of.left)):
            if not isinstance(side, tree.Call) or side.function is not MULTIPLY:
                continue
            for value, factor in (side.args, side.args[::-1]):
                if not isinstance(factor, tree.Constant) or (divided := self._quotient(other, factor)) is None:
                    continue
                undivided = self._value(value)
                if not is_double(undivided.term):
                    yield (undivided, divided) if side is of.left else (divided, undivided)

    def _quotient(self, of: Expression[K], by: Expression[K]) -> Value | None:
        """Divide a number by a constant; None unless both are known, and the constant is positive."""
        try:
            dividend, divisor = self._value(of), self._value(by)
        except DeltamarkError:  # the other side is too wide, too
            return None
        if isinstance(dividend.term, Ratio | Checked) or not isinstance(divisor.term, Constant):
            return None
        if is_double(dividend.term) or is_double(divisor.term):
            return None
        if isinstance(divisor.term.value, int) and divisor.term.value > 0:
            return Value(Ratio(dividend.term, divisor.term), dividend.null)
        return None

    def _shifted(self, of: tree.Shifted[K]) -> Cell:
        day = self._value(of.day)
        if day.null is TRUE:
            return day
        if isinstance(day.term, Ratio) or day.term.type.kind not in ("date", "time", *TIMESTAMPS):
            raise unsupported("arithmetic of intervals")
        if of.interval.micros or day.term.type.kind != "date":
            return Value(times.shifted(day.term, of.interval, later), day.null)
        return Value(later(day.term, of.interval.months, of.interval.days), day.null)

    def _value(self, of: Expression[K]) -> Value:
        return value_of(self.cell(of))

    def _cast(self, of: tree.Cast[K]) -> Cell:
        cell, name = self.cell(of.value), of.type.name
        value = value_of(cell)
        if value.null is TRUE:
            return constant(of.type, None)
        if isinstance(value.term, Constant) and isinstance(value.term.value, str):
            return value if name == "VARCHAR" else constant_of_text(of.type, value.term.value)
        if name == "BOOLEAN":
            return number_truth(cell)
        if not isinstance(value.term, Ratio) and name in NUMBERS:
            value = Value(as_number(value.term), value.null)
        kind = "ratio" if isinstance(value.term, Ratio) else value.term.type.kind
        if kind in ("int", "ratio", "double") and name in NUMBERS:
            return _cast_number(of, value)
        if kind in ("date", "time", *TIMESTAMPS) and name in ("DATE", "TIME", TIMESTAMP, TIMESTAMPTZ):
            assert not isinstance(value.term, Ratio)
            return Value(_cast_time(name, value.term), value.null)
        if kind in ("text", "code", "short") and name == "VARCHAR":
            return value
        if kind == "bool" and name == "VARCHAR":
            assert not isinstance(value.term, Ratio)
            return Value(of_condition(value.term), value.null)
        if not isinstance(value.term, Ratio) and name == "VARCHAR" and kind in ("int", "date"):
            return Value(_text_of(value.term, of.source), value.null)
        raise unsupported(f"a cast of {CAST_FROM.get(kind, 'a text')} to {name}")


def _cast_number(cast: tree.Cast[K], value: Value) -> Value:
    """Convert a number, a quotient or a double to another type of numbers."""
    type_ = cast.type
    if type_.name == "DOUBLE":
        return value
    if type_.name == "FLOAT":
        return Value(as_float(in_double(value.term)), value.null)
    is_decimal = type_.name == "DECIMAL"
    most = min(10**type_.width - 1 if is_decimal and type_.width else LARGEST, LARGEST)
    if not is_double(value.term):
        try:
            found = rounded(known(value), type_.scale)
            if not is_double(found) and not (cast.source.name in DOUBLES and _differs(value.term, type_.scale, most)):
                return Value(found, value.null)
        except DeltamarkError as error:
            if not is_inexact(error, value.term):
                raise
    missing = surely(value.null)
    defined = chosen(missing, double(0), in_double(value.term))
    return Value(from_double(defined, type_.scale, most, to_even=not is_decimal), value.null)


def _differs(exact: Term | Ratio, scale: int, most: int) -> bool:
    """Return whether a cast of a DOUBLE that is kept exact may fail, or may round a half as no exact number is."""
    if isinstance(exact, Ratio):
        return False
    return exact.type.scale > scale or max(-exact.type.low, exact.type.high) * 10 ** (scale - exact.type.scale) > most


def _cast_time(name: str, term: Term) -> Term:
    """Convert a date, a timestamp or a time to another one. A date stays one, and stands for its midnight."""
    kind = term.type.kind
    match name:
        case "DATE" if kind in TIMESTAMPS:
            return times.day_of(term)
        case "TIME" if kind != "date":
            return times.time_of(term)
        case "TIMESTAMP" if kind in TIMESTAMPS:
            return times.as_timestamp(term)
        case "TIMESTAMP WITH TIME ZONE" if kind != "time":
            return times.as_timestamp(term, "timestamptz")
        case "DATE" | "TIMESTAMP" if kind == "date":
            return term
    raise unsupported(f"a cast of a {kind} to {name}")


def _text_of(term: Term, source: SqlType) -> Term:
    """Return a number or a date as the text that DuckDB writes for its type in SQL."""
    if source.name in ("DOUBLE", "FLOAT", "TIMESTAMP"):
        raise unsupported(f"a cast of a {source.name} to VARCHAR")
    if term.type.kind == "date":
        return date_text(term)
    scale = source.scale if source.name == "DECIMAL" else term.type.scale
    return number_text(rounded(term, scale), scale, has_whole=not source.width or source.width > source.scale)


def constant_of_text(type_: SqlType, text: str) -> Cell:
    """Return the constant that a text stands for."""
    try:
        if type_.name == "DATE":
            return constant(type_, (dt.date.fromisoformat(text.strip()) - EPOCH).days)
        if type_.name in (TIMESTAMP, TIMESTAMPTZ):
            return constant(type_, microseconds(dt.datetime.fromisoformat(text.strip())))
        if type_.name == "TIME":
            moment = dt.datetime.combine(EPOCH, dt.time.fromisoformat(text.strip()))
            return constant(type_, microseconds(moment))
        if type_.name == "BOOLEAN":
            return Truth.of(TRUE if CONDITIONS[text.lower()] else None)
        if type_.name in DOUBLES:
            return constant(type_, float(text.strip()))
        if type_.name in NUMBERS:
            return Value(rounded(exact(Decimal(text.strip())), type_.scale))
    except (KeyError, ValueError, ArithmeticError):
        pass
    raise unsupported(f"a cast of the text {shortened(text)} to {type_.name}")
