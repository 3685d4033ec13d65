"""Errors about a text of SQL, which name each construct and where it stands."""

from __future__ import annotations

from collections.abc import Iterable

from deltamark.dataflow.scalars import problems
from deltamark.dataflow.scalars.problems import ExpressionError
from deltamark.dataflow.sql.fragments import Fragment
from deltamark.dataflow.sql.written import Place
from deltamark.errors import DeltamarkError

UNSUPPORTED = "not supported in SQL"
LISTED = "docs/sql.md lists what is"


class SqlError(ExpressionError):
    """An error about a construct of a text."""

    @property
    def located(self) -> list[tuple[int, SqlError]]:
        """An error for each place at which the construct stands, with its offset; one at 0 if no place is known."""
        fragments: Iterable[Fragment | None] = (self.place.fragments if isinstance(self.place, Place) else ()) or (
            None,
        )
        return [(each.place, self._at(f" ({each.where})")) if each else (0, self._at("")) for each in fragments]

    def _at(self, where: str) -> SqlError:
        return SqlError(self.cause, f"{self.actual}{where}", self.remedy)


class SeveralSqlError(DeltamarkError):
    """Several errors about a text, each in a line of its own."""

    def __str__(self) -> str:
        return f"{self.cause}:\n{self.actual}"


def unsupported(construct: str, place: Place | None = None, remedy: str = LISTED) -> SqlError:
    """Return the error for a construct that is not supported."""
    return SqlError(UNSUPPORTED, construct, remedy, place)


def in_sql(error: DeltamarkError, place: Place | None = None) -> SqlError:
    """Return an error as one about a text. place: where its construct stands if the error does not know."""
    cause, actual, remedy = error.cause, str(error.actual), error.remedy
    if cause == problems.UNSUPPORTED:
        cause, remedy = UNSUPPORTED, LISTED if remedy == problems.INSTEAD else remedy
    elif cause != UNSUPPORTED and not isinstance(error, SqlError):
        cause, actual = UNSUPPORTED, f"{cause}: {actual}"
    own = error.place if isinstance(error, ExpressionError) else None
    return SqlError(cause, actual, remedy, own if isinstance(own, Place) and own.fragments else place)


def together(errors: Iterable[SqlError]) -> DeltamarkError:
    """Return one error for all, in the order of their places, without repeated ones."""
    located = {str(error): (offset, error) for each in errors for offset, error in each.located}
    ordered = [error for _, error in sorted(located.values(), key=lambda each: each[0])]
    if len(ordered) == 1:
        return ordered[0]
    return SeveralSqlError(f"{len(ordered)} problems in a text of SQL", "\n".join(map(str, ordered)), "correct each")
