"""Trees of inner joins, taken apart: what is joined, and the conditions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

from deltamark.dataflow.scalars.expressions import Column, Expression
from deltamark.dataflow.sql.algebra import operations as algebra
from deltamark.dataflow.sql.algebra.operations import ElementColumn, Relational


@dataclass(frozen=True)
class Existence:
    """A SEMI or an ANTI join, with its right side as an element of the tree. reads: the elements that it needs."""

    join: algebra.Join
    conditions: tuple[Expression[ElementColumn], ...]
    reads: int


@dataclass(frozen=True)
class Element:
    """A part of a tree: rows that are joined, or, with `existence`, rows whose partners are only looked for."""

    rel: Relational
    existence: Existence | None = None


@dataclass(frozen=True)
class JoinTree:
    """Inner, semi- and antijoins with the filters and projections between them.

    A column of an expression is a pair: the number of an element, and that of the element's column.
    """

    elements: tuple[Element, ...]
    conditions: tuple[Expression[ElementColumn], ...]
    columns: tuple[Expression[ElementColumn], ...]

    @cached_property
    def conditions_on(self) -> Mapping[int, Sequence[Expression[ElementColumn]]]:
        """The conditions by each element that they read."""
        found: dict[int, list[Expression[ElementColumn]]] = defaultdict(list)
        for each in self.conditions:
            for number in dict.fromkeys(key[0] for key in each.columns()):
                found[number].append(each)
        return found


def taken_apart(rel: Relational, first: int = 0) -> JoinTree:
    """Take apart the joins at the top of a plan. first: the number of its first element."""
    match rel:
        case algebra.Join(kind="INNER"):
            left = taken_apart(rel.left, first)
            right = taken_apart(rel.right, first + len(left.elements))
            columns = (*left.columns, *right.columns)
            conditions = (*left.conditions, *right.conditions, *_over(rel.conditions, columns))
            return JoinTree((*left.elements, *right.elements), conditions, columns)
        case algebra.Join(kind="SEMI" | "ANTI"):
            left = taken_apart(rel.left, first)
            own = first + len(left.elements)
            columns = (*left.columns, *_columns_of(rel.right, own))
            conditions = tuple(_over(rel.conditions, columns))
            reads = elements_of(*conditions) & ~(1 << own) or 1 << first
            element = Element(rel.right, Existence(rel, conditions, reads))
            return JoinTree((*left.elements, element), left.conditions, left.columns)
        case algebra.Filter():
            below = taken_apart(rel.rows, first)
            return JoinTree(below.elements, (*below.conditions, *_over(rel.conditions, below.columns)), below.columns)
        case algebra.Project():
            below = taken_apart(rel.rows, first)
            return JoinTree(below.elements, below.conditions, tuple(_over(rel.expressions, below.columns)))
    return JoinTree((Element(rel),), (), tuple(_columns_of(rel, first)))


def _columns_of(rel: Relational, number: int) -> Iterator[Expression[ElementColumn]]:
    for at in range(algebra.width(rel)):
        yield Column((number, at))


def _over(
    expressions: Sequence[Expression[int]], columns: Sequence[Expression[ElementColumn]]
) -> Iterator[Expression[ElementColumn]]:
    """Replace the columns of expressions by expressions."""
    for each in expressions:
        yield each.with_columns(columns.__getitem__)


def elements_of(*expressions: Expression[ElementColumn]) -> int:
    """Return the set of elements that expressions read; bit i stands for element i."""
    return reduce(int.__or__, (each.elements for each in expressions), 0)


def number_of(element: int) -> int:
    """Return the number of the only element of a set."""
    return element.bit_length() - 1
