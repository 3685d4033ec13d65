"""The parser of a command: argparse, with settings as make hands them on, and defaults in the help."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, NoReturn

from deltamark.errors import DeltamarkError, unknown


class HelpFormatter(argparse.HelpFormatter):
    """Keeps the paragraphs of a description, and adds each default that a help text does not state itself."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n\n".join(fill(paragraph, width, indent) for paragraph in text.split("\n\n"))

    def _get_help_string(self, action: argparse.Action) -> str | None:
        default = action.default
        if isinstance(default, list | tuple):
            default = ",".join(map(str, default))
        has_default = default not in (None, "", argparse.SUPPRESS) and default is not False and action.option_strings
        if action.help is None or "(default" in action.help or not has_default:
            return action.help
        return f"{action.help} (default: {default})"


class Parser(argparse.ArgumentParser):
    """A parser whose errors are DeltamarkErrors. Options must be written in full."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"allow_abbrev": False, "formatter_class": HelpFormatter, **settings})

    def error(self, message: str) -> NoReturn:
        raise DeltamarkError("cannot read the command", message, f"see {self.prog} --help")

    def _print_message(self, message: str, file: Any = None) -> None:
        print(message, end="", file=file)  # argparse's own ignores a write that fails

    def parse_settings(self, words: Iterable[str]) -> argparse.Namespace:
        """Parse words of a command line, in which `SF=1` stands for `--sf=1`, and `QUERIES=q01,q02` for `q01 q02`."""
        options = {
            option.removeprefix("--").upper(): option
            for action in self._actions
            for option in action.option_strings
            if option.startswith("--") and action.nargs != 0
        }
        positionals = {action.dest.upper() for action in self._actions if not action.option_strings}
        translated: list[str] = []
        for word in words:
            name, equals, value = word.partition("=")
            if not (equals and name.isupper()):
                translated.append(word)
            elif name in positionals:
                translated += value.split(",")
            elif name in options:
                translated.append(f"{options[name]}={value}")
            elif name != "PYTHON":  # the interpreter with which make creates .venv
                raise unknown("setting", name, [*options, *positionals])
        return self.parse_args(translated)
