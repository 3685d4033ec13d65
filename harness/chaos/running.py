"""A run of a command in a process group of its own, with its temporary files in a directory of its own."""

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
class Command:
    words: Sequence[str]
    directory: Path
    """Where it runs."""
    temporary: Path


@dataclass(frozen=True)
class Ran:
    """How a run ended. code: its exit code, or minus the signal that ended it; None where it had to be killed."""

    code: int | None
    said: str
    errors: str
    seconds: float
    hit: str = ""
    """Whom the strike hit; empty where the run ended before it."""
    moment: float = 0.0
    left: Sequence[str] = ()
    """Processes that did not end."""


@contextmanager
def started(command: Command, said: int | IO[bytes], errors: int | IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command, and end it with the block. said, errors: where it prints to."""
    with subprocess.Popen(
        command.words, cwd=command.directory, env={**os.environ, "TMPDIR": str(command.temporary)},
        stdin=subprocess.DEVNULL, stdout=said, stderr=errors, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def run(command: Command, limit: float, strike: Strike | None = None, length: float = 0.0) -> Ran:
    """Run a command to its end, for at most `limit` seconds. length: the seconds of an unharmed run."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as errors:
        began, hit, moment = time.monotonic(), "", strike.share * length if strike else 0.0
        with started(command, said, errors) as process:
            if strike and _ended(process, moment) is None:
                moment = time.monotonic() - began
                hit = strike.hit(process.pid)
            code = _ended(process, limit)
            seconds = time.monotonic() - began
        left = processes.left_over(command.temporary)
        return Ran(code, _text(said), _text(errors), seconds, hit, moment, left)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _ended(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
