"""The parser of a command: argparse, with settings in the form of make (`SF=1`), and help in aligned groups."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterable
from typing import NoReturn

from deltamark.errors import DeltamarkError, unknown

MAX_WIDTH, NAME_WIDTH = 110, 24
"""The width of a line of help and of its column of names, in characters."""

NO_DEFAULT = (None, "", argparse.SUPPRESS)
FOOTER = "A setting is written --name value, or NAME=value as for make."


class Parser(argparse.ArgumentParser):
    """A parser whose errors are DeltamarkErrors. Options must be written in full."""

    def __init__(self, prog: str | None = None, description: str | None = None) -> None:
        super().__init__(prog, description=description, allow_abbrev=False, add_help=False)
        self._positionals.title, self._optionals.title = "arguments", "settings"
        self.general = self.add_argument_group("general")
        self.general.add_argument("-h", "--help", action="help", help="print this text")

    def error(self, message: str) -> NoReturn:
        raise DeltamarkError("cannot read the command", message, f"see {self.prog} --help")

    def _check_value(self, action: argparse.Action, value: str) -> None:
        if action.choices is not None and value not in action.choices:
            raise unknown(action.dest, value, action.choices)

    def _get_values(self, action: argparse.Action, words: list[str]) -> object:
        """Read the value of a setting, which must not be empty: `QUERIES=` would otherwise mean all of them."""
        if "" in words:
            name = (action.option_strings or [action.dest])[0].removeprefix("--").upper()
            raise DeltamarkError("an empty setting", f"{name}=", "give it a value, or leave it out")
        return super()._get_values(action, words)

    def print_help(self, file: object = None) -> None:  # noqa: ARG002 (help always goes to standard output)
        print(self.format_help(), end="")  # argparse's own method ignores a write that fails

    def parse_settings(self, words: Iterable[str]) -> argparse.Namespace:
        """Parse words of a command line, in which `SF=1` stands for `--sf=1`, and `QUERIES=q01,q02` for `q01 q02`."""
        return self.parse_args([translated for word in words for translated in self._translated(word)])

    def _translated(self, word: str) -> list[str]:
        """Translate a word of the form NAME=value into words for argparse. A misspelt name is an error."""
        options = {name[2:]: action for name, action in self._option_string_actions.items() if name != "-h"}
        arguments = {action.dest: action for action in self._actions if not action.option_strings}
        settings = {name.upper() for name, action in {**options, **arguments}.items() if action.nargs != 0}
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            if name.removeprefix("--") not in options:
                raise unknown("setting", name.removeprefix("--"), options)
        elif equals and name.islower() and name.upper() in settings:
            raise DeltamarkError("unknown setting", name, f"did you mean {name.upper()}")
        elif equals and name.isupper():
            if name == "PYTHON":  # the interpreter with which make creates .venv
                return []
            if name not in settings:
                raise unknown("setting", name, settings)
            if name.lower() in options:
                return [f"--{name.lower()}={value}"]
            return value.split(",") if arguments[name.lower()].nargs == "*" else [value]
        return [word]

    def format_help(self) -> str:
        """Return the usage, the description, and the settings by groups."""
        width = min(shutil.get_terminal_size().columns, MAX_WIDTH)
        words = [_argument(action) for action in self._actions if not action.option_strings]
        parts = [" ".join(["usage:", self.prog, *words, "[NAME=value ...]"])]
        parts += [
            textwrap.fill(paragraph, width, break_on_hyphens=False)
            for paragraph in (self.description or "").split("\n\n")
        ]
        for group in sorted(self._action_groups, key=lambda group: group is self.general):
            actions = group._group_actions  # noqa: SLF001 (argparse has no public list)
            lines = [line for action in actions for line in _help_lines(action, width)]
            parts += ["\n".join([f"{group.title}:", *lines])] if lines else []
        return "\n\n".join([*parts, FOOTER]) + "\n"


def _help_lines(action: argparse.Action, width: int) -> list[str]:
    """Return the name of a setting, with its help beside or below it."""
    name = f"  {_name(action)}"
    margin = " " * NAME_WIDTH
    fits = len(name) < NAME_WIDTH
    indent = f"{name:<{NAME_WIDTH}}" if fits else margin
    text = setting_help(action)
    text = textwrap.fill(text, width, initial_indent=indent, subsequent_indent=margin, break_on_hyphens=False)
    return [text] if fits else [name, text]


def _argument(action: argparse.Action) -> str:
    return f"[{action.dest.upper()} ...]" if action.nargs == "*" else action.dest.upper()


def _name(action: argparse.Action) -> str:
    if not action.option_strings:
        return _argument(action)
    value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
    return f"{', '.join(action.option_strings)}{value}"


def setting_help(action: argparse.Action) -> str:
    """Return a help text, with the choices of the setting and its default unless the text names them."""
    text, default, choices = action.help or "", action.default, [str(choice) for choice in action.choices or ()]
    if not all(choice in text for choice in choices):
        text = f"{', '.join(choices)}: {text}"
    if isinstance(default, list | tuple):
        default = ",".join(map(str, default))
    if "(default" in text or default is False or default in NO_DEFAULT or not action.option_strings:
        return text
    return f"{text} (default: {default})"
