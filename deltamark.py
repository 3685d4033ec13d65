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


def unknown(kind: str, name: str, known: Iterable[str]) -> DeltamarkError:
    """Return the error for a name that is none of `known`, with the nearest ones."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    listed = ", ".join(near or names)
    return DeltamarkError(f"unknown {kind}", name, f"{'did you mean' if near else 'there are'} {listed}")
