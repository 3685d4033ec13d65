"""Aggregates of rows that a semijoin has grouped already.

`SELECT o.id, sum(l.x) FROM o JOIN l ON l.id = o.id WHERE o.id IN (SELECT id FROM l GROUP BY id HAVING ...) GROUP BY
o.id` reads `l` twice. If only rows of `l` share a group, the groups of the subquery can compute the sums and take the
place of `l`. Then the groups that satisfy HAVING are joined, instead of all rows of `l`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from deltamark.dataflow.scalars.expressions import Column, Comparator, Comparison, Expression
from deltamark.dataflow.sql.algebra import operations as algebra
from deltamark.dataflow.sql.algebra.join_tree import Element, JoinTree, taken_apart
from deltamark.dataflow.sql.algebra.operations import Aggregate, ElementColumn, Relational, equated
from deltamark.dataflow.sql.algebra.rewrites import projected, without_element

Columns = Mapping[int, int]
"""For each column of an operation that is a column of the rows below its projections, that one."""


class _Groups(NamedTuple):
    """The groups that a semijoin looks for: an aggregate by one column, with filters and projections over it."""

    aggregate: Aggregate
    over: JoinTree
    rows: Relational
    columns: Columns
    key: int
    """The column of the rows by which they are grouped."""


class _Place(NamedTuple):
    """The elements of a tree that are the groups and the rows, and the columns of the latter."""

    groups: int
    rows: int
    columns: Columns


def with_reused_groups(rel: Aggregate) -> Iterator[JoinTree]:
    """Yield trees with the columns of an aggregate, and with its rows if each group has one row of the tree."""
    tree = taken_apart(rel.rows)
    for number, element in enumerate(tree.elements):
        groups = _groups(element)
        if groups is None:
            continue
        for place in _places(tree, number, groups):
            found = _with_groups(rel, tree, place, groups)
            if found is not None:
                yield found


def _groups(element: Element) -> _Groups | None:
    """Read a semijoin with one condition as groups by one column."""
    if element.existence is None or element.existence.join.kind != "SEMI" or len(element.existence.conditions) != 1:
        return None
    over = taken_apart(element.rel)
    aggregate = over.elements[0].rel
    if len(over.elements) > 1 or not isinstance(aggregate, Aggregate) or len(aggregate.groups) != 1:
        return None
    rows, columns = projected(aggregate.rows)
    group = aggregate.groups[0]
    if not isinstance(group, Column) or group.key not in columns:
        return None
    return _Groups(aggregate, over, rows, columns, columns[group.key])


def _places(tree: JoinTree, number: int, groups: _Groups) -> Iterator[_Place]:
    """Yield the elements that have the rows of the groups, and are joined by the value that the semijoin looks up."""
    existence = tree.elements[number].existence
    ends = equated(existence.conditions[0]) if existence else None
    if ends is None:
        return
    partner, looked_up = sorted(ends, key=lambda each: each[0] == number)
    if groups.over.columns[looked_up[1]] != Column((0, 0)):
        return
    for other, element in enumerate(tree.elements):
        rows, columns = projected(element.rel)
        if element.existence is None and rows is groups.rows:
            pairs = [{(other, at), partner} for at, source in columns.items() if source == groups.key]
            if any(_are_equal(each) in pairs for each in tree.conditions):
                yield _Place(number, other, columns)


def _are_equal(condition: Expression[ElementColumn]) -> set[ElementColumn]:
    """Return the columns of which a condition says that they are equal, and not NULL."""
    is_equality = isinstance(condition, Comparison) and condition.comparator is Comparator.EQUAL
    return set(equated(condition) or ()) if is_equality else set()


def _with_groups(rel: Aggregate, tree: JoinTree, place: _Place, groups: _Groups) -> JoinTree | None:
    """Put groups with all calls of an aggregate in the place of rows; None if anything else reads the rows."""
    below = {source: at for at, source in groups.columns.items()}
    argument_of: dict[ElementColumn, Expression[int]] = {
        (place.rows, at): Column(below[source]) for at, source in place.columns.items() if source in below
    }
    calls = list(groups.aggregate.calls)
    for call in rel.calls:
        args = [_over_tree(each, tree) for each in call.args]
        if call.condition is not None or any(key not in argument_of for each in args for key in each.columns()):
            return None
        calls.append(replace(call, args=tuple(each.with_columns(argument_of.__getitem__) for each in args)))
    first = 1 + len(groups.aggregate.calls)
    columns = [_over_tree(each, tree) for each in rel.groups]
    columns += [Column((place.groups, at)) for at in range(first, 1 + len(calls))]
    moved = {(place.rows, at): (place.groups, 0) for at, source in place.columns.items() if source == groups.key}
    tree = replace(tree, columns=tuple(columns))
    if any(key[0] == place.rows and key not in moved for key in _read(tree, place.groups)):
        return None
    aggregate = replace(groups.aggregate, calls=tuple(calls))
    conditions = (each.with_columns(lambda key: Column(key[1])) for each in groups.over.conditions)
    new = Element(algebra.Filter(aggregate, tuple(conditions)))
    return without_element(tree, place.rows, {place.groups: new}, moved)


def _over_tree(of: Expression[int], tree: JoinTree) -> Expression[ElementColumn]:
    return of.with_columns(tree.columns.__getitem__)


def _read(tree: JoinTree, but: int) -> Iterator[ElementColumn]:
    """Yield the columns that a tree reads, except in one semijoin."""
    for each in (*tree.columns, *tree.conditions):
        yield from each.columns()
    for number, element in enumerate(tree.elements):
        if number != but and element.existence is not None:
            for each in element.existence.conditions:
                yield from each.columns()
