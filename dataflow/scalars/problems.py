"""Errors about expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltamark.errors import DeltamarkError

if TYPE_CHECKING:
    from deltamark.dataflow.scalars.expressions import Place

UNSUPPORTED = "not supported in an expression"
INSTEAD = "compute it before the engine, or write another expression"


class ExpressionError(DeltamarkError):
    """An error about an expression. place: where it, or an expression around it, stands in a text; None if unknown."""

    def __init__(
        self, cause: str, actual: str, remedy: str, place: Place | None = None, expression: object = None
    ) -> None:
        super().__init__(cause, actual, remedy)
        self.place, self.expression = place, expression


class FollowUpError(Exception):
    """Raised by the use of a value that was refused. It is no problem of its own, and no list of problems has it."""


def unsupported(construct: str, remedy: str = INSTEAD) -> ExpressionError:
    """Return the error for an expression that is not supported."""
    return ExpressionError(UNSUPPORTED, construct, remedy)
