"""Rewrites of a plan before it becomes collections.

DuckDB evaluates a correlated subquery for the keys that occur outside, and joins the results. For an engine that keeps
both sides, two forms of this are more work than needed:

- A row joined with the largest or smallest value of its own group is an extreme of the group.
- Rows that are joined on some keys need no semijoin with the same keys below the join, or one with fewer keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, cast

from deltamark.dataflow.sql.algebra import operations as algebra
from deltamark.dataflow.sql.algebra.join_tree import Element, JoinTree, taken_apart
from deltamark.dataflow.sql.algebra.operations import Expression, Relational

EXTREMES: Mapping[str, Literal["smallest", "largest"]] = {"min": "smallest", "max": "largest"}
EQUALITIES = ("=", "not distinct")

Column = tuple[int, int]
"""The number of an element, and that of its column."""


def with_extremes(tree: JoinTree) -> JoinTree:
    """Replace a join of rows with the extremes of their own groups by the extreme rows."""
    if any(each.existence for each in tree.elements):
        return tree
    for at, element in enumerate(tree.elements):
        found = _own_extremes(tree, at, element)
        if found is not None:
            return with_extremes(found)
    return tree


def _own_extremes(tree: JoinTree, at: int, element: Element) -> JoinTree | None:
    """Remove an element that is the extremes of another element; None if it is no such element."""
    extremes, columns = projected(element.rel)
    if not isinstance(extremes, algebra.Aggregate) or len(extremes.calls) != 1:
        return None
    call = extremes.calls[0]
    read = [*extremes.groups, *call.args]
    if call.function not in EXTREMES or call.type.name == "VARCHAR" or call.condition is not None:
        return None
    base, below = projected(extremes.rows)
    sources = [below.get(cast("int", each.value)) if each.op == "column" else None for each in read]
    if None in sources or set(columns.values()) != set(range(len(read))):
        return None
    for other, each in enumerate(tree.elements):
        same, of_other = projected(each.rel)
        column_of = {source: column for column, source in of_other.items()}
        if other == at or same is not base or not set(sources) <= set(column_of):
            continue
        partners = [column_of[cast("int", source)] for source in sources]
        pairs = {(at, mine): (other, partners[position]) for mine, position in columns.items()}
        conditions = _without(tree.conditions, pairs)
        if conditions is not None:
            *keys, value = partners
            rel = algebra.Extreme(each.rel, tuple(keys), value, EXTREMES[call.function])
            return _removed(replace(tree, conditions=conditions), at, {other: Element(rel)}, pairs)
    return None


def with_columns_for_groups(rel: algebra.Aggregate) -> algebra.Aggregate:
    """Compute the keys of groups in a projection, so that a join below may compute them before it pairs rows."""
    computed = [each for each in rel.groups if each.op != "column"]
    if not computed:
        return rel
    wide = algebra.width(rel.rows)
    below = algebra.Project(rel.rows, (*algebra.columns(wide), *computed))
    position = iter(range(wide, wide + len(computed)))
    groups = tuple(each if each.op == "column" else algebra.column(next(position)) for each in rel.groups)
    return replace(rel, rows=below, groups=groups)


def without_reductions(tree: JoinTree) -> JoinTree:
    """Leave out semijoins with keys that the join itself compares with the same values."""
    elements = list(tree.elements)
    for at, element in enumerate(elements):
        conditions = tree.conditions if element.existence is None else element.existence.conditions
        partners: dict[int, Column] = {}
        for one, other in filter(None, map(_equated, conditions)):
            for mine, partner in ((one, other), (other, one)):
                if mine[0] == at:
                    partners[mine[1]] = partner
        sources = {column: _source(tree, partner) for column, partner in partners.items()}
        elements[at] = replace(element, rel=_without_reduction(element.rel, sources))
    return replace(tree, elements=tuple(elements))


Source = tuple[Relational, int]
"""Rows, and the number of a column."""


def _source(tree: JoinTree, partner: Column) -> Source | None:
    """Return the rows below projections from which a column of an element comes; None if it is computed."""
    number, column = partner
    rel, columns = projected(tree.elements[number].rel)
    return (rel, columns[column]) if column in columns else None


def _without_reduction(rel: Relational, sources: Mapping[int, Source | None]) -> Relational:
    """Leave out semijoins with values from given sources. sources: for each column, values that it must have anyway."""
    match rel:
        case algebra.Project():
            copies = {at: each.value for at, each in enumerate(rel.expressions) if each.op == "column"}
            below = {cast("int", copies[at]): source for at, source in sources.items() if at in copies}
            return replace(rel, rows=_without_reduction(rel.rows, below))
        case algebra.Filter():
            return replace(rel, rows=_without_reduction(rel.rows, sources))
        case algebra.Aggregate():
            of_groups = {at: each.value for at, each in enumerate(rel.groups) if each.op == "column"}
            below = {cast("int", of_groups[at]): source for at, source in sources.items() if at in of_groups}
            return replace(rel, rows=_with_fewer_keys(rel.rows, below))
        case algebra.Join(kind="SEMI") if _reduces_only(rel, sources):
            equal = [each for each in rel.conditions if each.op == "="]
            keys = [min(each.args, key=lambda arg: cast("int", arg.value)) for each in equal]
            conditions = tuple(
                Expression("is not null", each.type, (key,)) for each, key in zip(equal, keys, strict=True)
            )
            return algebra.Filter(rel.left, conditions) if conditions else rel.left
    return rel


def _reduces_only(rel: algebra.Join, sources: Mapping[int, Source | None]) -> bool:
    """Return whether a semijoin compares columns with values that they must have anyway."""
    known = [_compared_source(rel, each) for each in rel.conditions]
    return all(each is not None and sources.get(each[0]) == each[1] for each in known)


def _with_fewer_keys(rel: Relational, sources: Mapping[int, Source | None]) -> Relational:
    """Replace a semijoin on several columns, below an aggregate by them, by one on a column that another join limits.

    The aggregate's groups are joined with the same values, so that a semijoin with more values changes no result. One
    with the rows that limit these values needs neither their distinct combinations nor an index of several columns.
    """
    match rel:
        case algebra.Project():
            copies = {at: each.value for at, each in enumerate(rel.expressions) if each.op == "column"}
            below = {cast("int", copies[at]): source for at, source in sources.items() if at in copies}
            return replace(rel, rows=_with_fewer_keys(rel.rows, below))
        case algebra.Filter():
            return replace(rel, rows=_with_fewer_keys(rel.rows, sources))
        case algebra.Join(kind="SEMI") if len(rel.conditions) > 1 and _reduces_only(rel, sources):
            limits = ((each, _limit(rel, each)) for each in rel.conditions)
            for condition, limit in limits:
                if limit is not None:
                    mine = min(condition.args, key=lambda arg: cast("int", arg.value))
                    theirs = algebra.column(algebra.width(rel.left))
                    equal = Expression("=", condition.type, (mine, theirs))
                    return replace(rel, right=limit, conditions=(equal,))
    return rel


def _limit(rel: algebra.Join, condition: Expression) -> Relational | None:
    """Return the rows whose values a semijoin inside the right side of another one admits; None if there are none."""
    compared = _compared_source(rel, condition)
    if compared is None or condition.op != "=":
        return None
    base, column = compared[1]
    tree = taken_apart(base.rows if isinstance(base, algebra.Shared) else base)
    place = tree.columns[column].value
    for number, element in enumerate(tree.elements):
        for equated in map(_equated, element.existence.conditions if element.existence else ()):
            ends = set(equated or ())
            mine = next((each for each in ends if each[0] == number), None)
            if element.existence and element.existence.join.kind == "SEMI" and place in ends and mine is not None:
                return algebra.Project(element.rel, (algebra.column(mine[1]),))
    return None


def _compared_source(rel: algebra.Join, condition: Expression) -> tuple[int, Source] | None:
    """Return the left column of an equality, and the source of the right one: the groups of an aggregate."""
    keys, columns = projected(rel.right)
    if condition.op not in EQUALITIES or any(each.op != "column" for each in condition.args):
        return None
    mine, theirs = sorted(cast("int", each.value) for each in condition.args)
    position = columns.get(theirs - algebra.width(rel.left))
    if not isinstance(keys, algebra.Aggregate) or keys.calls or position is None:
        return None
    base, below = projected(keys.rows)
    group = keys.groups[position]
    return (mine, (base, below[cast("int", group.value)])) if group.op == "column" and group.value in below else None


def projected(rel: Relational) -> tuple[Relational, Mapping[int, int]]:
    """Look through projections: return what they read, and which of its columns each of their columns is."""
    columns = {at: at for at in range(algebra.width(rel))}
    while isinstance(rel, algebra.Project):
        copies = {at: each.value for at, each in enumerate(rel.expressions) if each.op == "column"}
        columns = {at: cast("int", copies[to]) for at, to in columns.items() if to in copies}
        rel = rel.rows
    return rel, columns


def _equated(condition: Expression) -> tuple[Column, Column] | None:
    """Return the columns that a condition makes equal; None if it is no such condition."""
    if condition.op not in EQUALITIES or any(each.op != "column" for each in condition.args):
        return None
    one, other = (cast("Column", each.value) for each in condition.args)
    return one, other


def _without(conditions: Sequence[Expression], pairs: Mapping[Column, Column]) -> tuple[Expression, ...] | None:
    """Leave out the equalities of pairs of columns; None if one of them is missing. NULL equals nothing in some."""
    rest: list[Expression] = []
    missing = dict(pairs)
    for each in conditions:
        equated = _equated(each)
        found = next((one for one in equated if one in pairs and pairs[one] in equated), None) if equated else None
        if found is None:
            rest.append(each)
            continue
        missing.pop(found, None)
        if each.op == "=":
            rest.append(Expression("is not null", each.type, (algebra.column(pairs[found]),)))
    return None if missing else tuple(rest)


def _removed(tree: JoinTree, at: int, new: Mapping[int, Element], moved: Mapping[Column, Column]) -> JoinTree:
    """Remove an element, whose columns others replace."""

    def place(key: algebra.ColumnKey) -> Expression:
        old = cast("Column", key)
        number, column = moved.get(old, old)
        return algebra.column((number - (number > at), column))

    elements = tuple(new.get(number, each) for number, each in enumerate(tree.elements) if number != at)
    conditions = tuple(each.with_columns(place) for each in tree.conditions)
    return JoinTree(elements, conditions, tuple(each.with_columns(place) for each in tree.columns))
