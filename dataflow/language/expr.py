"""Column expressions: the arguments of where, select and aggregates.

`col.price * (1 - col.discount)` builds an `Expr`, which holds an expression over the names of columns. `bind` gives it
the types of a collection. `col.price.sum()` builds an argument of `Collection.aggregate`.

Names that other systems use for what collections and expressions do, for the hints of errors.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, NoReturn, TypeVar

from deltamark.dataflow.plan.terms import PlanTerm, Ratio, Term, column
from deltamark.dataflow.scalars import expressions as tree
from deltamark.dataflow.scalars.evaluator import condition, evaluate
from deltamark.dataflow.scalars.expressions import Comparator, Expression, Interval, SqlType
from deltamark.dataflow.scalars.functions import FUNCTIONS
from deltamark.dataflow.scalars.problems import ExpressionError
from deltamark.dataflow.scalars.texts import SPACES
from deltamark.dataflow.scalars.values import (
    INTEGERS,
    Cell,
    Truth,
    nullable_term,
    stored_ratio,
    stored_value,
    surely,
    value_of,
)
from deltamark.dataflow.types import EPOCH, Schema
from deltamark.errors import DeltamarkError, unknown, unknown_attribute

COLLECTION = {
    **dict.fromkeys(["filter", "query", "having"], "where(condition)"),
    **dict.fromkeys(["groupby", "group_by", "agg", "sum", "mean", "avg"], "aggregate(by=..., x=col.y.sum())"),
    **dict.fromkeys(["sort", "sort_by", "sort_values", "order_by", "limit", "head"], "top(k, ['name', '-descending'])"),
    **dict.fromkeys(["merge", "inner_join"], "join(other, on=...)"),
    **dict.fromkeys(["outer_join", "leftjoin"], "left_join(other, on=...)"),
    **dict.fromkeys(["cross_join", "product"], "cross(other)"),
    **dict.fromkeys(["semi_join"], "semijoin(other, on=...)"),
    **dict.fromkeys(["anti_join"], "antijoin(other, on=...)"),
    **dict.fromkeys(["union", "union_all", "append"], "concat(other)"),
    **dict.fromkeys(["subtract", "minus", "except_", "except_all"], "concat(other.negate())"),
    **dict.fromkeys(["unique", "drop_duplicates", "dedup"], "distinct()"),
    **dict.fromkeys(["with_columns", "with_column", "assign", "mutate", "map", "drop"], "select('kept', new=value)"),
    **dict.fromkeys(["max", "nlargest"], "largest('column', by=...)"),
    **dict.fromkeys(["min", "nsmallest"], "smallest('column', by=...)"),
    **dict.fromkeys(["columns", "dtypes"], "schema"),
    **dict.fromkeys(["collect", "compute", "execute", "to_pandas"], "Dataflow(plan), and feed it"),
}

EXPR = {
    **dict.fromkeys(["isin", "in_"], "is_in([...])"),
    **dict.fromkeys(["isnull", "isna"], "is_null()"),
    **dict.fromkeys(["fillna", "fill_null", "ifnull"], "coalesce(value)"),
    **dict.fromkeys(["startswith"], "starts_with('text')"),
    **dict.fromkeys(["alias", "name"], "select(name=expression)"),
    **dict.fromkeys(["sum"], "expression.sum()"),
    **dict.fromkeys(["mean", "avg"], "expression.mean()"),
    **dict.fromkeys(["substr", "slice"], "substring(start, length)"),
    **dict.fromkeys(["astype", "to"], "cast('DECIMAL(9, 2)')"),
    **dict.fromkeys(["dt", "date_add"], "shifted(months=1)"),
}


Constant = int | Decimal | dt.date | str | bool
"""A constant in an expression."""


def literal(value: object, *, may_be_null: bool = False) -> Expression[str]:  # noqa: PLR0911 (a case for each type)
    """Return a constant, or the expression that an `Expr` holds."""
    if isinstance(value, Expr):
        return value.node
    strange = isinstance(value, dt.datetime) or (isinstance(value, Decimal) and not value.is_finite())
    if not strange:
        match value:
            case None if may_be_null:
                return tree.Constant(tree.UNKNOWN, None)
            case bool():
                return tree.Constant(SqlType("BOOLEAN"), value)
            case int():
                return tree.Constant(SqlType("BIGINT"), value)
            case Decimal():
                places = max(-int(value.as_tuple().exponent), 0)
                return tree.Constant(SqlType("DECIMAL", places), int(value.scaleb(places)))
            case dt.date():
                return tree.Constant(SqlType("DATE"), (value - EPOCH).days)
            case str():
                return tree.Constant(SqlType("VARCHAR"), value)
    remedy = "test for NULL by .is_null()" if value is None else "write an int, Decimal('0.05'), a date, str or bool"
    raise DeltamarkError("not a value of an expression", f"{value!r} ({type(value).__name__})", remedy)


def _called(name: str, *args: object) -> Expr:
    return Expr(tree.Call(FUNCTIONS[name], tuple(map(literal, args))))


def _compared(comparator: Comparator, left: object, right: object) -> Expr:
    return Expr(tree.Comparison(comparator, literal(left), literal(right)))


CAST = re.compile(r"(?P<name>[A-Z]+)(\((?P<digits>\d+), *(?P<scale>\d+)\))?", re.IGNORECASE)
CASTS = (*INTEGERS, "DECIMAL", "DOUBLE", "FLOAT", "DATE", "VARCHAR", "BOOLEAN")


class Expr:
    """An expression over columns, by name. It is combined by + - * / // % == != < <= > >= and, as conditions, by & | ~.

    A result is NULL if an operand is, as in SQL. `where` keeps the rows for which its condition is true.
    """

    __slots__ = ("node",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, node: Expression[str]) -> None:
        self.node = node

    def __repr__(self) -> str:
        return str(self.node)

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            known = (each for each in dir(type(self)) if not each.startswith("_"))
            raise unknown_attribute("an expression", name, known, EXPR)

    def __bool__(self) -> NoReturn:
        raise DeltamarkError("an expression is neither true nor false", repr(self), "write & | ~ for and, or, not")

    def __add__(self, other: Operand) -> Expr:
        return _called("+", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return _called("+", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return _called("-", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return _called("-", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return _called("*", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return _called("*", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return _called("/", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return _called("/", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return _called("//", self, other)

    def __rfloordiv__(self, other: Operand) -> Expr:
        return _called("//", other, self)

    def __mod__(self, other: Operand) -> Expr:
        return _called("%", self, other)

    def __rmod__(self, other: Operand) -> Expr:
        return _called("%", other, self)

    def __neg__(self) -> Expr:
        return _called("-", self)

    def __eq__(self, other: Operand) -> Expr:  # type: ignore[override]
        return _compared(Comparator.EQUAL, self, other)

    def __ne__(self, other: Operand) -> Expr:  # type: ignore[override]
        return _compared(Comparator.UNEQUAL, self, other)

    def __lt__(self, other: Operand) -> Expr:
        return _compared(Comparator.LESS, self, other)

    def __le__(self, other: Operand) -> Expr:
        return _compared(Comparator.AT_MOST, self, other)

    def __gt__(self, other: Operand) -> Expr:
        return _compared(Comparator.GREATER, self, other)

    def __ge__(self, other: Operand) -> Expr:
        return _compared(Comparator.AT_LEAST, self, other)

    def __and__(self, other: Operand) -> Expr:
        return Expr(tree.And((self.node, literal(other))))

    def __or__(self, other: Operand) -> Expr:
        return Expr(tree.Or((self.node, literal(other))))

    def __invert__(self) -> Expr:
        return Expr(tree.Not(self.node))

    def between(self, low: Operand, high: Operand) -> Expr:
        """Test for a range, including both ends: `col.day.between(date(1994, 1, 1), date(1994, 12, 31))`."""
        return (self >= low) & (self <= high)

    def is_in(self, values: Iterable[Constant | None]) -> Expr:
        """Test for one of several constants: `col.mode.is_in(["AIR", "RAIL"])`.

        As in SQL, the result is NULL instead of false if one of the constants is None.
        """
        if isinstance(values, str):
            raise DeltamarkError("not a list of values", repr(values), "write [...]")
        return Expr(tree.In(self.node, tuple(literal(each, may_be_null=True) for each in values)))

    def is_distinct_from(self, other: Operand) -> Expr:
        """Compare values of which NULL is one: `~col.old.is_distinct_from(col.new)`."""
        return _compared(Comparator.DISTINCT, self, other)

    def like(self, pattern: str) -> Expr:
        """Match a text as SQL does: `col.name.like("%green%")`. % stands for any text, _ for any character."""
        if not isinstance(pattern, str):
            raise DeltamarkError("not a pattern", repr(pattern), "write a str, with % for any text")
        return _called("~~", self, pattern)

    def starts_with(self, text: str) -> Expr:
        """Test for a prefix: `col.type.starts_with("PROMO")`."""
        return _called("starts_with", self, text)

    def ends_with(self, text: str) -> Expr:
        """Test for the end of a text: `col.type.ends_with("BRASS")`."""
        return _called("ends_with", self, text)

    def contains(self, text: str) -> Expr:
        """Test for a part of a text: `col.name.contains("green")`."""
        return _called("contains", self, text)

    def substring(self, start: int, length: int) -> Expr:
        """Take some characters of a text, counted from 1 as in SQL: `col.phone.substring(1, 2)`.

        One to seven characters of a column are stored as a short text, which has at most seven bytes.
        """
        if not (isinstance(start, int) and isinstance(length, int)):
            raise DeltamarkError("no such substring", f"{start!r}, {length!r}", "give two whole numbers")
        return _called("substring", self, start, length)

    def left(self, length: int) -> Expr:
        """Take the first characters of a text, or all but the last: `col.phone.left(2)`, `col.phone.left(-2)`."""
        return _called("left", self, length)

    def right(self, length: int) -> Expr:
        """Take the last characters of a text, or all but the first."""
        return _called("right", self, length)

    def upper(self) -> Expr:
        """Return a text in capital letters."""
        return _called("upper", self)

    def lower(self) -> Expr:
        """Return a text in small letters."""
        return _called("lower", self)

    def concat(self, *others: Operand) -> Expr:
        """Write texts one behind another: `col.first.concat(" ", col.last)`. The result is NULL if one of them is."""
        return reduce(lambda text, other: _called("||", text, other), others, self)

    def trim(self, characters: str = SPACES) -> Expr:
        """Remove spaces, or other characters, from both ends of a text."""
        return _called("trim", self, characters)

    def replace(self, piece: Operand, by: Operand) -> Expr:
        """Replace each occurrence of a piece of a text: `col.phone.replace("-", "")`."""
        return _called("replace", self, piece, by)

    def lpad(self, length: int, padding: str) -> Expr:
        """Add a padding before a text, or cut it, so that it has some characters: `col.code.lpad(5, "0")`."""
        return _called("lpad", self, length, padding)

    def rpad(self, length: int, padding: str) -> Expr:
        """Add a padding behind a text, or cut it, so that it has some characters."""
        return _called("rpad", self, length, padding)

    def split_part(self, separator: str, number: int) -> Expr:
        """Return the part of a text with a number, or NULL without one: `col.mail.split_part("@", 2)`."""
        return _called("split_part", self, separator, number)

    def length(self) -> Expr:
        """Count the characters of a text."""
        return _called("length", self)

    def abs(self) -> Expr:
        """Return the absolute value of a number."""
        return _called("abs", self)

    def sign(self) -> Expr:
        """Return -1, 0 or 1 for a number."""
        return _called("sign", self)

    def round(self, places: int = 0) -> Expr:
        """Round to some decimal places, and halves away from zero: `(col.price * col.tax).round(2)`."""
        return _called("round", self, places)

    def floor(self) -> Expr:
        """Round down to a whole number."""
        return _called("floor", self)

    def ceil(self) -> Expr:
        """Round up to a whole number."""
        return _called("ceil", self)

    def trunc(self) -> Expr:
        """Round to a whole number towards zero."""
        return _called("trunc", self)

    def sqrt(self) -> Expr:
        """Return the square root as a double, which is NaN for a negative number."""
        return _called("sqrt", self)

    def exp(self) -> Expr:
        """Return e to the power of the number as a double."""
        return _called("exp", self)

    def ln(self) -> Expr:
        """Return the natural logarithm as a double: negative infinity for 0, and NaN for a negative number."""
        return _called("ln", self)

    def power(self, exponent: Operand) -> Expr:
        """Return the number to the power of another one, as a double."""
        return _called("pow", self, exponent)

    def greatest(self, *others: Operand) -> Expr:
        """Return the largest of some values, without those that are NULL: `col.price.greatest(col.cost, 0)`."""
        return _called("greatest", self, *others)

    def least(self, *others: Operand) -> Expr:
        """Return the smallest of some values, without those that are NULL."""
        return _called("least", self, *others)

    def cast(self, type_: str) -> Expr:
        """Return the value as one of another SQL type: `(col.price / 3).cast("DECIMAL(9, 2)")`."""
        found = CAST.fullmatch(type_)
        name = found["name"].upper() if found else type_
        if found is None or name not in CASTS:
            raise unknown("type", type_, CASTS)
        return Expr(tree.Cast(self.node, SqlType(name, int(found["scale"] or 0), int(found["digits"] or 0))))

    def year(self) -> Expr:
        """Return the year of a date, as a number."""
        return _called("year", self)

    def month(self) -> Expr:
        """Return the month of a date, as a number."""
        return _called("month", self)

    def date_part(self, part: str) -> Expr:
        """Return a part of a date, by its name in SQL: `col.day.date_part("dayofweek")`."""
        return _called("date_part", part, self)

    def date_trunc(self, part: str) -> Expr:
        """Return the first day of a part of a date: `col.day.date_trunc("month")`."""
        return _called("date_trunc", part, self)

    def date_diff(self, part: str, last: Operand) -> Expr:
        """Count the days up to another date, or the ends of months or years: `col.sent.date_diff("day", col.got)`."""
        return _called("date_diff", part, self, last)

    def last_day(self) -> Expr:
        """Return the last day of the month of a date."""
        return _called("last_day", self)

    def shifted(self, *, years: int = 0, months: int = 0, days: int = 0) -> Expr:
        """Add an interval to a date: `col.day.shifted(months=-1)`. A day that the month lacks becomes its last."""
        return Expr(tree.Shifted(self.node, Interval(12 * years + months, days)))

    def is_null(self) -> Expr:
        """Test for NULL."""
        return Expr(tree.IsNull(self.node))

    def coalesce(self, *values: Operand) -> Expr:
        """Replace NULL by the first of other values that is not NULL: `col.amount.coalesce(0)`."""
        return Expr(tree.Coalesce((self.node, *map(literal, values))))

    def sum(self) -> SumExpr:
        """Sum the expression over a group: `sales.aggregate("shop", revenue=col.price.sum())`."""
        return SumExpr(self)

    def mean(self) -> RatioExpr:
        """Average the expression over a group, exactly: `sales.aggregate("shop", price=col.price.mean())`."""
        return RatioExpr(self.sum(), count())

    def var_samp(self) -> MomentExpr:
        """Return the variance of a sample over a group, which is NULL for one row."""
        return MomentExpr("var_samp", (self,))

    def var_pop(self) -> MomentExpr:
        """Return the variance of all rows of a group."""
        return MomentExpr("var_pop", (self,))

    def stddev_samp(self) -> MomentExpr:
        """Return the standard deviation of a sample over a group: `col.price.stddev_samp()`."""
        return MomentExpr("stddev_samp", (self,))

    def stddev_pop(self) -> MomentExpr:
        """Return the standard deviation of all rows of a group."""
        return MomentExpr("stddev_pop", (self,))

    def covar_samp(self, other: Operand) -> MomentExpr:
        """Return the covariance with another expression over a sample, which is NULL for one row."""
        return MomentExpr("covar_samp", (self, other))

    def covar_pop(self, other: Operand) -> MomentExpr:
        """Return the covariance with another expression over all rows of a group."""
        return MomentExpr("covar_pop", (self, other))

    def corr(self, other: Operand) -> MomentExpr:
        """Return the correlation with another expression over a group: `col.price.corr(col.cost)`."""
        return MomentExpr("corr", (self, other))


@dataclass(frozen=True)
class SumExpr:
    """The sum of an expression over a group, or (without one) the number of its rows."""

    expr: Operand | Term | None = None

    def __truediv__(self, divisor: SumExpr) -> RatioExpr:
        if not isinstance(divisor, SumExpr):
            raise DeltamarkError("not a sum to divide by", repr(divisor), "divide by a number after the aggregation")
        return RatioExpr(self, divisor)


@dataclass(frozen=True)
class RatioExpr:
    """The exact ratio of two sums over a group."""

    numerator: SumExpr
    denominator: SumExpr


@dataclass(frozen=True)
class MomentExpr:
    """A variance, a standard deviation, a covariance or a correlation over a group, by its name in SQL."""

    function: str
    of: tuple[Operand, ...]


def count() -> SumExpr:
    """Count the rows of a group: `sales.aggregate("shop", sold=count())`."""
    return SumExpr()


class When:
    """The first part of a conditional expression, until `otherwise` completes it."""

    def __init__(self, *branches: tuple[Expression[str], Expression[str]]) -> None:
        self._branches = branches

    def when(self, condition: Operand, value: Operand | None) -> When:
        """Give the value for rows that satisfy a condition, but none of those before."""
        return When(*self._branches, (literal(condition), literal(value, may_be_null=True)))

    def otherwise(self, value: Operand | None) -> Expr:
        """Give the value for rows that satisfy no condition; None for NULL."""
        return Expr(tree.Case(self._branches, literal(value, may_be_null=True)))


def when(condition: Operand, value: Operand | None) -> When:
    """Begin a conditional expression (CASE): `when(col.kind == "refund", -col.price).otherwise(col.price)`."""
    return When().when(condition, value)


Operand = Expr | Constant
"""An expression, or a constant."""


class _Columns:
    """The columns of a collection, by name: `col.price`, or `col["price.num"]` for other names."""

    def __getattr__(self, name: str) -> Expr:
        return Expr(tree.Column(name))

    __getitem__ = __getattr__


col = _Columns()


def ratio_columns(name: str) -> tuple[str, str]:
    """Return the names of the columns in which a collection keeps the two parts of a ratio."""
    return f"{name}.num", f"{name}.den"


def bind(expr: object, schema: Schema) -> Term:
    """Return the term that stores an expression, or a constant, over a collection in one column."""
    bound = bind_value(expr, schema)
    if isinstance(bound, Ratio):
        raise DeltamarkError("a ratio is not a number here", repr(expr), "multiply, divide, compare or select it")
    return bound


def bind_value(expr: object, schema: Schema) -> Term | Ratio:
    """Return the terms that store an expression, which may be a ratio."""
    if isinstance(expr, PlanTerm | Ratio):
        return expr  # type: ignore[return-value]  # every class of terms is in the union
    value = value_of(_evaluated(evaluate, expr, schema))
    if isinstance(value.term, Ratio):
        return Ratio(*(nullable_term(each, value.null) for each in (value.term.numerator, value.term.denominator)))
    return nullable_term(value.term, value.null)


def bind_condition(expr: object, schema: Schema) -> Term:
    """Return the condition that an expression is true."""
    return surely(_evaluated(condition, expr, schema).true)


def column_value(name: str, schema: Schema) -> Term | Ratio:
    """Return the terms of a column, or of the ratio that is kept in two columns."""
    if (parts := _ratio_parts(name, schema)) is not None:
        return Ratio(*(column(each, schema[each]) for each in parts))
    return column(name, schema[name])


def _ratio_parts(name: str, schema: Schema) -> tuple[str, str] | None:
    parts = ratio_columns(name)
    return parts if isinstance(name, str) and name not in schema and all(each in schema for each in parts) else None


Result = TypeVar("Result", Cell, Truth)


def _evaluated(
    make: Callable[[Expression[str], Callable[[str], Cell]], Result], expr: object, schema: Schema
) -> Result:
    """Compute an expression over the columns of a collection. Errors name the part of it that they are about."""

    def cell(name: str) -> Cell:
        if (parts := _ratio_parts(name, schema)) is not None:
            return stored_ratio(*map(schema.field, parts))
        return stored_value(name, schema[name])

    try:
        return make(literal(expr), cell)
    except ExpressionError as error:
        at = error.expression
        where = f" in {at}" if isinstance(at, tree.Node) and at.parts and str(at) not in str(error.actual) else ""
        raise DeltamarkError(error.cause, f"{error.actual}{where}", error.remedy) from error
