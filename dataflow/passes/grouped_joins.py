"""Rewrites of aggregates of joined rows, in SQL and in plans by hand.

- Groups that a semijoin has summed can take the place of the rows: in
  `SELECT o.id, sum(l.x) FROM o JOIN l ON l.id = o.id WHERE o.id IN (SELECT id FROM l GROUP BY id HAVING ...) GROUP BY
  o.id` the groups that satisfy HAVING are joined, instead of all rows of `l`.
- Sums of a left join by its key need no pairs: the rows of both sides are added up, and those with a left row kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from deltamark.dataflow.language import collection as language
from deltamark.dataflow.language.by_terms import columns_of, filtered, fresh, projected, renamed_apart
from deltamark.dataflow.operators.aggregate import Aggregate, Sum
from deltamark.dataflow.operators.linear import Project
from deltamark.dataflow.operators.node import Node, is_unique
from deltamark.dataflow.passes.join_tree import (
    Base,
    JoinTree,
    Part,
    as_left_join,
    base_of,
    column_names,
    over,
    source_of,
    without_part,
)
from deltamark.dataflow.plan.terms import Column, IsNull, Less, Not, Term, column, null, number
from deltamark.dataflow.scalars.values import known_term
from deltamark.dataflow.types import Field, Schema, integer


def with_reused_groups(of: Aggregate, tree: JoinTree) -> Iterator[tuple[JoinTree, list[Term]]]:
    """Yield trees whose rows are the groups of an aggregate, with terms for its columns."""
    for at in range(len(tree.parts)):
        groups = _groups(tree, at)
        for other, part in enumerate(tree.parts) if groups else ():
            assert groups is not None
            if part.test is None and (found := _with_groups(of, tree, at, other, groups)) is not None:
                yield found


class _Groups(NamedTuple):
    """The groups by one column that a semijoin looks for: filters and projections over an aggregate."""

    over: Base
    aggregate: Aggregate
    rows: Node
    copies: Mapping[str, str]
    """The columns of the rows below the aggregate's projections, with their names in the aggregate's rows."""
    key: str
    partner: str
    """The column of another part that the semijoin compares with the key of the groups."""


def _groups(tree: JoinTree, at: int) -> _Groups | None:
    part = tree.parts[at]
    own = set(part.node.schema.names)
    if part.test is None or not part.test.are_kept or len(part.test.equal) != 1:
        return None
    if any(each.columns & own and not isinstance(each, Not) for each in part.test.conditions):
        return None
    over_ = base_of(part.node)
    aggregate = over_.node
    if not isinstance(aggregate, Aggregate) or len(aggregate.keys) != 1:
        return None
    names = [*column_names(part.test.equal[0][0]), *column_names(part.test.equal[0][1])]
    if len(names) != 2 or over_.columns.get(names[1]) != aggregate.keys[0]:
        return None
    rows = aggregate.rows
    copies = {name: name for name in rows.schema.names}
    while isinstance(rows, Project):
        copied = rows.copied
        copies = {copied[old]: name for old, name in copies.items() if old in copied}
        rows = rows.rows
    key = next((old for old, name in copies.items() if name == aggregate.keys[0]), None)
    return None if key is None else _Groups(over_, aggregate, rows, copies, key, names[0])


def _with_groups(
    of: Aggregate, tree: JoinTree, at: int, other: int, groups: _Groups
) -> tuple[JoinTree, list[Term]] | None:
    """Put groups with all sums of an aggregate in the place of rows; None if anything else reads the rows."""
    sources = {name: source_of(tree.parts[other].node, name) for name in tree.parts[other].node.schema.names}
    origins = {name: each[1] for name, each in sources.items() if each is not None and each[0] is groups.rows}
    keys = {name for name, source in origins.items() if source == groups.key}
    linked = any(
        {*column_names(one), *column_names(two)} >= {groups.partner, key} for one, two in tree.equal for key in keys
    )
    if not linked:
        return None
    below = groups.aggregate.rows.schema
    argument_of = {
        name: column(groups.copies[source], below[groups.copies[source]])
        for name, source in origins.items()
        if source in groups.copies
    }
    sums, fields = list(groups.aggregate.sums), list(groups.aggregate.schema.fields)
    new: dict[str, str] = {}
    for each in of.sums:
        term = None if each.term is None else over(each.term, tree.columns)
        if term is not None and not term.columns <= argument_of.keys():
            return None
        term = term and over(term, argument_of)
        same = next((old.name for old in sums if old.kind == each.kind and old.term is term), None)
        new[each.name] = same or fresh(each.name, [field.name for field in fields])
        if same is None:
            sums.append(Sum(new[each.name], each.kind, term))
            fields.append(replace(of.schema.field(each.name), name=new[each.name]))
    schema = Schema(tuple(fields), groups.aggregate.schema.rows)
    aggregate = replace(groups.aggregate, sums=tuple(sums), schema=schema)
    part, names = renamed_apart(filtered(aggregate, *groups.over.conditions), tree.number_of)
    moved = dict.fromkeys(keys, names[groups.aggregate.keys[0]])
    rest = replace(tree, columns={key: tree.columns[key] for key in of.keys})
    read = {name for each in _read(rest, at) for name in each.columns}
    if any(name in read for name in tree.parts[other].node.schema.names if name not in keys):
        return None
    test = tree.parts[at].test
    assert test is not None
    equal = [*rest.equal, (test.equal[0][0], known_term(names[groups.aggregate.keys[0]]))]
    conditions = [each for each in test.conditions if not each.columns & set(tree.parts[at].node.schema.names)]
    rest = replace(rest, equal=tuple(equal), conditions=(*rest.conditions, *conditions))
    result = without_part(rest, other, {at: Part(part)}, moved)
    values = [names[new[each.name]] for each in of.sums]
    terms = [*(result.columns[key] for key in of.keys), *values]
    if not result.is_determined_by([name for term in terms[: len(of.keys)] for name in column_names(term)]):
        return None
    return result, terms


def _read(tree: JoinTree, but: int) -> Iterator[Term]:
    """Yield the terms of a tree, except those of one semijoin."""
    yield from tree.columns.values()
    yield from tree.conditions
    for pair in tree.equal:
        yield from pair
    for at, part in enumerate(tree.parts):
        if at != but and part.test is not None:
            yield from part.test.conditions
            for pair in part.test.equal:
                yield from pair


def without_left_join(of: Aggregate) -> Node | None:
    """Compute sums of the right side of a left join by its key; None if the aggregate is another one."""
    base = base_of(of.rows)
    found = as_left_join(base.node)
    if found is None or base.conditions:
        return None
    join, columns = found
    base = base._replace(terms={name: over(term, columns) for name, term in base.terms.items()})
    left, right = set(join.left.schema.names), set(join.right.schema.names)
    terms = [None if each.term is None else over(each.term, base.terms) for each in of.sums]
    if any(each is None or not each.columns or not each.columns <= right for each in terms):
        return None
    keys = {name: base.terms[name] for name in of.keys}
    theirs = {name: other for mine, other in join.equal for name in column_names(mine)}
    names = [each.name for each in keys.values() if isinstance(each, Column) and each.name in theirs]
    if not len(names) == len(keys) == len(join.equal) or not is_unique(join.left, names):
        return None
    of_left = [each for each in join.conditions if each.columns <= left]
    of_right = [each for each in join.conditions if each.columns <= right]
    known = [Not(IsNull(column(name, join.left.schema[name]))) for name in names]
    if len(of_left) + len(of_right) < len(join.conditions) or any(each not in known for each in of_left):
        return None
    read = [each for each in join.right.schema.fields if any(term and each.name in term.columns for term in terms)]
    mark = fresh("rows", [*names, *right])
    rows = language.Collection(
        projected(join.left, {
            **{name: column(name, join.left.schema[name]) for name in names}, mark: number(1),
            **{each.name: null(each.type) for each in read},
        })
    ).concat(language.Collection(
        projected(filtered(join.right, *of_right), {
            **{name: theirs[name] for name in names}, mark: number(0),
            **{each.name: column(each.name, each.type) for each in read},
        })
    ))  # fmt: skip
    by = columns_of(rows.node)
    marks = Sum(mark, "sum", by[mark])
    own = {each.name: fresh(each.name, [*names, mark, *right]) for each in of.sums}
    sums = [
        Sum(own[each.name], each.kind, over(term, by))
        for each, term in zip(of.sums, terms, strict=True)
        if term is not None
    ]
    fields = [*(rows.schema.field(name) for name in names), Field(mark, integer(0, join.left.schema.rows))]
    fields += [replace(of.schema.field(each.name), name=own[each.name]) for each in of.sums]
    bound = min(rows.schema.rows, language.groups_of(fields[: len(names)]))
    groups = Aggregate(rows.node, tuple(names), (marks, *sums), schema=Schema(tuple(fields), bound))
    kept = filtered(groups, Less(number(0), column(mark, groups.schema[mark])))
    by = columns_of(kept)
    result: dict[str, Term] = {old: by[name] for old, name in zip(of.keys, names, strict=True)}
    result |= {old: by[name] for old, name in own.items()}
    return projected(kept, {name: result[name] for name in of.schema.names})
