"""Pairs of rows: inner joins, and the conditions of all joins by the sides that they read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deltamark.dataflow.plan.terms import Ratio, Term, column
from deltamark.dataflow.scalars import comparisons, values
from deltamark.dataflow.scalars.expressions import Column, Comparator, Comparison, Expression
from deltamark.dataflow.scalars.values import Truth, Value, known_column, rewritten, unified_values, value_of
from deltamark.dataflow.sql.algebra.operations import EQUALITIES
from deltamark.dataflow.sql.rows.rows import Rows, fresh, without_null
from deltamark.dataflow.types import Field, Type


class Equality(NamedTuple):
    """A value of a left row and one of a right row that must be equal. knows_null: NULL equals NULL."""

    left: Value
    right: Value
    knows_null: bool


@dataclass(frozen=True)
class Conditions:
    """The conditions of a join: those on one side, equalities of both sides, and others."""

    left: tuple[Expression[int], ...]
    right: tuple[Expression[int], ...]
    equal: tuple[Equality, ...]
    other: tuple[Expression[int], ...]


def split(left: Rows, right: Rows, conditions: Iterable[Expression[int]]) -> Conditions:
    """Sort the conditions of a join, whose columns are those of the left side, then those of the right one."""
    wide = len(left.cells)
    of_left, of_right, equal, other = [], [], [], []
    for each in conditions:
        sides = _sides(each, wide)
        if sides == {True}:
            of_right.append(_of_right(each, wide))
        elif sides <= {False}:
            of_left.append(each)
        elif (equality := _equality(left, right, each)) is not None:
            equal.append(equality)
        else:
            other.append(each)
    return Conditions(tuple(of_left), tuple(of_right), tuple(equal), tuple(other))


def _sides(of: Expression[int], wide: int) -> set[bool]:
    """Return whether an expression reads left columns (False) and right ones (True)."""
    return {key >= wide for key in of.columns()}


def _of_right(of: Expression[int], wide: int) -> Expression[int]:
    """Number the right columns from 0."""
    return of.with_columns(lambda key: Column(key - wide))


def _equality(left: Rows, right: Rows, of: Expression[int]) -> Equality | None:
    """Return an equality of a left and a right value; None if the condition is no such equality."""
    wide = len(left.cells)
    if not isinstance(of, Comparison) or of.comparator not in EQUALITIES:
        return None
    sides = [_sides(each, wide) for each in (of.left, of.right)]
    if sides not in ([{False}, {True}], [{True}, {False}]):
        return None
    mine, theirs = (of.left, of.right) if sides[0] == {False} else (of.right, of.left)
    pair = unified_values([value_of(left.cell(mine)), value_of(right.cell(_of_right(theirs, wide)))])
    if pair is None or any(isinstance(each.term, Ratio) for each in pair):
        return None
    return Equality(pair[0], pair[1], of.comparator is Comparator.NOT_DISTINCT)


def pairs(left: Rows, right: Rows, conditions: Iterable[Expression[int]]) -> Rows:
    """Return the pairs of rows that satisfy all conditions."""
    parts = split(left, right, conditions)
    left = left.where(*map(left.truth, parts.left))
    right = right.where(*map(right.truth, parts.right))
    joined = paired(left, right, parts.equal)
    return joined.where(*map(joined.truth, parts.other))


def paired(left: Rows, right: Rows, equal: Sequence[Equality]) -> Rows:
    """Return the pairs of rows whose keys are equal."""
    left = without_null(left, [each.left for each in equal if not each.knows_null])
    right = without_null(right, [each.right for each in equal if not each.knows_null])
    left, left_keys = left.as_columns([compared(each.left, each) for each in equal], "key")
    right, right_keys = right.as_columns([compared(each.right, each) for each in equal], "key")
    return keyed(left, right, left_keys, right_keys)


def compared(value: Value, of: Equality) -> Value:
    """Return a value of an equality as a key: where NULL equals nothing, no NULL is left."""
    return value if of.knows_null else Value(value.term)


def keyed(left: Rows, right: Rows, left_keys: Sequence[str], right_keys: Sequence[str]) -> Rows:
    """Join rows by columns, where NULL equals NULL. A column that is compared twice is a key once, and a condition."""
    names: dict[str, str] = {}
    for name in right.types:
        if name in left.types:
            names[name] = fresh(name, [*left.types, *right.types, *names.values()])
    right = right.renamed(names)
    on: dict[str, str] = {}
    twice: list[tuple[str, str]] = []
    for mine, theirs in zip(left_keys, (names.get(each, each) for each in right_keys), strict=True):
        if on.get(mine) != theirs:
            if mine in on or theirs in on.values():
                twice.append((mine, theirs))
            else:
                on[mine] = theirs
    joined = left.collection.join(right.collection, on, null_keys=True)
    by = {column(theirs, right.types[theirs]): _key(left, mine, right.types[theirs]) for mine, theirs in on.items()}
    rows = Rows(joined, (*left.cells, *(rewritten(each, by) for each in right.cells)))
    kept = {theirs: mine for mine, theirs in on.items()}
    for mine, theirs in twice:
        name = kept.get(theirs, theirs)
        rows = rows.where(_same(Field(mine, rows.types[mine]), Field(name, rows.types[name])))
    return rows


def _key(left: Rows, name: str, right: Type) -> Term:
    """Return the left key, which a right key equals. It is not NULL if the right one cannot be."""
    type_ = left.types[name]
    return column(name, type_) if right.nullable else known_column(name, type_)


def _same(first: Field, second: Field) -> Truth:
    """Return whether two columns are equal, where NULL equals NULL."""
    one, other = (values.stored_value(each.name, each.type) for each in (first, second))
    return comparisons.compared(Comparator.NOT_DISTINCT, one, other)


def cell_of_pair(left: Rows, right: Rows, key: int) -> values.Cell:
    """Return the value of a column of a pair."""
    wide = len(left.cells)
    return left.cells[key] if key < wide else right.cells[key - wide]
