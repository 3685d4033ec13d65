"""The command line. A command is a module of harness/commands: options(parser) and run(chosen) -> exit code.

`python -m harness data SF=0.01` and `... data --sf 0.01` are the same: make hands its settings on as they are.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from deltamark import __version__
from deltamark.errors import DeltamarkError, refused, unknown
from deltamark.harness.cli.faults import told

COMMANDS = {
    "answer": ("queries", "print a query's maintained answer"),
    "bench": ("measure", "run the benchmark"),
    "bench-feed": ("data", "measure what cutting a batch costs"),
    "chaos": ("measure", "kill commands and queries on Spark at random moments, and check what they leave"),
    "changes": ("queries", "print how a query's answer changes, or the digest of that"),
    "clean-results": ("results", "remove the records of this machine"),
    "compare": ("measure", "is a commit slower than another, does it need more memory, is it wrong?"),
    "data": ("data", "generate TPC-H and pre-batch it into Arrow files"),
    "data-verify": ("data", "read every byte of the data again and compare digests"),
    "explain": ("queries", "print a query's plan as it runs"),
    "golden": ("queries", "compare the digests of all change streams with those in results/golden"),
    "report": ("results", "make one HTML file with charts and tables of what is measured"),
    "motif": ("queries", "count a motif in a graph while edges come and go, or list it"),
    "soak": ("measure", "run a query through a long sliding window, and watch the memory"),
    "plan": ("measure", "say what bench would measure, and about how long that takes"),
    "readme": ("results", "write the tables of the reference records into the README"),
    "spark-batches": ("measure", "run a query on Spark batch by batch, maintained and recomputed"),
    "sql": ("queries", "print a query's SQL"),
    "tables": ("results", "print the tables of what is measured"),
    "verify": ("queries", "check answers against DuckDB at many times, and that batching does not matter"),
}
"""Commands by name: the folder of its module, and its help."""


UNWRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a write may fail with, and then names no file."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise DeltamarkError("cannot read the command", message, f"see {self.prog} --help")

    def _print_message(self, message: str, file: Any = None) -> None:
        print(message, end="", file=file)  # argparse's own is silent if it fails

    @property
    def settings(self) -> list[str]:
        """The options that take a value, as make spells them."""
        return sorted(
            option.removeprefix("--").upper()
            for action in self._actions
            for option in action.option_strings
            if option.startswith("--") and action.nargs != 0
        )

    @property
    def words(self) -> list[str]:
        """What is given without its name, as make spells it."""
        return [action.dest.upper() for action in self._actions if not action.option_strings]


def main(words: Sequence[str]) -> int:
    """Run a command; return its exit code: 0 done, 1 slower (compare) or a broken law (chaos), 2 wrong or not done, 130
    interrupted.
    """
    _open_streams()
    try:
        try:
            code = _run(list(words))
        except SystemExit:  # of help, which is printed by then
            sys.stdout.flush()
            raise
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads what we print has seen enough
        code = 141
    except KeyboardInterrupt:
        _say("interrupted: what is finished is kept, the same command goes on from there")
        code = 130
    except Exception as error:
        if (fault := _fault(error)) is None:
            raise
        if "--debug" in words:
            traceback.print_exc()
        _say(f"error: {fault}")
        code = 2
    _close_output()
    return code


def _fault(error: Exception) -> DeltamarkError | None:
    """Return the error that the user can act on; None for a mistake of ours."""
    if isinstance(error, DeltamarkError):
        return error
    if isinstance(error, OSError) and error.filename is None and error.errno in UNWRITTEN:
        return refused(error, "the output")
    return told(error)


def _say(text: str) -> None:
    with suppress(OSError):  # then nobody can be told
        print(text, file=sys.stderr, flush=True)


def _close_output() -> None:
    """Drop what cannot be written: Python would try once more at its end, and change the exit code."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_streams() -> None:
    """Open the standard streams that are closed: else the next files that are opened would be taken for them."""
    for handle in range(3):
        try:
            os.fstat(handle)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _run(words: list[str]) -> int:
    if not words or words[0].startswith("-"):
        return _top(words)
    name, *rest = words
    if name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    module = importlib.import_module(module_of(name))
    parser = Parser(prog=f"python -m harness {name}", description=module.__doc__, allow_abbrev=False)
    parser.add_argument("--debug", action="store_true", help="show where an error comes from")
    module.options(parser)
    return int(module.run(parser.parse_args(with_options(rest, parser.settings, parser.words))))


def _top(words: list[str]) -> int:
    listed = "\n".join(f"  {name:<14} {text}" for name, (_, text) in COMMANDS.items())
    top = Parser(
        prog="python -m harness",
        usage="python -m harness COMMAND [NAME=value ...]",
        description=f"commands:\n{listed}\n\nits settings: python -m harness COMMAND --help",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"deltamark {__version__}")
    top.parse_args(words or ["--help"])
    return 0


def module_of(command: str) -> str:
    """Return the name of the module that runs a command."""
    return f"deltamark.harness.cli.{COMMANDS[command][0]}.{command.replace('-', '_')}"


def with_options(words: Iterable[str], settings: Sequence[str], unnamed: Sequence[str] = ()) -> list[str]:
    """Turn `SF=1` into `--sf=1`, and `QUERIES=q01,q02` into the words q01 and q02."""
    turned = []
    for word in words:
        name, equals, value = word.partition("=")
        if not (equals and name.isupper()):
            turned.append(word)
        elif name in unnamed:
            turned += value.split(",")
        elif name in settings:
            turned.append(f"--{name.lower()}={value}")
        elif name != "PYTHON":  # which is make's own: the interpreter that .venv is made with
            raise unknown("setting", name, [*settings, *unnamed])
    return turned
