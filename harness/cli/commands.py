"""The commands: the modules in the folders below. The docstring of a module is the help of its command.

Listing the commands imports none of them, because some take seconds to import.
"""

from __future__ import annotations

import ast
import importlib
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, cast

TOPICS: Mapping[str, str] = {
    "queries": "Queries", "data": "Data", "measure": "Measuring", "results": "Results",
}  # fmt: skip
"""The titles of the folders, in the order of the help."""


class CommandModule(Protocol):
    """A module that is a command."""

    __doc__: str | None

    def options(self, parser: ArgumentParser) -> None:
        """Declare the settings."""
        ...

    def run(self, args: Namespace) -> int:
        """Run the command; return its exit code."""
        ...


def _listed(topic: str) -> dict[str, Path]:
    files = sorted((Path(__file__).parent / topic).glob("[!_]*.py"))
    return {file.stem.replace("_", "-"): file for file in files}


COMMANDS = {topic: _listed(topic) for topic in TOPICS}
"""The files of all commands, by topic and by name."""

NAMES = [name for commands in COMMANDS.values() for name in commands]


def load(name: str) -> CommandModule:
    """Import the module of a command."""
    topic = next(topic for topic, commands in COMMANDS.items() if name in commands)
    return cast("CommandModule", importlib.import_module(f"{__package__}.{topic}.{name.replace('-', '_')}"))


def overview() -> str:
    """List the commands by topic, each with the first sentence of its help."""
    width = max(map(len, NAMES))
    lines: list[str] = []
    for topic, title in TOPICS.items():
        lines += [f"{title}:", *(f"  {name:<{width}}  {_summary(file)}" for name, file in COMMANDS[topic].items()), ""]
    return "\n".join(lines)


def _summary(file: Path) -> str:
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    sentence, *_ = " ".join(docstring.split()).split(". ")
    return sentence.removesuffix(".")
