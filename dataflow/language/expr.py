"""Column expressions: the arguments of where, select and aggregates.

`col.price * (1 - col.discount)` builds an `Expr`, which has no types; `dataflow.language.binder` binds it to those of a
collection. `col.price.sum()` builds an argument of `Collection.aggregate`.

Names that other systems use for what collections and expressions do, for the hints of errors.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from deltamark.dataflow.plan.terms import Term
from deltamark.errors import DeltamarkError, unknown_attribute

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
}


ExprOp = Literal[
    "column", "add", "subtract", "multiply", "divide", "equal", "less", "and", "or", "not", "is_in", "like",
    "substring", "year", "when", "is_null", "coalesce",
]  # fmt: skip


Value = int | Decimal | dt.date | str | bool
"""A constant in an expression."""


class Expr:
    """An expression over columns, by name. It is combined by + - * / == != < <= > >= and, as conditions, by & | ~."""

    __slots__ = ("args", "op")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, op: ExprOp, *args: Any) -> None:
        self.op, self.args = op, args

    def __repr__(self) -> str:
        return str(self.args[0]) if self.op == "column" else f"{self.op}({', '.join(map(repr, self.args))})"

    if not TYPE_CHECKING:  # type checkers know the attributes

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            known = (each for each in dir(type(self)) if not each.startswith("_"))
            raise unknown_attribute("an expression", name, known, EXPR)

    def __bool__(self) -> NoReturn:
        raise DeltamarkError("an expression is neither true nor false", repr(self), "write & | ~ for and, or, not")

    def __add__(self, other: Operand) -> Expr:
        return Expr("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return Expr("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return Expr("subtract", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return Expr("subtract", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return Expr("multiply", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return Expr("multiply", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return Expr("divide", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return Expr("divide", other, self)

    def __neg__(self) -> Expr:
        return Expr("subtract", 0, self)

    def __eq__(self, other: Operand) -> Expr:  # type: ignore[override]
        return Expr("equal", self, other)

    def __ne__(self, other: Operand) -> Expr:  # type: ignore[override]
        return Expr("not", Expr("equal", self, other))

    def __lt__(self, other: Operand) -> Expr:
        return Expr("less", self, other)

    def __le__(self, other: Operand) -> Expr:
        return Expr("not", Expr("less", other, self))

    def __gt__(self, other: Operand) -> Expr:
        return Expr("less", other, self)

    def __ge__(self, other: Operand) -> Expr:
        return Expr("not", Expr("less", self, other))

    def __and__(self, other: Operand) -> Expr:
        return Expr("and", self, other)

    def __or__(self, other: Operand) -> Expr:
        return Expr("or", self, other)

    def __invert__(self) -> Expr:
        return Expr("not", self)

    def between(self, low: Operand, high: Operand) -> Expr:
        """Test for a range, including both ends: `col.day.between(date(1994, 1, 1), date(1994, 12, 31))`."""
        return (self >= low) & (self <= high)

    def is_in(self, values: Iterable[Value]) -> Expr:
        """Test for one of several constants: `col.mode.is_in(["AIR", "RAIL"])`."""
        if isinstance(values, str):
            raise DeltamarkError("not a list of values", repr(values), "write [...]")
        return Expr("is_in", self, tuple(values))

    def like(self, pattern: str) -> Expr:
        """Match a text as SQL does: `col.name.like("%green%")`.

        % stands for any text. _ stands for any character, and is supported in columns of codes alone.
        """
        return Expr("like", self, pattern)

    def starts_with(self, text: str) -> Expr:
        """Test for a prefix: `col.type.starts_with("PROMO")`."""
        return self.like(f"{text}%")

    def contains(self, text: str) -> Expr:
        """Test for a part of a text: `col.name.contains("green")`."""
        return self.like(f"%{text}%")

    def substring(self, start: int, length: int) -> Expr:
        """Take some characters of a text, counted from 1 as in SQL: `col.phone.substring(1, 2)`.

        The result has at most seven bytes.
        """
        if not (isinstance(start, int) and isinstance(length, int)):
            raise DeltamarkError("no such substring", f"{start!r}, {length!r}", "give two whole numbers")
        return Expr("substring", self, start, length)

    def year(self) -> Expr:
        """Return the year of a date, as a number."""
        return Expr("year", self)

    def is_null(self) -> Expr:
        """Test for NULL."""
        return Expr("is_null", self)

    def coalesce(self, value: Operand) -> Expr:
        """Replace NULL by a value of the same type: `col.amount.coalesce(0)`."""
        return Expr("coalesce", self, value)

    def sum(self) -> SumExpr:
        """Sum the expression over a group: `sales.aggregate("shop", revenue=col.price.sum())`."""
        return SumExpr(self)

    def mean(self) -> RatioExpr:
        """Average the expression over a group, exactly: `sales.aggregate("shop", price=col.price.mean())`."""
        return RatioExpr(self.sum(), count())


@dataclass(frozen=True)
class SumExpr:
    """The sum of an expression over a group, or (without one) the number of its rows."""

    expr: Expr | Term | None = None

    def __truediv__(self, divisor: SumExpr) -> RatioExpr:
        if not isinstance(divisor, SumExpr):
            raise DeltamarkError("not a sum to divide by", repr(divisor), "divide by a number after the aggregation")
        return RatioExpr(self, divisor)


@dataclass(frozen=True)
class RatioExpr:
    """The exact ratio of two sums over a group."""

    numerator: SumExpr
    denominator: SumExpr


def count() -> SumExpr:
    """Count the rows of a group: `sales.aggregate("shop", sold=count())`."""
    return SumExpr()


class When:
    """The first half of a conditional expression, until `otherwise` completes it."""

    def __init__(self, condition: Operand, value: Operand) -> None:
        self._condition, self._value = condition, value

    def otherwise(self, value: Operand) -> Expr:
        """Give the value for rows that do not satisfy the condition."""
        return Expr("when", self._condition, self._value, value)


def when(condition: Operand, value: Operand) -> When:
    """Begin a conditional expression (CASE): `when(col.kind == "refund", -col.price).otherwise(col.price)`."""
    return When(condition, value)


Operand = Expr | Value
"""An expression, or a constant."""


class _Columns:
    """The columns of a collection, by name: `col.price`, or `col["price.num"]` for other names."""

    def __getattr__(self, name: str) -> Expr:
        return Expr("column", name)

    __getitem__ = __getattr__


col = _Columns()
