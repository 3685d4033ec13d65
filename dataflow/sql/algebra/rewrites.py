"""Rewrites of a plan before it becomes collections.

DuckDB evaluates a correlated subquery for the keys that occur outside, and joins the results. For an engine that keeps
both sides, two forms of this are more work than needed:

- A row joined with the largest or smallest value of its own group is an extreme of the group.
- Rows that are joined on some keys need no semijoin with the same keys below the join, or one with fewer keys.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from deltamark.dataflow.scalars.expressions import Column, Comparator, Comparison, Expression, is_not_null
from deltamark.dataflow.sql.algebra import operations as algebra
from deltamark.dataflow.sql.algebra.join_tree import Element, JoinTree, taken_apart
from deltamark.dataflow.sql.algebra.operations import ElementColumn, Relational, copies, equated

EXTREMES: Mapping[str, Literal["smallest", "largest"]] = {"min": "smallest", "max": "largest"}


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
    base, below, conditions = _over_base(_all_groups(tree, at, extremes, columns))
    sources = [below.get(each.key) if isinstance(each, Column) else None for each in read]
    groups = set(sources[:-1])
    if None in sources or set(columns.values()) != set(range(len(read))) or not _reads_only(conditions, groups):
        return None
    for other, each in enumerate(tree.elements):
        same, of_other, own_conditions = _over_base(each.rel)
        column_of = {source: column for column, source in of_other.items()}
        if other == at or same is not base or not _reads_only(own_conditions, groups):
            continue
        if not set(sources) <= set(column_of):
            continue
        partners = [column_of[source] for source in sources if source is not None]
        pairs = {(at, mine): (other, partners[position]) for mine, position in columns.items()}
        rest = _without(tree.conditions, pairs)
        if rest is not None:
            *keys, value = partners
            kept = tuple(_moved(condition, column_of) for condition in conditions)
            rel = algebra.Extreme(algebra.Filter(each.rel, kept), tuple(keys), value, EXTREMES[call.function])
            return without_element(replace(tree, conditions=rest), at, {other: Element(rel)}, pairs)
    return None


def _all_groups(tree: JoinTree, at: int, extremes: algebra.Aggregate, columns: Mapping[int, int]) -> Relational:
    """Return the rows of an aggregate without a semijoin with the values that its groups are joined with."""
    groups = copies(extremes.groups)
    group_of = {column: groups[to] for column, to in columns.items() if to in groups}
    partners = _partners(tree, at)
    sources = {group_of[each]: source for each, source in partners.items() if each in group_of}
    return _without_reduction(extremes.rows, sources)


def _over_base(rel: Relational) -> tuple[Relational, Mapping[int, int], Sequence[Expression[int]]]:
    """Read an operation as filters and projections of other rows.

    Return these rows, which of their columns each column is, and the conditions over their columns.
    """
    tree = taken_apart(rel)
    if len(tree.elements) > 1:
        return rel, {at: at for at in range(algebra.width(rel))}, ()
    columns = {at: each.key[1] for at, each in enumerate(tree.columns) if isinstance(each, Column)}
    conditions = [each.with_columns(lambda key: Column(key[1])) for each in tree.conditions]
    base = tree.elements[0].rel
    if not isinstance(base, algebra.Shared):
        return base, columns, conditions
    base, below, lower = _over_base(base.rows)
    if not _reads_only(conditions, below):
        return tree.elements[0].rel, columns, conditions
    moved = [_moved(each, below) for each in conditions]
    return base, {at: below[column] for at, column in columns.items() if column in below}, [*lower, *moved]


def _moved(of: Expression[int], columns: Mapping[int, int]) -> Expression[int]:
    return of.with_columns(lambda key: Column(columns[key]))


def _reads_only(conditions: Sequence[Expression[int]], columns: Collection[int | None]) -> bool:
    return all(key in columns for each in conditions for key in each.columns())


def with_columns_for_groups(rel: algebra.Aggregate) -> algebra.Aggregate:
    """Compute the keys of groups in a projection, so that a join below may compute them before it pairs rows."""
    computed = [each for each in rel.groups if not isinstance(each, Column)]
    if not computed:
        return rel
    wide = algebra.width(rel.rows)
    below = algebra.Project(rel.rows, (*algebra.columns(wide), *computed))
    position = iter(range(wide, wide + len(computed)))
    groups = tuple(each if isinstance(each, Column) else Column(next(position)) for each in rel.groups)
    return replace(rel, rows=below, groups=groups)


def without_reductions(tree: JoinTree) -> JoinTree:
    """Leave out semijoins with keys that the join itself compares with the same values."""
    elements = list(tree.elements)
    for at, element in enumerate(elements):
        elements[at] = replace(element, rel=_without_reduction(element.rel, _partners(tree, at)))
    return replace(tree, elements=tuple(elements))


def _partners(tree: JoinTree, at: int) -> Mapping[int, Source | None]:
    """Return, for the columns of an element that are compared with columns of others, the values of the latter."""
    element = tree.elements[at]
    conditions = tree.conditions_on.get(at, ()) if element.existence is None else element.existence.conditions
    sources = {}
    for one, other in filter(None, map(equated, conditions)):
        for mine, partner in ((one, other), (other, one)):
            if mine[0] == at:
                sources[mine[1]] = _source(tree, partner)
    return sources


Source = tuple[Relational, int]
"""Rows, and the number of a column."""


def _source(tree: JoinTree, partner: ElementColumn) -> Source | None:
    """Return the rows below projections from which a column of an element comes; None if it is computed."""
    number, column = partner
    rel, columns = projected(tree.elements[number].rel)
    return (rel, columns[column]) if column in columns else None


def _without_reduction(rel: Relational, sources: Mapping[int, Source | None]) -> Relational:
    """Leave out semijoins with values from given sources. sources: for each column, values that it must have anyway."""
    match rel:
        case algebra.Project():
            return replace(rel, rows=_without_reduction(rel.rows, _below(rel.expressions, sources)))
        case algebra.Filter():
            return replace(rel, rows=_without_reduction(rel.rows, sources))
        case algebra.Aggregate():
            return replace(rel, rows=_with_fewer_keys(rel.rows, _below(rel.groups, sources)))
        case algebra.Join(kind="SEMI") if _reduces_only(rel, sources):
            conditions = tuple(
                is_not_null(Column(min(equated(each) or ()))) for each in rel.conditions if _never_equates_null(each)
            )
            return algebra.Filter(rel.left, conditions) if conditions else rel.left
    return rel


def _below(columns: Sequence[Expression[int]], sources: Mapping[int, Source | None]) -> Mapping[int, Source | None]:
    """Return the sources of the columns that some columns copy."""
    copied = copies(columns)
    return {copied[at]: source for at, source in sources.items() if at in copied}


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
            return replace(rel, rows=_with_fewer_keys(rel.rows, _below(rel.expressions, sources)))
        case algebra.Filter():
            return replace(rel, rows=_with_fewer_keys(rel.rows, sources))
        case algebra.Join(kind="SEMI") if len(rel.conditions) > 1 and _reduces_only(rel, sources):
            limits = ((each, _limit(rel, each)) for each in rel.conditions)
            for condition, limit in limits:
                if limit is not None:
                    mine, theirs = Column(min(equated(condition) or ())), Column(algebra.width(rel.left))
                    equal = Comparison(Comparator.EQUAL, mine, theirs)
                    return replace(rel, right=limit, conditions=(equal,))
    return rel


def _limit(rel: algebra.Join, condition: Expression[int]) -> Relational | None:
    """Return the rows whose values a semijoin inside the right side of another one admits; None if there are none."""
    compared = _compared_source(rel, condition)
    if compared is None or not _never_equates_null(condition):
        return None
    base, column = compared[1]
    tree = taken_apart(base.rows if isinstance(base, algebra.Shared) else base)
    place = tree.columns[column]
    for number, element in enumerate(tree.elements):
        for pair in map(equated, element.existence.conditions if element.existence else ()):
            ends = set(pair or ())
            mine = next((each for each in ends if each[0] == number), None)
            found = isinstance(place, Column) and place.key in ends and mine is not None
            if element.existence and element.existence.join.kind == "SEMI" and found and mine:
                return algebra.Project(element.rel, (Column(mine[1]),))
    return None


def _compared_source(rel: algebra.Join, condition: Expression[int]) -> tuple[int, Source] | None:
    """Return the left column of an equality, and the source of the right one: the groups of an aggregate."""
    keys, columns = projected(rel.right)
    pair = equated(condition)
    if pair is None:
        return None
    mine, theirs = sorted(pair)
    position = columns.get(theirs - algebra.width(rel.left))
    if not isinstance(keys, algebra.Aggregate) or keys.calls or position is None:
        return None
    base, below = projected(keys.rows)
    group = keys.groups[position]
    return (mine, (base, below[group.key])) if isinstance(group, Column) and group.key in below else None


def projected(rel: Relational) -> tuple[Relational, Mapping[int, int]]:
    """Look through projections: return what they read, and which of its columns each of their columns is."""
    columns = {at: at for at in range(algebra.width(rel))}
    while isinstance(rel, algebra.Project):
        copied = copies(rel.expressions)
        columns = {at: copied[to] for at, to in columns.items() if to in copied}
        rel = rel.rows
    return rel, columns


def _never_equates_null(condition: Expression[int] | Expression[ElementColumn]) -> bool:
    return isinstance(condition, Comparison) and condition.comparator is Comparator.EQUAL


def _without(
    conditions: Sequence[Expression[ElementColumn]], pairs: Mapping[ElementColumn, ElementColumn]
) -> tuple[Expression[ElementColumn], ...] | None:
    """Leave out the equalities of pairs of columns; None if one of them is missing. NULL equals nothing in some."""
    rest: list[Expression[ElementColumn]] = []
    missing = dict(pairs)
    for each in conditions:
        ends = equated(each) or ()
        found = next((one for one in ends if one in pairs and pairs[one] in ends), None)
        if found is None:
            rest.append(each)
            continue
        missing.pop(found, None)
        if _never_equates_null(each):
            rest.append(is_not_null(Column(pairs[found])))
    return None if missing else tuple(rest)


def without_element(
    tree: JoinTree, at: int, new: Mapping[int, Element], moved: Mapping[ElementColumn, ElementColumn]
) -> JoinTree:
    """Remove an element, whose columns another one replaces. new: elements in the place of others."""
    stand_in = next(number for number, _ in moved.values())

    def number(old: int) -> int:
        old = stand_in if old == at else old
        return old - (old > at)

    def place(key: ElementColumn) -> Expression[ElementColumn]:
        element, column = moved.get(key, key)
        return Column((number(element), column))

    def over_places(of: Sequence[Expression[ElementColumn]]) -> tuple[Expression[ElementColumn], ...]:
        return tuple(each.with_columns(place) for each in of)

    def renumbered(element: Element) -> Element:
        if element.existence is None:
            return element
        old = element.existence
        reads = sum({1 << number(each) for each in range(old.reads.bit_length()) if old.reads & 1 << each})
        return replace(element, existence=replace(old, conditions=over_places(old.conditions), reads=reads))

    elements = tuple(renumbered(new.get(old, each)) for old, each in enumerate(tree.elements) if old != at)
    return JoinTree(elements, over_places(tree.conditions), over_places(tree.columns))
