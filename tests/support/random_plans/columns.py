"""Columns of random plans: unused names, columns of equal types, and keys of joins."""

from __future__ import annotations

from collections.abc import Iterable

from support.random_plans.choices import Choices

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.language.expr import col
from deltamark.dataflow.types import Field, Schema, Type


def unused(taken: Iterable[str], *wanted: str) -> list[str]:
    """Lengthen names until they differ from the taken ones, and from the columns of an average with a taken name."""
    names = {part for name in taken for part in (name, name.split(".")[0])}
    found = []
    for name in wanted:
        while name in names:
            name += "_"  # noqa: PLW2901
        names.add(name)
        found.append(name)
    return found


def alike(mine: Type, theirs: Type) -> bool:
    return (mine.comparable, mine.scale) == (theirs.comparable, theirs.scale)


def shaped(choices: Choices, rows: Collection, schema: Schema) -> Collection | None:
    """Return a collection with the columns of a schema, each filled from a column of equal type; None without one."""
    found = {}
    for field in schema.fields:
        fitting = [each.name for each in rows.schema.fields if alike(each.type, field.type)]
        if not fitting:
            return None
        found[field.name] = col[choices.pick(fitting)]
    return rows.select(**found)


def keys_between(choices: Choices, left: Schema, right: Schema) -> dict[str, str]:
    """Pair up to four columns that may be joined, {left: right}; a nullable column is no key."""
    pairs = [(mine.name, theirs.name) for mine in left.fields for theirs in right.fields if joinable(mine, theirs)]
    found: dict[str, str] = {}
    for _ in range(choices.pick([1, 1, 2, 0, 3, 4])):
        free = [(mine, theirs) for mine, theirs in pairs if mine not in found and theirs not in found.values()]
        found |= [choices.pick(free)] if free else []
    return found


def joinable(mine: Field, theirs: Field) -> bool:
    return alike(mine.type, theirs.type) and not mine.type.nullable and not theirs.type.nullable


def apart(choices: Choices, left: Collection, right: Collection) -> tuple[Collection, dict[str, str]]:
    """Rename the columns of the right side that the left one has too, and pair keys."""
    both = [name for name in right.schema.names if name in left.schema]
    new_names = dict(zip(both, unused([*left.schema.names, *right.schema.names], *both), strict=True))
    renamed = right.rename(**{new: old for old, new in new_names.items()}) if both else right
    return renamed, keys_between(choices, left.schema, renamed.schema)
