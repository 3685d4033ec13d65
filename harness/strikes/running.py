"""Runs of a command, each in a process group of its own, and strikes: signals to its processes at random moments.

The processes of a run are found by the directory of their temporary files, which is in the environment of each of them,
even if its parent has died or it leads its own session.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from signal import Signals
from typing import IO, Literal

import psutil

from deltamark.datagen import scratch
from deltamark.harness.system.children import end_with
from deltamark.harness.system.resources import descendants

Target = Literal["group", "parent", "child"]
TARGETS: tuple[Target, ...] = ("group", "parent", "child")

SIGNALS = (signal.SIGKILL,) * 3 + (signal.SIGTERM, signal.SIGINT)
"""The signals, repeated by the frequency with which they are drawn."""


@dataclass(frozen=True)
class Strike:
    """share: the moment as a share of an undisturbed run's length; child: a share of the number of children."""

    share: float
    signal: Signals
    target: Target
    child: float

    @classmethod
    def drawn(cls, chance: Random) -> Strike:
        return cls(chance.random(), chance.choice(SIGNALS), chance.choice(TARGETS), chance.random())

    def send(self, command: int) -> str:
        """Send the signal; return a description of it, or nothing if the command has ended."""
        with suppress(ProcessLookupError):
            if self.target == "group":
                os.killpg(command, self.signal)
                return f"{self.signal.name} to the process group"
            children = [child for child in descendants(command) if name(child)]
            if self.target == "parent" or not children:
                os.kill(command, self.signal)
                return f"{self.signal.name} to the parent"
            victim = sorted(children, key=lambda child: child.pid)[int(self.child * len(children))]
            description = f"{self.signal.name} to child {name(victim)}"
            os.kill(victim.pid, self.signal)
            return description
        return ""


SHUTDOWN_TIMEOUT_S, POLL_S = 30.0, 0.1
"""The time in which all processes of a run must end after it, of which a JVM needs a few seconds; the poll interval."""

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (nothing is written there)
MODULES = ("org.apache", "deltamark", "harness", "datagen", "pyspark")


def of_run(temporary: Path) -> list[psutil.Process]:
    """List the live processes whose temporary files go into a directory, or below it."""
    others = (process for process in psutil.process_iter() if process.pid != os.getpid())
    return [process for process in others if _temporary_of(process).is_relative_to(temporary)]


def left_over(temporary: Path) -> list[str]:
    """Wait for the end of a run's processes; kill those that do not end, and return their names."""
    deadline = time.monotonic() + SHUTDOWN_TIMEOUT_S
    while (live := of_run(temporary)) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    names = [f"{process.pid} ({name(process)})" for process in live]
    for process in live:
        with suppress(psutil.Error):
            process.kill()
    return names


def name(process: psutil.Process) -> str:
    """Name a process by its program and the modules in its command line; return nothing for one that has ended."""
    words = command_line(process)
    modules = [word for word in words if word.startswith(MODULES)]
    return " ".join([Path(words[0]).name, *modules[:2]]) if words else ""


def command_line(process: psutil.Process) -> list[str]:
    """Return the words of the command line of a process; none if it has ended."""
    with suppress(psutil.Error):
        return [word for word in process.cmdline() if word]
    return []


def shared_memory() -> set[str]:
    """List the files and directories of shared memory that no process has open.

    Scratch directories are left out: each may be that of another command, and the next that is made removes dead ones.
    """
    paths = {str(path) for path in SHARED_MEMORY.glob("*") if not path.name.startswith(scratch.PREFIX)}
    if not paths:
        return paths
    return paths - {path for process in psutil.process_iter() for path in _open_files(process)}


def _open_files(process: psutil.Process) -> Iterator[str]:
    with suppress(psutil.Error):
        yield from (file.path for file in [*process.open_files(), *process.memory_maps()])


def _temporary_of(process: psutil.Process) -> Path:
    """Return the directory of the temporary files of a process; an empty path if it has ended."""
    with suppress(psutil.Error):
        return Path(process.environ().get("TMPDIR", ""))
    return Path()


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
    """Start a command, and end it with the block, or with this process."""
    with subprocess.Popen(
        command.words, cwd=command.directory, env={**os.environ, "TMPDIR": str(command.temporary)},
        stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True,
        preexec_fn=partial(end_with, os.getpid()),  # noqa: PLW1509 (it only makes system calls)
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
        remaining = left_over(command.temporary)
        return CommandRun(code, _text(output), _text(errors), seconds, target, moment, remaining)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _exit_code(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
