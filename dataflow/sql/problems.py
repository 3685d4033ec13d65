"""Errors about a text of SQL, which name the construct and where it stands."""

from __future__ import annotations

import re

from deltamark.errors import DeltamarkError

UNKNOWN_PLACE = 2**64 - 1
"""DuckDB's offset of an expression that it made itself."""

LISTED = "docs/sql.md lists what is"


class SqlError(DeltamarkError):
    """An error about a construct of a text, for which `located` finds the line and the column.

    place: the offset in bytes, if it is known; otherwise the construct stands where `pattern` first matches.
    """

    def __init__(self, cause: str, actual: str, remedy: str, place: int | None = None, pattern: str = "") -> None:
        super().__init__(cause, actual, remedy)
        self.place, self.pattern = place, pattern


def unsupported(construct: str, place: int | None = None, remedy: str = LISTED, pattern: str = "") -> SqlError:
    """Return the error for a construct that is not supported."""
    return SqlError("not supported in SQL", construct, remedy, place, pattern)


def located(error: SqlError, text: str) -> DeltamarkError:
    """Return the error with the line and the column of its place."""
    place = error.place
    if place is None and error.pattern and (found := re.search(error.pattern, text, re.IGNORECASE)):
        place = len(text[: found.start()].encode())
    where = "" if place is None else f" ({line_and_column(text, place)})"
    return DeltamarkError(error.cause, f"{error.actual}{where}", error.remedy)


def line_and_column(text: str, place: int) -> str:
    before = text.encode()[:place].decode(errors="ignore")
    return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"
