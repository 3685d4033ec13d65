"""The errors that a plan must raise."""

from __future__ import annotations

from collections.abc import Iterable


class TooLargeError(Exception):
    """The refusal of the reference to compute very many values of a window. It is no error of a plan."""


class PlanError(Exception):
    """An error that a plan must raise."""

    cause: str

    def __init__(self, row: object, time: int | None = None) -> None:
        super().__init__(row, time)
        self.row, self.time = row, time
        self.others: tuple[PlanError, ...] = ()
        """The other errors of the same operator at the same time, which may be raised instead."""


def raise_one(errors: Iterable[PlanError]) -> None:
    """Raise the first of several errors of an operator at one time, if there is any."""
    first, *others = [*errors] or [None]
    if first is not None:
        first.others = tuple(others)
        raise first


class NegativeError(PlanError):
    """A row, or a group, with a negative weight."""

    cause = "a negative multiplicity"


class TwoLimitsError(PlanError):
    """A key with more than one row of limits."""

    cause = "more than one limit"


class SeveralRowsError(PlanError):
    """A group of more than one row where one is allowed."""

    cause = "more than one row where one is allowed"


class WideSumError(PlanError):
    """A sum that 64 bits do not hold."""

    cause = "a sum needs more than 64 bits"


class ManyCopiesError(PlanError):
    """A row with more copies than can have values of their own."""

    cause = "too many copies of a row to number"


class LongTextError(PlanError):
    """A group whose texts have more bytes than an engine can write."""

    cause = "the text of a group that is too long"


class WideNumberError(PlanError):
    """A number of a row that 64 bits do not hold. Neither the engine nor a term knows its time."""

    cause = "a number needs more than 64 bits"


class LongSubstringError(PlanError):
    """A substring whose bytes do not fit into a number. Neither the engine nor a term knows its time."""

    cause = "a substring of more than seven bytes"


class OutOfRangeError(PlanError):
    """A double that is no number of the type that it is cast to."""

    cause = "a DOUBLE outside the range of a cast"
