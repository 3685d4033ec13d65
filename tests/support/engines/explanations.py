"""Readers of explanations: the lines of a tree by the kind of their part, and the readers of a part."""

from __future__ import annotations

import re


def parts(explanation: str, kind: str) -> list[str]:
    """Return the text of each part of a kind. A part that several others read is one line."""
    numbered = re.compile(rf"\s*\d+ .*?(?:─ )?({kind}\b.*)")
    return [found[1] for line in explanation.splitlines() if (found := numbered.fullmatch(line))]


def readers(explanation: str, text: str) -> int:
    """Count the parts that read the part with a text."""
    (line,) = (line for line in explanation.splitlines() if line.endswith(text) and line.split()[0].isdigit())
    return 1 + explanation.count(f"(see #{line.split()[0]})")


def changes_of_parts(explanation: str) -> list[int]:
    """Return the numbers of changes of all parts, after a profile. Numbers end where their title ends."""
    titles, *lines = explanation.splitlines()
    end = titles.index("changes") + len("changes")
    return [int(line[:end].split()[-1].replace(",", "")) for line in lines if line[end - 1].isdigit()]
