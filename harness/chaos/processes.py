"""The processes of a run, found by the directory of their temporary files: it is in the environment of each of them,
also where its parent has died or it leads a session of its own.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PATIENCE = 30.0
"""Seconds in which all processes of a run should have ended after it: a JVM takes a few."""
POLL = 0.1

SHARED = Path("/dev/shm")  # noqa: S108 (nothing is written there)


def of_run(temporary: Path) -> list[int]:
    """List the live processes that were started with temporary files in a directory, or below it."""
    return [each for each in _all() if each != os.getpid() and _is_of(each, f"TMPDIR={temporary}".encode())]


def left_over(temporary: Path) -> list[str]:
    """Wait for the end of a run's processes; name and kill those that do not end."""
    until = time.monotonic() + PATIENCE
    while (found := of_run(temporary)) and time.monotonic() < until:
        time.sleep(POLL)
    names = [f"{each} ({name(each)})" for each in found]
    for each in found:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    return names


def name(process: int) -> str:
    """Name a process by its program and what it was told to do; one that has ended has no name."""
    words = [each.decode(errors="replace") for each in _read(process, "cmdline").split(b"\0") if each]
    wanted = (each for each in words if each.startswith(("org.apache", "harness", "datagen", "deltamark", "pyspark")))
    return " ".join([Path(words[0]).name, *list(wanted)[:2]]) if words else ""


def shared_memory() -> set[str]:
    """List the shared memory that has a name and that no process has open."""
    names = {str(each) for each in SHARED.glob("*")}
    if not names:
        return names
    return names - {link for process in _all() for link in _opened(process)}


def _opened(process: int) -> Iterator[str]:
    with suppress(OSError):
        for link in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                yield str(link.readlink())
    for line in _read(process, "maps").splitlines():
        yield line.split(maxsplit=5)[-1].decode(errors="replace")


def _all() -> Iterator[int]:
    return (int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal())


def _is_of(process: int, word: bytes) -> bool:
    return any(each == word or each.startswith(word + b"/") for each in _read(process, "environ").split(b"\0"))


def _read(process: int, file: str) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{process}/{file}").read_bytes()
    return b""
