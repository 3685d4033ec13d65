"""Long lists of IN: a number or a date is looked up among sorted constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deltamark.dataflow.plan.terms import LONGEST_CHAIN, Constant, Member, Ratio
from deltamark.dataflow.sql.scalars.conditions import FALSE, TRUE
from deltamark.dataflow.sql.scalars.values import Truth, Value
from deltamark.dataflow.types import Type


def found(value: Value, others: Sequence[Value]) -> Truth | None:
    """Return whether a number or a date is one of many constants; None if they are few, or something else."""
    of, known = value.term, [each.term for each in others if each.null is not TRUE]
    if len(others) <= LONGEST_CHAIN or isinstance(of, Ratio | Constant):
        return None
    if any(each.null not in (None, TRUE) for each in others) or of.type.kind not in ("int", "date"):
        return None
    constants = [each for each in known if isinstance(each, Constant)]
    if len(constants) < len(known) or any(each.type.kind != of.type.kind for each in constants):
        return None
    stored = sorted(set(_stored(of.type, constants)))
    is_found = Truth.of(Member(of, tuple(stored)) if stored else FALSE, value.null)
    return is_found if len(known) == len(others) else Truth(is_found.true, None, total=False)


def _stored(type_: Type, constants: Sequence[Constant]) -> Iterator[int]:
    """Yield the constants as a type stores them, without those that it has no value for."""
    for each in constants:
        stored, rest = divmod(int(each.value) * 10**type_.scale, 10**each.type.scale)
        if rest == 0 and type_.low <= stored <= type_.high:
            yield stored
