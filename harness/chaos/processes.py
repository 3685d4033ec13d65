"""The processes of a run, found by the directory of their temporary files.

That directory is in the environment of each of them, even if its parent has died or it leads its own session.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from deltamark.datagen import scratch

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
