"""Texts of programs: their names, messages and errors, which reach terminals, tables and records."""

from __future__ import annotations

MAX_TEXT = 500
"""The number of characters of a text, at most. Not tuned."""


def plain(text: str) -> str:
    r"""Return the beginning of a text as one line, in which escapes stand for characters that cannot be printed.

    >>> plain("mine\n1.0 \x1b[2J")
    'mine 1.0 \\x1b[2J'
    """
    words = " ".join(text[: 2 * MAX_TEXT].split())
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in words)
    return shown if len(shown) <= MAX_TEXT else f"{shown[:MAX_TEXT]}..."
