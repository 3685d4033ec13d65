"""Pieces of an aggregation: rows with the same groups and different columns, put side by side.

The pieces are added up by group, where each has zeros in the columns of the others. A join would pair all changes of
one piece with those of another, so that its cost would grow with the square of the times in a feed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from deltamark.dataflow.language.collection import Collection, groups_of
from deltamark.dataflow.operators.aggregate import Aggregate, Sum
from deltamark.dataflow.plan.terms import Add, Equal, Term, When, column, null, number, total
from deltamark.dataflow.sql.rows.rows import projected
from deltamark.dataflow.types import Field, Schema, Type, integer


class Piece(NamedTuple):
    """At most one row for each group, with the keys and other columns, none of which is NULL."""

    rows: Collection
    has_all_groups: bool


def combined(pieces: Sequence[Piece], keys: Sequence[str]) -> Collection:
    """Return a row for each group, with the columns of all pieces: NULL where a piece lacks the group.

    Without keys there is one row.
    """
    numbers = [each for each in pieces if keys or not _has_text(each)]  # no piece with keys has texts besides them
    parts = [_added_up(numbers, keys)] if len(numbers) > 1 else [each.rows for each in numbers]
    if keys:
        return parts[0]
    first, *others = (each.or_null() for each in (*parts, *(each.rows for each in pieces if _has_text(each))))
    for each in others:
        first = first.cross(each).consolidate()
    return first


def _has_text(piece: Piece) -> bool:
    return any(field.type.kind == "text" for field in piece.rows.schema.fields)


def _added_up(pieces: Sequence[Piece], keys: Sequence[str]) -> Collection:
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
        parts.append(projected(each.rows, terms))
    total = parts[0].concat(*parts[1:])
    fields = [Field(key, total.schema[key]) for key in keys] + [Field(mark, integer(0, 1)) for mark in marks.values()]
    fields += [Field(name, total.schema[name]) for name in values]
    sums = tuple(Sum(name, "sum", column(name, total.schema[name])) for name in (*marks.values(), *values))
    bound = min(total.schema.rows, groups_of(fields[: len(keys)]))
    groups = Collection(Aggregate(total.node, tuple(keys), sums, schema=Schema(tuple(fields), bound)))
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
