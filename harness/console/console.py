"""The consoles for standard output and standard error. They print text unchanged, without markup or wrapping."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from typing import NoReturn

from rich.console import Console


class _PipeConsole(Console):
    def on_broken_pipe(self) -> NoReturn:
        """Let the command line choose the exit code; rich would exit with 1."""
        raise BrokenPipeError


INTERRUPTED = "interrupted: finished data and records are kept; run the same command again to continue"

OUT, ERR = _PipeConsole(), _PipeConsole(stderr=True)


def say(text: object = "", *, end: str = "\n") -> None:
    """Print results on standard output."""
    OUT.out(text, highlight=False, end=end)


def terminal_width() -> int | None:
    """Return the columns of the terminal to which results are printed; None for a file or a pipe."""
    return OUT.width if OUT.is_terminal else None


def warn(text: object) -> None:
    """Print messages on standard error."""
    ERR.out(text, highlight=False)


def write_csv(header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Write rows as CSV on standard output."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
