"""What every package here shares: the version, and the one class of errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__version__ = "0.1.0"


class DeltamarkError(Exception):
    """Something the user can act on, said in one line: the cause, the actual value, the next step."""

    def __init__(self, cause: str, actual: object, remedy: str) -> None:
        super().__init__(cause, actual, remedy)
        self.cause, self.actual, self.remedy = cause, actual, remedy

    def __str__(self) -> str:
        return " ".join(f"{self.cause}: {self.actual}; {self.remedy}".split())


LONGEST = 60
"""Characters of a word that an error quotes."""


def shortened(text: str) -> str:
    """Quote a word of the user's, cut off if it is long."""
    return repr(text if len(text) <= LONGEST else f"{text[:LONGEST]}...")


def whole_number(text: str, low: int, high: int, cause: str = "not a whole number") -> int:
    """Read a whole number from `low`, which is at least 0, to `high`."""
    value = int(text) if text.isdecimal() and len(text) <= LONGEST else -1
    if not low <= value <= high:
        raise DeltamarkError(cause, shortened(text), f"write one from {low} to {high}")
    return value


def unknown(kind: str, name: str, known: Iterable[str]) -> DeltamarkError:
    """Return the error for a name that is none of `known`, with the nearest ones."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    listed = ", ".join(near or names)
    return DeltamarkError(f"unknown {kind}", name, f"{'did you mean' if near else 'there are'} {listed}")
