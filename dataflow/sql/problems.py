"""Errors about a text of SQL, which name each construct and where it stands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from deltamark.errors import DeltamarkError

if TYPE_CHECKING:
    from deltamark.dataflow.sql.algebra.operations import Expression
    from deltamark.dataflow.sql.fragments import Fragment
    from deltamark.dataflow.sql.written import Place

UNSUPPORTED = "not supported in SQL"
LISTED = "docs/sql.md lists what is"


class SqlError(DeltamarkError):
    """An error about a construct of a text. expression: the expression of the plan that is refused, if it is one."""

    def __init__(
        self, cause: str, actual: str, remedy: str, place: Place | None = None, expression: Expression | None = None
    ) -> None:
        super().__init__(cause, actual, remedy)
        self.place, self.expression = place, expression

    @property
    def located(self) -> list[tuple[int, SqlError]]:
        """An error for each place at which the construct stands, with its offset; one at 0 if no place is known."""
        fragments: Iterable[Fragment | None] = (self.place.fragments if self.place else ()) or (None,)
        return [(each.place, self._at(f" ({each.where})")) if each else (0, self._at("")) for each in fragments]

    def _at(self, where: str) -> SqlError:
        return SqlError(self.cause, f"{self.actual}{where}", self.remedy)


class SeveralSqlError(DeltamarkError):
    """Several errors about a text, each in a line of its own."""

    def __str__(self) -> str:
        return f"{self.cause}:\n{self.actual}"


class FollowUpError(Exception):
    """Raised by the use of a value that was refused. It is no problem of its own, and no list of problems has it."""


def unsupported(construct: str, place: Place | None = None, remedy: str = LISTED) -> SqlError:
    """Return the error for a construct that is not supported."""
    return SqlError(UNSUPPORTED, construct, remedy, place)


def together(errors: Iterable[SqlError]) -> DeltamarkError:
    """Return one error for all, in the order of their places, without repeated ones."""
    located = {str(error): (offset, error) for each in errors for offset, error in each.located}
    ordered = [error for _, error in sorted(located.values(), key=lambda each: each[0])]
    if len(ordered) == 1:
        return ordered[0]
    return SeveralSqlError(f"{len(ordered)} problems in a text of SQL", "\n".join(map(str, ordered)), "correct each")
