"""Column expressions: what may be written inside where, select and aggregates.

`col.price * (1 - col.discount)` builds an `Expr`, which knows no types; `dataflow.plan.terms` binds it to a collection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from deltamark.dataflow.language.synonyms import EXPR
from deltamark.errors import DeltamarkError, unknown_attribute

Operand = Any
"""An expression, or a Python value: int, Decimal, date or str."""


class Expr:
    """An expression over columns that are not known yet."""

    __slots__ = ("args", "op")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, op: str, *args: Any) -> None:
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

    def __truediv__(self, other: Operand) -> NoReturn:
        raise DeltamarkError("numbers are exact, and a quotient is not", f"{self!r} / {other!r}", "keep both its parts")

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
        return (self >= low) & (self <= high)

    def is_in(self, values: Any) -> Expr:
        if isinstance(values, str):
            raise DeltamarkError("not a list of values", repr(values), "write [...]")
        return Expr("is_in", self, tuple(values))

    def like(self, pattern: str) -> Expr:
        """Match a text as SQL does: % stands for any text; _ for any character, in columns of codes."""
        return Expr("like", self, pattern)

    def starts_with(self, text: str) -> Expr:
        return self.like(f"{text}%")

    def contains(self, text: str) -> Expr:
        return self.like(f"%{text}%")

    def substring(self, start: int, length: int) -> Expr:
        """Take characters as SQL does, the first being 1; at most seven bytes of them."""
        if not (isinstance(start, int) and isinstance(length, int)):
            raise DeltamarkError("no such substring", f"{start!r}, {length!r}", "give two whole numbers")
        return Expr("substring", self, start, length)

    def year(self) -> Expr:
        return Expr("year", self)

    def is_null(self) -> Expr:
        return Expr("is_null", self)

    def coalesce(self, value: Operand) -> Expr:
        return Expr("coalesce", self, value)


class When:
    """The first half of `when(condition, value).otherwise(value)`."""

    def __init__(self, condition: Operand, value: Operand) -> None:
        self._condition, self._value = condition, value

    def otherwise(self, value: Operand) -> Expr:
        return Expr("when", self._condition, self._value, value)


def when(condition: Operand, value: Operand) -> When:
    return When(condition, value)


class _Columns:
    """`col.price` or `col["price"]`."""

    def __getattr__(self, name: str) -> Expr:
        return Expr("column", name)

    __getitem__ = __getattr__


col = _Columns()
