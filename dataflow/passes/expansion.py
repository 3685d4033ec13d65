"""Derived operators by way of others: semijoins, antijoins, left joins, and aggregates side by side.

A row has a partner if its values in the conditions are among those of the pairs. So a semijoin is a join with these
values, each once, and an antijoin is the rest.

Aggregates of the same groups are added up by group, where each has zeros in the columns of the others. A join would
pair all changes of one with those of another, so that its cost would grow with the square of the times in a feed. Only
the smallest or largest texts of groups are joined with the others: they change less often.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deltamark.dataflow.language.by_terms import (
    columns_of,
    distinct,
    filtered,
    fresh,
    joined,
    only,
    paired,
    projected,
    renamed_apart,
    sides,
    with_columns,
)
from deltamark.dataflow.language.collection import Collection, groups_of
from deltamark.dataflow.operators.aggregate import Aggregate, Sum
from deltamark.dataflow.operators.derived import Piece, SideBySide, TermPair
from deltamark.dataflow.operators.node import Node, is_unique
from deltamark.dataflow.plan.terms import (
    Add,
    Coalesce,
    Column,
    Constant,
    Equal,
    Term,
    When,
    column,
    null,
    number,
    replaced,
    total,
)
from deltamark.dataflow.types import Field, Schema, Type, integer


def without_partner(
    left: Node, right: Node, equal: Sequence[TermPair], conditions: Sequence[Term], taken: Iterable[str] = ()
) -> Node:
    """Return the left rows that have no partner among the right ones."""
    whole, found = with_partner(left, right, equal, conditions, taken)
    return rest(whole, found)


def rest(left: Node, found: Node) -> Node:
    """Return the left rows that are not among those found."""
    return Collection(left).concat(Collection(found).negate()).node


def with_partner(
    left: Node, right: Node, equal: Sequence[TermPair], conditions: Sequence[Term], taken: Iterable[str] = ()
) -> tuple[Node, Node]:
    """Return the left rows, with additional columns if the conditions need some, and those that have a partner.

    The columns of both sides have different names; equal: values of both, where NULL equals NULL; taken: names that no
    new column gets.
    """
    of_left, of_right, others = sides(left, right, conditions)
    right = filtered(right, *of_right)
    if others:
        return _by_values(left, right, equal, [*of_left, *others], [*right.schema.names, *taken])
    left, left_keys = with_columns(left, [mine for mine, _ in equal], "key", [*right.schema.names, *taken])
    candidates = filtered(left, *of_left)
    if not equal:
        return left, _while_any(candidates, right, left)
    right, right_keys = with_columns(right, [theirs for _, theirs in equal], "key", left.schema.names)
    return left, only(_semijoin(candidates, right, left_keys, right_keys), left.schema.names)


def _semijoin(left: Node, right: Node, left_keys: Sequence[str], right_keys: Sequence[str]) -> Node:
    """Keep the left rows whose keys occur on the right, where NULL equals NULL."""
    columns: dict[str, Term] = {}
    for at, name in enumerate(right_keys):
        columns[fresh(f"key_{at}", [*left.schema.names, *columns])] = column(name, right.schema[name])
    seen = projected(right, columns)
    if not is_unique(seen, list(columns)):
        seen = distinct(seen, list(columns))
    return joined(left, seen, left_keys, list(columns))[0]


def _while_any(left: Node, right: Node, like: Node) -> Node:
    """Keep all left rows if there is a right row, otherwise none."""
    counted = Collection(right).count().rename(**{fresh("rows", left.schema.names): "count"})
    return only(Collection(left).cross(counted).node, like.schema.names)


def _by_values(
    left: Node, right: Node, equal: Sequence[TermPair], conditions: Sequence[Term], taken: Iterable[str]
) -> tuple[Node, Node]:
    """Find the left rows with a partner by the combinations of values that the conditions read, each once."""
    of_left, _, others = sides(left, right, conditions)
    stored = {mine: _stored(mine) for mine, _ in equal}
    read = [term for name, term in columns_of(left).items() if any(name in each.columns for each in others)]
    wanted = [*stored.values(), *read]
    left, names = with_columns(left, wanted, "value", taken)
    distinct_names = list(dict.fromkeys(names))
    candidates = filtered(left, *of_left)
    seen = distinct(candidates, distinct_names)
    place = {term: column(name, term.type) for name, term in zip(names, wanted, strict=True)}
    keys = [replaced(mine, {stored[mine]: place[stored[mine]]}) for mine, _ in equal]
    pairs = zip(keys, (theirs for _, theirs in equal), strict=True)
    matched = distinct(paired(seen, right, list(pairs), others)[0], distinct_names)
    apart, new = renamed_apart(matched, left.schema.names)
    found, _ = joined(candidates, apart, distinct_names, [_name(new[each]) for each in distinct_names])
    return left, only(found, left.schema.names)


def _stored(term: Term) -> Term:
    """Return the term of which a column is stored: one that may be NULL, rather than another value for NULL."""
    match term:
        case Coalesce(Column() as known, Constant()):
            return known
    return term


def _name(term: Term) -> str:
    assert isinstance(term, Column)
    return term.name


def left_joined(left: Node, right: Node, equal: Sequence[TermPair], conditions: Sequence[Term]) -> Node:
    """Return the pairs, and the left rows without a partner, with NULL in the right columns."""
    pairs, places = paired(left, right, equal, conditions)
    own, others = columns_of(left), columns_of(right)
    single = without_partner(left, right, equal, conditions)
    parts = [
        projected(pairs, {**own, **{name: places.get(term, term) for name, term in others.items()}}),
        projected(single, {**own, **{name: null(term.type) for name, term in others.items()}}),
    ]
    return Collection(parts[0]).concat(Collection(parts[1])).node


def side_by_side(pieces: Sequence[Piece], keys: Sequence[str]) -> Node:
    """Return a row for each group, with the columns of all pieces: NULL where a piece lacks the group.

    Without keys there is one row.
    """
    schema = combined(pieces, keys).schema
    return SideBySide(tuple(pieces), tuple(keys), schema=schema) if keys and len(pieces) > 1 else combined(pieces, keys)


def combined(pieces: Sequence[Piece], keys: Sequence[str]) -> Node:
    """Return the rows of several pieces by way of other operators."""
    texts = [each for each in pieces if _has_text(each, keys)]
    numbers = [each for each in pieces if each not in texts]
    if len(numbers) > 1:
        numbers = [Piece(_added_up(numbers, keys), any(each.has_all_groups for each in numbers))]
    first, *others = sorted([*numbers, *texts], key=lambda each: not each.has_all_groups)
    if keys:
        rows = first.rows
        for each in others:
            rows = _with_piece(rows, each, keys)
        return rows
    found = Collection(first.rows).or_null()
    for each in others:
        found = found.cross(Collection(each.rows).or_null()).consolidate()
    return found.node


def _with_piece(rows: Node, piece: Piece, keys: Sequence[str]) -> Node:
    """Add the columns of a piece to the rows of all groups. Texts, whose numbers differ by worker, are not added up."""
    own = columns_of(rows)
    right, columns = renamed_apart(piece.rows, list(own))
    equal = [(own[key], columns[key]) for key in keys]
    found = paired(rows, right, equal, ())[0] if piece.has_all_groups else left_joined(rows, right, equal, ())
    added = [name for name in piece.rows.schema.names if name not in keys]
    return only(found, [*own, *added])


def _has_text(piece: Piece, keys: Sequence[str]) -> bool:
    return any(field.type.kind == "text" and field.name not in keys for field in piece.rows.schema.fields)


def _added_up(pieces: Sequence[Piece], keys: Sequence[str]) -> Node:
    """Add up pieces by group, with a mark for each that a group may lack."""
    own = [{name: each.rows.schema[name] for name in each.rows.schema.names if name not in keys} for each in pieces]
    marks = {at: f"mark {at}" for at, each in enumerate(pieces) if not each.has_all_groups or not keys}
    values = {name: type_ for each in own for name, type_ in each.items()}
    zeros = {name: number(0, type_.scale) for name, type_ in values.items()}
    parts = []
    for at, each in enumerate(pieces):
        terms = {key: column(key, each.rows.schema[key]) for key in keys}
        terms |= {mark: number(int(at == other)) for other, mark in marks.items()}
        terms |= {**zeros, **{name: _as_number(name, type_) for name, type_ in own[at].items()}}
        parts.append(Collection(projected(each.rows, terms)))
    total = parts[0].concat(*parts[1:])
    fields = [Field(key, total.schema[key]) for key in keys] + [Field(mark, integer(0, 1)) for mark in marks.values()]
    fields += [Field(name, total.schema[name]) for name in values]
    sums = tuple(Sum(name, "sum", column(name, total.schema[name])) for name in (*marks.values(), *values))
    bound = min(total.schema.rows, groups_of(fields[: len(keys)]))
    groups = Aggregate(total.node, tuple(keys), sums, schema=Schema(tuple(fields), bound))
    mark_of = {name: marks.get(at) for at, each in enumerate(own) for name in each}
    return projected(groups, {
        **{key: column(key, groups.schema[key]) for key in keys},
        **{name: _restored(name, type_, mark_of[name], groups.schema) for name, type_ in values.items()},
    })  # fmt: skip


def _as_number(name: str, type_: Type) -> Term:
    """Return a column as the number that stores it."""
    stored = column(name, type_)
    if type_.kind == "int":
        return stored
    return total(stored, number(0))


def _restored(name: str, type_: Type, mark: str | None, schema: Schema) -> Term:
    """Return a column of a type that was added up as a number; NULL for groups without its mark."""
    stored = column(name, schema[name])
    value = Add(stored, number(0, type_.scale), type_)
    if mark is None:
        return value
    lacks = Equal(column(mark, schema[mark]), number(0))
    return When(lacks, null(type_), value, type_.or_null())
