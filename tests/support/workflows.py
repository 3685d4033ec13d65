"""The workflows and actions of continuous integration, and the commands in their steps."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from support.manual import COMMAND, Command
from support.paths import ROOT

DIRECTORY = ROOT / ".github"
FILES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [*sorted(DIRECTORY.glob("workflows/*.yml")), *sorted(DIRECTORY.glob("actions/*/action.yml"))]
}
"""The text of each workflow and action, by its path."""

VALUES = {"$SUITE": "graph", "$BRANCH": "benchmarks", "$SOURCE": "https://example.org/blob/main"}
"""A value of each variable that a command in a workflow reads."""


def steps(text: str) -> list[str]:
    """Return the shell text of all steps of a workflow."""
    found = re.findall(r"^( *)(?:- )?run: (?:\|\n((?:\1 +.*\n|\n)+)|(.*))", text, re.MULTILINE)
    return [textwrap.dedent(block) or line for _, block, line in found]


def commands() -> list[Command]:
    """Return the commands of make and of the harness."""
    return [
        Command(path, re.sub(r"\$\w+", lambda name: VALUES[name[0]], line))
        for path, text in FILES.items()
        for step in steps(text)
        for line in re.findall(rf"^{COMMAND}.*", step.replace("\\\n", " "), re.MULTILINE)
    ]


def written_permissions(text: str) -> list[str]:
    """Return the permissions to write."""
    return re.findall(r"^ +([\w-]+): write\b", text, re.MULTILINE)


def inputs(action: Path) -> dict[str, str]:
    """Return the inputs of an action with their descriptions and defaults as text."""
    block = re.search(r"^inputs:\n((?:  .*\n)+)", action.read_text(encoding="utf-8"), re.MULTILINE)
    return dict(re.findall(r"^  (\w+):\n((?:    .*\n)+)", block[1] if block else "", re.MULTILINE))
