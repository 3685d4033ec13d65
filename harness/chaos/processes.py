"""The processes of a run, found by the directory of their temporary files.

That directory is in the environment of each of them, even if its parent has died or it leads its own session.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

SHUTDOWN_TIMEOUT_S, POLL_S = 30.0, 0.1
"""The time in which all processes of a run must end after it, of which a JVM needs a few seconds; the poll interval."""

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (nothing is written there)
MODULES = ("org.apache", "deltamark", "harness", "datagen", "pyspark")


def of_run(temporary: Path) -> list[int]:
    """List the live processes whose temporary files go into a directory, or below it."""
    return [pid for pid in _all() if pid != os.getpid() and _has_variable(pid, f"TMPDIR={temporary}".encode())]


def left_over(temporary: Path) -> list[str]:
    """Wait for the end of a run's processes; kill those that do not end, and return their names."""
    deadline = time.monotonic() + SHUTDOWN_TIMEOUT_S
    while (live := of_run(temporary)) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    names = [f"{pid} ({name(pid)})" for pid in live]
    for pid in live:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return names


def name(pid: int) -> str:
    """Name a process by its program and the modules in its command line; return nothing for one that has ended."""
    words = [word.decode(errors="replace") for word in _read(pid, "cmdline").split(b"\0") if word]
    modules = [word for word in words if word.startswith(MODULES)]
    return " ".join([Path(words[0]).name, *modules[:2]]) if words else ""


def shared_memory() -> set[str]:
    """List the named segments of shared memory that no process has open."""
    names = {str(path) for path in SHARED_MEMORY.glob("*")}
    if not names:
        return names
    return names - {link for pid in _all() for link in _open_files(pid)}


def _open_files(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield str(link.readlink())
    for line in _read(pid, "maps").splitlines():
        yield line.split(maxsplit=5)[-1].decode(errors="replace")


def _all() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())


def _has_variable(pid: int, setting: bytes) -> bool:
    """Return whether the environment of a process has a setting, or a path below it."""
    variables = _read(pid, "environ").split(b"\0")
    return any(variable == setting or variable.startswith(setting + b"/") for variable in variables)


def _read(pid: int, file: str) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/{file}").read_bytes()
    return b""
