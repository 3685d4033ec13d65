"""The manual: README, CONTRIBUTING, CHANGELOG and docs/, with their code blocks, commands and links."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from support.paths import ROOT

PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]
}
"""The text of each page, by its path."""

COMMAND = r"(?:make|(?:\.venv/bin/)?python -m harness) [a-z]"


@dataclass(frozen=True)
class Command:
    """A command in a page, and the page's path."""

    page: str
    line: str

    @property
    def words(self) -> list[str]:
        """The words from the name of the command on."""
        words = shlex.split(self.line)
        return words[1:] if words[0] == "make" else words[3:]

    def __str__(self) -> str:
        return f"{self.page}: {self.line}"


def code(language: str, page: str | None = None) -> list[str]:
    """Return the code blocks of a language."""
    texts = [PAGES[page]] if page else PAGES.values()
    return [
        block for text in texts for block in re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


def commands() -> list[Command]:
    """Return the commands of make and of the harness, in blocks and within sentences."""
    found = []
    for page, text in PAGES.items():
        joined = text.replace("\\\n", " ")
        lines = re.findall(rf"^    ({COMMAND}.*)", joined, re.MULTILINE) + re.findall(rf"`({COMMAND}[^`]*)`", joined)
        found += [Command(page, re.split(r" +#|;", " ".join(line.split()))[0]) for line in lines]
    return found


def prose(page: str) -> str:
    """Return the text of a page without code, tables of results, and quotations."""
    text = re.sub(r"^```.*?^```", "", PAGES[page], flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`]*`|^    .*|\"[^\"\n]*\"", "", text, flags=re.MULTILINE)


def headings(text: str) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
