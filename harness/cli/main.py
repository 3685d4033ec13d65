"""The command line. Settings may have the form of make: `harness data SF=0.01` means `harness data --sf 0.01`.

Faults of the environment (disks, memory, limits, processes) are reported in one line, like mistakes of users. An error
that is not recognised here is a defect of this project, and keeps its traceback.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

from deltamark import __version__
from deltamark.errors import DeltamarkError, refused
from deltamark.harness.cli import commands
from deltamark.harness.console.console import INTERRUPTED

OWN_PACKAGES = ("datagen", "dataflow", "database", "deltamark", "harness", "queries")
LESS_MEMORY = "free memory or raise ulimit -v, or ask for less: a smaller SF, fewer WORKERS"
MORE_THREADS = "raise ulimit -v or ulimit -u, or end other programs"

NATIVE_LIBRARY = re.compile(
    "failed to map segment|cannot allocate memory in|cannot open shared object|load shared object|"
    "without exception set",
    re.IGNORECASE,
)
"""Messages of the loader of shared libraries, and Python's if a library cannot even allocate its exception."""

NO_THREAD = re.compile("can't start new thread|Failed to launch worker thread")

JAVA = re.compile(
    "OutOfMemoryError|No space left on device|Cannot allocate memory|unable to create (new )?native thread|"
    "Answer from Java side is empty|An error occurred while trying to connect to the Java server"
)


def environment_fault(error: BaseException) -> DeltamarkError | None:
    """Return the error to report for a fault of the environment; None for any other error."""
    match error:
        case MemoryError():
            return DeltamarkError("out of memory", _first_line(error), LESS_MEMORY)
        case ImportError() | OSError() | SystemError() if line := _matching_line(error, NATIVE_LIBRARY):
            return DeltamarkError("a library cannot be loaded", line, LESS_MEMORY)
        case OSError():
            return refused(error)
        case ModuleNotFoundError():
            missing = (error.name or "").partition(".")[0]
            return (
                None if missing in OWN_PACKAGES else DeltamarkError("a package is missing", missing, "run make setup")
            )
        case Exception() if line := _matching_line(error, NO_THREAD):  # Python and Arrow raise classes of their own
            return DeltamarkError("out of threads", line, MORE_THREADS)
    return _library_fault(error)


def _library_fault(error: BaseException) -> DeltamarkError | None:
    """Recognise errors of DuckDB and of Spark by their class names, which needs no import of these libraries."""
    library, name = type(error).__module__.partition(".")[0], type(error).__name__
    if library in ("duckdb", "_duckdb") and name == "OutOfMemoryException":
        return DeltamarkError("DuckDB is out of memory", _first_line(error), LESS_MEMORY)
    if library in ("duckdb", "_duckdb") and name == "IOException":
        remedy = "make room, or set TMPDIR to another place"
        return DeltamarkError("DuckDB cannot read or write", _first_line(error), remedy)
    if library in ("py4j", "pyspark") and (message := JAVA.search(str(error))):
        return DeltamarkError("Spark has failed", message[0], f"{LESS_MEMORY}; --debug shows more")
    return None


def _matching_line(error: BaseException, pattern: re.Pattern[str]) -> str:
    return next((line.strip() for line in str(error).splitlines() if pattern.search(line)), "")


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


FOOTER = f"Settings of a command: {commands.PROGRAM} COMMAND --help"

WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a write to an open file, which name no file."""


def main(words: Sequence[str], *, ends_process: bool = False) -> int:
    """Run a command; return its exit code.

    0: done; 1: a regression (compare) or a broken law (chaos); 2: a wrong answer or an error; 130: interrupted.
    ends_process: whether the process ends with the command. Out of memory, it ends at once: Arrow may crash at the exit
    of a process in which it could not be loaded.
    """
    _open_streams()
    try:
        try:
            code = _run(list(words))
        except SystemExit:  # argparse has printed the help of a command
            sys.stdout.flush()
            raise
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has ended
        code = 141
    except KeyboardInterrupt:
        _print_error(INTERRUPTED)
        code = 130
    except Exception as error:
        if (fault := _user_error(error)) is None:
            raise
        if "--debug" in words:
            traceback.print_exc()
        _print_error(f"error: {fault}")
        code = 2
        if ends_process and isinstance(error, MemoryError):
            _close_output()
            os._exit(code)
    _close_output()
    return code


def _user_error(error: Exception) -> DeltamarkError | None:
    """Return the error that the user can act on; None for a defect of this project."""
    if isinstance(error, DeltamarkError):
        return error
    if isinstance(error, OSError) and error.filename is None and error.errno in WRITE_ERRORS:
        return refused(error, "the output")
    return environment_fault(error)


def _print_error(text: str) -> None:
    with suppress(OSError):  # standard error cannot be written either
        print(text, file=sys.stderr, flush=True)


def _close_output() -> None:
    """Drop output that cannot be written: Python would try again when it ends, and change the exit code."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_streams() -> None:
    """Open standard streams that are closed: otherwise the next opened files would take their numbers."""
    for handle in range(3):
        try:
            os.fstat(handle)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _run(words: list[str]) -> int:
    if not words or words[0].startswith("-"):
        return _run_without_command(words)
    return commands.call(words)


def _run_without_command(words: list[str]) -> int:
    match words:
        case [] | ["-h"] | ["--help"]:
            print(f"usage: {commands.PROGRAM} COMMAND [NAME=value ...]\n\n{commands.overview()}\n{FOOTER}")
        case ["--version"]:
            print(f"deltamark {__version__}")
        case _:
            raise DeltamarkError("cannot read the command", words[0], f"see {commands.PROGRAM} --help")
    return 0
