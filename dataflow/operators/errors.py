"""Errors that several operators raise."""

from __future__ import annotations

from collections.abc import Mapping

from deltamark.errors import DeltamarkError


def negative_multiplicity(row: Mapping[str, int], time: int) -> DeltamarkError:
    """Return the error for a row that is retracted more often than it was inserted."""
    return wrong_row("a negative multiplicity", row, time, "retract only what was inserted before")


def wrong_row(cause: str, row: Mapping[str, int], time: int, remedy: str) -> DeltamarkError:
    """Return the error for a row that is wrong as of a time."""
    return DeltamarkError(cause, described(row, time), remedy, time=time)


def wide_weight() -> DeltamarkError:
    """Return the error for a weight that overflows."""
    return DeltamarkError("a weight needs more than 64 bits", "a sum or a product of weights", "feed smaller weights")


def described(row: Mapping[str, int], time: int, unnamed: str = "a row") -> str:
    """Describe a row and its time. unnamed: stands for a row without columns."""
    return f"{', '.join(f'{name}={value}' for name, value in row.items()) or unnamed} at time {time}"


class WeightOverflow:
    """The state of an operator that keeps no rows, and fails only if a weight overflows."""

    def rows(self) -> int:
        return 0

    def problem(self) -> DeltamarkError:
        return wide_weight()
