"""Values of rows at places of their group in an order, for `Collection.pick`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from deltamark.dataflow.operators.pick import MAX_DENOMINATOR, Picked
from deltamark.dataflow.plan.terms import (
    Add,
    Equal,
    Ratio,
    Term,
    When,
    column,
    difference,
    double,
    number,
    product,
    to_double,
)
from deltamark.dataflow.scalars.doubles import arithmetic
from deltamark.dataflow.scalars.numbers import rounded
from deltamark.dataflow.types import DOUBLE, TIMESTAMPS, Schema, Type, integer
from deltamark.errors import DeltamarkError

Share = int | float | Decimal | Fraction

INTERPOLATED = ("int", "double", "time", *TIMESTAMPS)
"""The kinds of values of which there are others between two."""


@dataclass(frozen=True)
class PickExpr:
    """A value of `Collection.pick`, without its name. share: the part of the rows that lie before its place.

    separator: between the texts of all rows.
    """

    of: str
    share: Fraction
    kind: Literal["row", "between", "texts"] = "row"
    separator: str = ""


def row(of: str, share: Fraction) -> PickExpr:
    """Return the value of a column in the row at which a share of the rows has ended."""
    return PickExpr(of, share)


def between(of: str, share: Fraction) -> PickExpr:
    """Return the number between the two rows nearest to a share of the rows."""
    return PickExpr(of, share, "between")


def first(of: str) -> PickExpr:
    """Return the value of a column in the first row."""
    return row(of, Fraction(0))


def last(of: str) -> PickExpr:
    """Return the value of a column in the last row."""
    return row(of, Fraction(1))


def quantile_disc(of: str, share: Share) -> PickExpr:
    """Return the value of a column in the row at which a share of the rows has ended: `quantile_disc("price", 0.9)`."""
    return row(of, share_of(share))


def quantile_cont(of: str, share: Share) -> PickExpr:
    """Interpolate between the two rows nearest to a share of the rows: numbers exactly, as an average is exact."""
    return between(of, share_of(share))


def median(of: str) -> PickExpr:
    """Return the number in the middle row, or the mean of those in the two middle rows."""
    return quantile_cont(of, Fraction(1, 2))


def string_agg(of: str, separator: str = ",") -> PickExpr:
    """Return the texts of a column in all rows, one behind another in their order, without those that are NULL.

    A change of a group costs its whole text.
    """
    return PickExpr(of, Fraction(0), "texts", separator)


def share_of(share: Share) -> Fraction:
    """Return a share of rows as it is written: 0.1 is a tenth."""
    try:
        exact = Fraction(str(share)) if isinstance(share, float) else Fraction(share)
    except (TypeError, ValueError) as error:
        raise DeltamarkError("not a share of rows", repr(share), "give a number from 0 to 1") from error
    if not 0 <= exact <= 1 or exact.denominator > MAX_DENOMINATOR:
        raise DeltamarkError("not a share of rows", repr(share), "give a number from 0 to 1, of at most nine digits")
    return exact


def picked_values(
    values: Mapping[str, PickExpr], schema: Schema
) -> tuple[list[tuple[Picked, Type]], dict[str, Term | Ratio]]:
    """Return the columns of a pick with their types, and the values as terms over them. schema: that of the rows."""
    columns: list[tuple[Picked, Type]] = []
    terms: dict[str, Term | Ratio] = {}
    for name, each in values.items():
        if not isinstance(each, PickExpr):
            remedy = "write first, last, median, quantile_disc, quantile_cont or string_agg with its arguments"
            raise DeltamarkError("not a value of a pick", f"{name} = {each!r}", remedy)
        parts = list(picked_parts(name, each, schema))
        columns += parts
        terms[name] = value_of_parts(parts, each.share)
    return columns, terms


def picked_parts(name: str, each: PickExpr, schema: Schema) -> Iterator[tuple[Picked, Type]]:
    """Yield the columns of a value: one, or three for a number between two others."""
    type_, share = schema[each.of], (each.share.numerator, each.share.denominator)
    if each.kind == "row":
        yield Picked(name, each.of, "whole", *share), type_
        return
    if each.kind == "texts":
        if type_.kind != "text":
            raise DeltamarkError("not a column of texts", f"{each.of} ({type_})", "name a column of type TEXT")
        yield Picked(name, each.of, "texts", *share, each.separator), type_
        return
    if type_.kind not in INTERPOLATED or type_.nullable:
        remedy = "name a column of numbers or times, none missing"
        raise DeltamarkError("cannot be interpolated", f"{each.of} ({type_})", remedy)
    yield Picked(f"{name}.below", each.of, "below", *share), type_
    yield Picked(f"{name}.above", each.of, "above", *share), type_
    yield Picked(f"{name}.rest", each.of, "rest", *share), integer(0, each.share.denominator - 1)


def value_of_parts(parts: Sequence[tuple[Picked, Type]], share: Fraction) -> Term | Ratio:
    """Return the value that the columns of a pick make."""
    below, *others = (column(each.name, type_) for each, type_ in parts)
    if not others:
        return below
    above, rest = others
    whole, type_ = share.denominator, below.type
    if type_.kind == "double":
        return _between_doubles(below, above, rest, whole)
    ends = product(below, difference(number(whole), rest)), product(above, rest)
    numerator = Add(*ends, integer(type_.low * whole, type_.high * whole, type_.scale))
    exact = Ratio(numerator, number(whole))
    return exact if type_.kind == "int" else Add(rounded(exact, 0), number(0), type_)


def _between_doubles(below: Term, above: Term, rest: Term, whole: int) -> Term:
    weight = arithmetic("/", to_double(rest), double(whole))
    ends = arithmetic("*", below, arithmetic("-", double(1), weight)), arithmetic("*", above, weight)
    return When(Equal(rest, number(0)), below, arithmetic("+", *ends), DOUBLE)
