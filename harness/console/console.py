"""The two consoles: standard output and standard error. Text is printed as it is, without markup or wrapping."""

from __future__ import annotations

from typing import NoReturn

from rich.console import Console


class _PipeConsole(Console):
    def on_broken_pipe(self) -> NoReturn:
        """Let the command line choose the exit code; rich would exit with 1."""
        raise BrokenPipeError


OUT, ERR = _PipeConsole(), _PipeConsole(stderr=True)


def say(text: str = "") -> None:
    OUT.out(text, highlight=False)


def warn(text: str) -> None:
    ERR.out(text, highlight=False)
