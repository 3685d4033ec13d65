"""Rules about schemas that the methods of collections share: equal types, unique keys, bounds on groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from deltamark.dataflow.types import Field, Schema, Type, spanning
from deltamark.errors import DeltamarkError


def refuse_repeated(names: Sequence[str]) -> None:
    """Raise an error for a column name that occurs twice."""
    for name in names:
        if names.count(name) > 1:
            raise DeltamarkError("a column given twice", name, "give each a name of its own")


def refuse_other_type(what: str, name: str, left: Type, right: Type) -> None:
    """Raise an error for values that cannot be compared."""
    if left.comparable != right.comparable or left.scale != right.scale:
        raise DeltamarkError(
            f"{what} of different types", f"{name}: {left} and {right}", "declare both with the same type"
        )


def common_fields(left: Schema, right: Schema) -> tuple[Field, ...]:
    """Return the columns of a concatenation: both sides have the same names, and the bounds span those of both."""
    if left.names != right.names:
        raise DeltamarkError("different columns", f"{left.names} and {right.names}", "select the same ones first")
    fields = []
    for field in left.fields:
        other = right.field(field.name)
        refuse_other_type("columns", field.name, field.type, other.type)
        sql = field.sql if field.sql == other.sql else ""
        fields.append(Field(field.name, spanning(field.type, other.type), sql))
    return tuple(fields)


def groups_of(keys: Iterable[Field]) -> int:
    """Return the number of different values that key columns can have."""
    return prod(each.type.high - each.type.low + 1 + each.type.nullable for each in keys)
