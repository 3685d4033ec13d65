"""The consoles for standard output and standard error. They print text unchanged, without markup or wrapping."""

from __future__ import annotations

import csv
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import NoReturn

from rich.console import Console


class _PipeConsole(Console):
    def on_broken_pipe(self) -> NoReturn:
        """Let the command line choose the exit code; rich would exit with 1."""
        raise BrokenPipeError


INTERRUPTED = "interrupted: finished data and records are kept; run the same command again to continue"

INDENT, SEPARATORS = "    ", " ,:"
"""The start of a line that continues another, and the characters between the parts of a line."""

OUT, ERR = _PipeConsole(), _PipeConsole(stderr=True)


def say(text: object = "", *, end: str = "\n") -> None:
    """Print results on standard output."""
    OUT.out(text, highlight=False, end=end)


def terminal_width() -> int | None:
    """Return the columns of the terminal to which results are printed; None for a file or a pipe."""
    return OUT.width if OUT.is_terminal else None


def fold(text: str, width: int | None) -> str:
    """Fold each line at spaces to a number of columns, if one is given."""
    if width is None:
        return text
    return "\n".join(textwrap.fill(line, width, subsequent_indent=INDENT) for line in text.split("\n"))


def say_folded(text: str) -> None:
    """Print prose on standard output, folded to the terminal."""
    say(fold(text, terminal_width()))


def fold_parts(parts: Sequence[str], width: int | None) -> str:
    """Join parts, each with its separator before it; begin a new line with a part that does not fit."""
    lines = [""]
    for part in parts:
        if width is not None and len(lines[-1] + part) > width:
            lines.append(INDENT + part.lstrip(SEPARATORS))
        else:
            lines[-1] += part
    return fold("\n".join(lines), width)


def warn(text: object) -> None:
    """Print messages on standard error."""
    ERR.out(text, highlight=False)


def write_csv(header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Write rows as CSV on standard output."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
