"""Errors that several operators raise."""

from __future__ import annotations

from collections.abc import Sequence

from deltamark.dataflow.builder.keys import NamedValue
from deltamark.dataflow.builder.program import Program
from deltamark.dataflow.builder.texts import text_of
from deltamark.dataflow.plan.term_sql import identifier, literal
from deltamark.dataflow.types import NULL
from deltamark.errors import DeltamarkError, shortened


def negative_multiplicity(program: Program, row: Sequence[NamedValue], time: int) -> DeltamarkError:
    """Return the error for a row that is retracted more often than it was inserted."""
    return wrong_row("a negative multiplicity", program, row, time, "retract only what was inserted before")


def wrong_row(cause: str, program: Program, row: Sequence[NamedValue], time: int, remedy: str) -> DeltamarkError:
    """Return the error for a row of a program's state that is wrong as of a time."""
    return DeltamarkError(cause, described(program, row, time), remedy, time=time)


def wide_weight() -> DeltamarkError:
    """Return the error for a weight that overflows."""
    return DeltamarkError("a weight needs more than 64 bits", "a sum or a product of weights", "feed smaller weights")


def described(program: Program, row: Sequence[NamedValue], time: int, unnamed: str = "a row") -> str:
    """Describe a row of a program's state, and its time. unnamed: stands for a row without columns."""
    values = (f"{identifier(each.name)}={_written(program, each)}" for each in row)
    return f"{', '.join(values) or unnamed} at time {time}"


def _written(program: Program, value: NamedValue) -> str:
    """Write a stored value as SQL does, and a text as errors quote the words of users."""
    if value.type.kind == "text" and value.stored != NULL:
        return shortened(text_of(program, value.stored))
    return literal(value.type, value.stored)


class WeightOverflow:
    """The state of an operator that keeps no rows, and fails only if a weight overflows."""

    def rows(self) -> int:
        return 0

    def problem(self) -> DeltamarkError:
        return wide_weight()
