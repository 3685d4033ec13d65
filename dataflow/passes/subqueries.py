"""Rewrites of joins that come from subqueries, in SQL and in plans by hand.

A correlated subquery is evaluated for the keys that occur outside, and its results are joined. For an engine that keeps
both sides, some forms of this are more work than needed:

- A row joined with the largest or smallest value of its own group is an extreme of the group.
- Rows that are joined on some keys need no semijoin with the same keys below the join, or one with fewer keys.
- Rows that are compared with the one limit of their group are a semijoin with the limits. So no join begins with the
  limits, and the comparison can become a moving threshold of `rewrite.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from deltamark.dataflow.language.by_terms import filtered, projected, renamed_apart, with_columns
from deltamark.dataflow.operators.aggregate import Aggregate
from deltamark.dataflow.operators.derived import Partners, SideBySide, TermPair
from deltamark.dataflow.operators.extreme import Extreme
from deltamark.dataflow.operators.linear import Filter, Project
from deltamark.dataflow.operators.node import Node, is_unique
from deltamark.dataflow.operators.null_row import NullRow
from deltamark.dataflow.operators.threshold import Threshold
from deltamark.dataflow.passes.join_tree import (
    JoinTree,
    Part,
    Source,
    Test,
    as_pair,
    as_semijoin,
    base_of,
    column_names,
    over,
    reading,
    source_of,
    taken_apart,
    without_part,
)
from deltamark.dataflow.plan.terms import Coalesce, Column, IsNull, Less, Not, Term, column
from deltamark.dataflow.scalars.values import known_term, requirements

Sources = Mapping[str, Source]
"""For columns of a node, the values that they must have anyway."""


def with_extremes(tree: JoinTree) -> JoinTree:
    """Replace a join of rows with the extremes of their own groups by the extreme rows."""
    for at in range(len(tree.parts)):
        found = _own_extremes(tree, at)
        if found is not None:
            return with_extremes(found)
    return tree


class _Extremes(NamedTuple):
    """The extreme of each group, with the names of its columns in a node above."""

    node: Extreme
    columns: Mapping[str, str]


def _extremes(part: Node) -> _Extremes | None:
    """Read a node as the distinct extremes of groups."""
    columns = {name: name for name in part.schema.names}
    while isinstance(part, Project):
        columns = {name: part.copied[old] for name, old in columns.items() if old in part.copied}
        part = part.rows
    if isinstance(part, SideBySide):
        (first, *others) = part.pieces
        if len(others) != 1 or first.rows.schema.names != part.keys:
            return None
        part = others[0].rows
    elif isinstance(part, NullRow):
        part = part.rows
    if not isinstance(part, Threshold) or part.least > 1:
        return None
    part = part.rows
    while isinstance(part, Project):
        columns = {name: part.copied[old] for name, old in columns.items() if old in part.copied}
        part = part.rows
    if not isinstance(part, Extreme) or set(columns.values()) != {*part.keys, part.column}:
        return None
    return _Extremes(part, columns)


def _own_extremes(tree: JoinTree, at: int) -> JoinTree | None:
    """Remove a part that is the extremes of another part; None if it is no such part."""
    test = tree.parts[at].test
    extremes = _extremes(tree.parts[at].node)
    if extremes is None or (test is not None and (test.conditions or not test.are_kept)):
        return None
    node, columns = extremes
    partners = _partners(tree, at)
    known = {columns[name]: each for name, each in partners.items() if name in columns}
    base = base_of(_without_reduction(node.rows, known))
    origins = base.columns
    best_names = {name for name, old in columns.items() if old == node.column}
    is_whole = len(known) == len(partners) and {*node.keys, node.column} <= origins.keys()  # or a column is computed
    if not is_whole or not all(_equals_no_null(tree, each) for each in best_names):
        return None
    groups, value = [origins[key] for key in node.keys], origins[node.column]
    kept = [each for each in base.conditions if each is not Not(IsNull(column(value, base.node.schema[value])))]
    if not _reads_only(kept, groups):
        return None
    for other, part in enumerate(tree.parts):
        own = base_of(part.node)
        column_of = {source: name for name, source in own.columns.items() if isinstance(own.terms[name], Column)}
        if other == at or part.test is not None or own.node is not base.node or not _reads_only(own.conditions, groups):
            continue
        if not {*groups, value} <= column_of.keys():
            continue
        pairs = {name: column_of[origins[mine]] for name, mine in columns.items()}
        rest = _without(test.equal if test else tree.equal, pairs)
        if rest is None or (test and rest):
            continue
        rest = tree.equal if test else rest
        types, schema = part.node.schema, part.node.schema
        terms = {source: column(name, schema[name]) for source, name in column_of.items()}
        if any(each.columns - terms.keys() for each in kept):
            continue
        rows = filtered(part.node, *(over(each, terms) for each in kept))
        best = column(column_of[value], types[column_of[value]])
        if best.type.nullable:
            rows = filtered(rows, Not(IsNull(best)))
        rows, (name,) = with_columns(rows, [known_term(best)], "value", tree.number_of)
        keys = tuple(column_of[each] for each in groups)
        made = Extreme(rows, keys, name, node.which, (), schema=rows.schema)
        moved = {old: column(new, types[new]) for old, new in pairs.items()}
        return without_part(replace(tree, equal=rest), at, {other: Part(made)}, moved)
    return None


def _equals_no_null(tree: JoinTree, name: str) -> bool:
    """Return whether a value that a column is equal to is not NULL."""
    tested = (pair for part in tree.parts if part.test for pair in part.test.equal)
    pairs = [tuple(map(_stored, pair)) for pair in (*tree.equal, *tested)]
    ends = [each for pair in pairs if any(name in end.columns for end in pair) for each in pair]
    return any(not each.type.nullable or Not(IsNull(each)) in tree.conditions for each in ends)


def _stored(term: Term) -> Term:
    return term.value if isinstance(term, Coalesce) else term


def _reads_only(conditions: Sequence[Term], columns: Collection[str]) -> bool:
    return all(each.columns <= set(columns) for each in conditions)


def _without(equal: Sequence[TermPair], pairs: Mapping[str, str]) -> tuple[TermPair, ...] | None:
    """Leave out the equalities of pairs of columns; None if one of them is missing."""
    missing = set(pairs)
    rest = []
    for pair in equal:
        names = [*column_names(pair[0]), *column_names(pair[1])]
        found = next((one for one in names if len(names) > 1 and pairs.get(one) in names), None)
        missing.discard(found or "")
        if found is None:
            rest.append(pair)
    return None if missing else tuple(rest)


def without_reductions(tree: JoinTree) -> JoinTree:
    """Leave out semijoins with keys that the join itself compares with the same values."""
    parts = [
        replace(each, node=_without_reduction(each.node, _partners(tree, at))) for at, each in enumerate(tree.parts)
    ]
    return replace(tree, parts=tuple(parts))


def _partners(tree: JoinTree, at: int) -> Sources:
    """Return, for the columns of a part that are compared with columns of others, the sources of the latter."""
    part = tree.parts[at]
    found = {}
    for pair in part.test.equal if part.test else tree.equal:
        for mine, other in (pair, pair[::-1]):
            for name, partner in zip(column_names(mine), column_names(other), strict=False):
                if tree.number_of[name] == at:
                    source = source_of(tree.parts[tree.number_of[partner]].node, partner)
                    if source is not None:
                        found[name] = source
    return found


def _without_reduction(node: Node, sources: Sources) -> Node:
    """Leave out semijoins with values from given sources."""
    new = node
    match node:
        case Project():
            new = replace(node, rows=_without_reduction(node.rows, _below(node, sources)))
        case Filter():
            new = replace(node, rows=_without_reduction(node.rows, sources))
        case Aggregate() | Threshold() | SideBySide():
            new = _with_fewer_keys(node, sources)
        case _ if (semijoin := as_semijoin(node)) is not None:
            new = _without_reduction(semijoin, sources)
        case Partners(are_kept=True) if _reduces_only(node, sources):
            left = set(node.schema.names)
            new = filtered(node.rows, *(each for each in node.conditions if each.columns <= left))
    return new


def _below(node: Project, sources: Sources) -> Sources:
    return {old: sources[name] for name, term in node.columns if name in sources for old in column_names(term)}


def _with_fewer_keys(node: Node, sources: Sources) -> Node:
    """Replace a semijoin on several columns, below groups by them, by one on a column that another join limits.

    The groups are joined with the same values, so that a semijoin with more values changes no result. One with the rows
    that limit these values needs neither their distinct combinations nor an index of several columns.
    """
    new, keys = node, sources
    if isinstance(node, Aggregate | Extreme | SideBySide):
        keys = {name: source for name, source in sources.items() if name in node.keys}
    match node:
        case Project():
            new = replace(node, rows=_with_fewer_keys(node.rows, _below(node, sources)))
        case Filter() | Threshold() | Aggregate() | Extreme():
            new = replace(node, rows=_with_fewer_keys(node.rows, keys))
        case SideBySide():
            pieces = tuple(replace(each, rows=_with_fewer_keys(each.rows, keys)) for each in node.pieces)
            new = replace(node, pieces=pieces)
        case _ if (semijoin := as_semijoin(node)) is not None:
            new = _with_fewer_keys(semijoin, sources)
        case Partners(are_kept=True) if len(node.equal) > 1 and _reduces_only(node, sources):
            new = next(_limited(node), node)
    return new


def _reduces_only(node: Partners, sources: Sources) -> bool:
    """Return whether a semijoin compares columns with values that they must have anyway.

    One that compares nothing tests whether there are other rows at all.
    """
    if not node.equal:
        return False
    left, right = set(node.rows.schema.names), set(node.others.schema.names)
    known = [_compared(node, each) for each in node.equal]
    return all(each is not None and sources.get(each[0]) == each[1] for each in known) and all(
        each.columns <= left or (each.columns <= right and isinstance(each, Not) and isinstance(each.condition, IsNull))
        for each in node.conditions
    )


def _compared(node: Partners, pair: TermPair) -> tuple[str, Source] | None:
    """Return the left column of an equality, and the source of the right one: distinct values."""
    for mine, theirs in zip(column_names(pair[0]), column_names(pair[1]), strict=False):
        keys = source_of(node.others, theirs)
        if keys is not None and isinstance(keys[0], Threshold):
            source = source_of(keys[0].rows, keys[1])
            if source is not None:
                return mine, source
    return None


def _limited(node: Partners) -> Iterator[Partners]:
    """Yield a semijoin with the rows whose values another semijoin, inside the right side, admits."""
    for pair in node.equal:
        compared = _compared(node, pair)
        if compared is None or pair[0].type.nullable or pair[1].type.nullable:
            continue  # NULL equals NULL
        base, name = compared[1]
        tree = taken_apart(base, lambda _: False)
        place = column_names(tree.columns[name])
        for part in tree.parts:
            for mine, theirs in part.test.equal if part.test and part.test.are_kept else ():
                if place and column_names(mine) == place and column_names(theirs):
                    limit = projected(
                        part.node, {other: column(other, part.node.schema[other]) for other in column_names(theirs)}
                    )
                    limit, columns = renamed_apart(limit, node.rows.schema.names)
                    (key,) = columns.values()
                    conditions = [each for each in node.conditions if each.columns and each.columns <= pair[0].columns]
                    if key.type.nullable:
                        conditions.append(Not(IsNull(key)))
                    equal = ((pair[0], known_term(key)),)
                    yield replace(node, others=limit, equal=equal, conditions=tuple(conditions))


def with_limits(tree: JoinTree, wanted: Sequence[Term]) -> JoinTree:
    """Read each part that has one limit for each key, of which no column is wanted, as a semijoin."""
    for at in range(len(tree.parts)):
        found = _as_limits(tree, at, wanted)
        if found is not None:
            return with_limits(found, wanted)
    return tree


def _as_limits(tree: JoinTree, at: int, wanted: Sequence[Term]) -> JoinTree | None:
    """Read a part as the limits of another one; None if it is anything else, or if each limit has one row."""
    own, limits = 1 << at, tree.parts[at]
    tests = [part.test for part in tree.parts if part.test is not None]
    if limits.test is not None or tree.reads(*wanted) & own or any(each.reads & own for each in tests):
        return None
    given = [part for each in tree.conditions for part in requirements(each)]
    between = {each: as_pair(each) for each in given if tree.reads(each) & own and tree.reads(each) & ~own}
    comparisons = [each for each, terms in between.items() if len(terms) == 1]
    if len(comparisons) != 1 or not isinstance(_positive(comparisons[0]), Less):
        return None
    rows = tree.reads(comparisons[0]) & ~own
    equal = [pair for pair in (*tree.equal, *between.values()) if len(pair) == 2 and tree.reads(*pair) & own]
    pairs = [pair if tree.reads(pair[1]) == own else pair[::-1] for pair in equal]
    if rows.bit_count() != 1 or any(tree.reads(theirs) != own or tree.reads(mine) & own for mine, theirs in pairs):
        return None
    of_rows = {theirs: mine for mine, theirs in pairs if tree.reads(mine) == rows}
    keys, row_keys = ([name for each in side for name in column_names(each)] for side in (of_rows, of_rows.values()))
    if {theirs for _, theirs in pairs} != of_rows.keys() or not is_unique(limits.node, keys):
        return None
    if is_unique(tree.parts[rows.bit_length() - 1].node, row_keys):
        return None
    test = Test(tuple((mine, theirs) for theirs, mine in of_rows.items()), (comparisons[0],), are_kept=True, reads=0)
    others = [(mine, of_rows[theirs]) for mine, theirs in pairs if mine is not of_rows[theirs]]
    return reading(
        replace(
            tree,
            parts=(*tree.parts[:at], replace(limits, test=test), *tree.parts[at + 1 :]),
            equal=(*(pair for pair in tree.equal if not tree.reads(*pair) & own), *others),
            conditions=tuple(each for each in given if each not in between),
        )
    )


def _positive(condition: Term) -> Term:
    return condition.condition if isinstance(condition, Not) else condition
