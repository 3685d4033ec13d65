"""The commands, which the modules in the folders below declare. A folder is a topic of the help.

    @command("data", add_data, add_own_data)
    def data(args: Namespace) -> int:

The docstring of the function is the help of its command; it returns the exit code. The functions in the declaration add
the settings of the command to its parser. Commands are listed without importing these modules, because some take
seconds to import.

    python -m harness.cli.commands Makefile      prints the help of make, before the environment exists
"""

from __future__ import annotations

import importlib
import inspect
import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deltamark.errors import unknown
from deltamark.harness.cli.parser import Parser

PROGRAM = "python -m harness"

TOPICS: Mapping[str, str] = {
    "queries": "Queries", "data": "Data", "measure": "Measuring", "results": "Results",
}  # fmt: skip
"""The titles of the folders, in the order of the help."""

DECLARATION = re.compile(r'^@command\("([\w-]+)".*?"""(.*?)"""', re.MULTILINE | re.DOTALL)
"""A declaration in the text of a module: the name of the command, and its help. The Makefile reads the name, too."""

Run = Callable[[Namespace], int]
AddSettings = Callable[[Parser], None]


@dataclass(frozen=True)
class Command:
    """A command whose module is imported."""

    name: str
    settings: tuple[AddSettings, ...]
    run: Run

    @property
    def help(self) -> str:
        return inspect.getdoc(self.run) or ""

    def options(self, parser: Parser) -> None:
        """Add the settings of the command to a parser."""
        for add in self.settings:
            add(parser)


_DECLARED: dict[str, Command] = {}


def command(name: str, *settings: AddSettings) -> Callable[[Run], Run]:
    """Declare a function as a command."""

    def declare(run: Run) -> Run:
        _DECLARED[name] = Command(name, settings, run)
        return run

    return declare


@dataclass(frozen=True)
class _Listed:
    """A command as the text of its module declares it."""

    topic: str
    module: str
    help: str


def _listed() -> dict[str, _Listed]:
    found = {
        name: _Listed(topic, file.stem, text)
        for topic in TOPICS
        for file in (Path(__file__).parent / topic).glob("*.py")
        for name, text in DECLARATION.findall(file.read_text(encoding="utf-8"))
    }
    return dict(sorted(found.items()))


_LISTED = _listed()
NAMES = [name for topic in TOPICS for name, listed in _LISTED.items() if listed.topic == topic]


def load(name: str) -> Command:
    """Import the module of a command."""
    listed = _LISTED[name]
    importlib.import_module(f"deltamark.harness.cli.{listed.topic}.{listed.module}")
    return _DECLARED[name]


def call(words: Sequence[str]) -> int:
    """Run a command with its settings, as a user types them; return its exit code. `argv` is the line of the user."""
    name, *settings = words
    if name not in NAMES:
        raise unknown("command", name, NAMES)
    command = load(name)
    parser = Parser(f"{PROGRAM} {name}", command.help)
    parser.general.add_argument("--debug", action="store_true", help="print the traceback of an error")
    command.options(parser)
    args = parser.parse_settings(settings)
    args.argv = shlex.join([*PROGRAM.split(), *words])
    return command.run(args)


def overview() -> str:
    """List the commands by topic, each with the first sentence of its help."""
    width = max(map(len, NAMES))
    lines: list[str] = []
    for topic, title in TOPICS.items():
        names = [name for name in NAMES if _LISTED[name].topic == topic]
        lines += [f"{title}:", *(f"  {name:<{width}}  {_summary(_LISTED[name].help)}" for name in names), ""]
    return "\n".join(lines)


def _summary(text: str) -> str:
    sentence, *_ = " ".join(text.split()).split(". ")
    return sentence.removesuffix(".")


def make_help(makefile: str) -> str:
    """Return the leading comments of a Makefile, the commands, and each target that has a comment after ##."""
    head = [line.removeprefix("# ").removeprefix("#") for line in makefile.splitlines() if line.startswith("#")]
    targets = re.findall(r"^([\w-]+):.*?## (.*)$", makefile, re.MULTILINE)
    width = max(len(name) for name, _ in targets)
    return "\n".join([*head, "", overview(), "Targets:", *(f"  {name:<{width}}  {text}" for name, text in targets)])


if __name__ == "__main__":
    print(make_help(Path(sys.argv[1]).read_text(encoding="utf-8")))
