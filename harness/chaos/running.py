"""A run of a command in its own process group, with its temporary files in its own directory."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from deltamark.harness.chaos import processes
from deltamark.harness.chaos.strike import Strike


@dataclass(frozen=True)
class Invocation:
    """A command line, its working directory, and the directory of its temporary files."""

    words: Sequence[str]
    directory: Path
    temporary: Path


@dataclass(frozen=True)
class CommandRun:
    """The end of a run. code: the exit code, or minus the signal that ended it; None if it had to be killed."""

    code: int | None
    output: str
    errors: str
    seconds: float
    target: str = ""
    """The signal and its target; empty if the run ended first."""
    moment: float = 0.0
    """The seconds after which the signal was sent."""
    remaining: Sequence[str] = ()
    """Processes that did not end."""


@contextmanager
def started(command: Invocation, output: int | IO[bytes], errors: int | IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command, and end it with the block."""
    with subprocess.Popen(
        command.words, cwd=command.directory, env={**os.environ, "TMPDIR": str(command.temporary)},
        stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def run(command: Invocation, limit: float, strike: Strike | None = None, length: float = 0.0) -> CommandRun:
    """Run a command to its end, for at most `limit` seconds. length: the seconds of an undisturbed run."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        began, target, moment = time.monotonic(), "", strike.share * length if strike else 0.0
        with started(command, output, errors) as process:
            if strike and _exit_code(process, moment) is None:
                moment = time.monotonic() - began
                target = strike.send(process.pid)
            code = _exit_code(process, limit)
            seconds = time.monotonic() - began
        remaining = processes.left_over(command.temporary)
        return CommandRun(code, _text(output), _text(errors), seconds, target, moment, remaining)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _exit_code(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
