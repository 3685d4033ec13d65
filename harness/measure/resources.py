"""What this process and those that it started use: CPU time and memory. Linux tells; elsewhere memory is 0."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

KIB = 1024


def descendants(process: int | None = None) -> Iterator[int]:
    """List the live processes that a process (default: this one) has started, and theirs."""
    process = os.getpid() if process is None else process
    with suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from descendants(child)


def cpu_of_descendants() -> float:
    """Return the CPU seconds that live descendants have used."""
    return sum(map(_cpu, descendants()))


def _cpu(process: int) -> float:
    with suppress(OSError):
        return time.clock_gettime(~process << 3 | 2)  # what clock_getcpuclockid makes of a process
    return 0.0


def memory() -> int:
    """Return the bytes that belong to this process and its descendants, mapped files left out."""
    return sum(_field(process, "smaps_rollup", "Pss_Anon", "Pss_Shmem") for process in (os.getpid(), *descendants()))


def peak() -> int:
    """Return the most that this process had resident since `reset_peak`, and what its descendants have now."""
    own = _field(os.getpid(), "status", "VmHWM")
    return own + sum(_field(process, "smaps_rollup", "Pss_Anon") for process in descendants())


HUGE_PAGE, AHEAD = 2 << 20, 256 << 20
"""AHEAD: what is needed from one `Warm.give` to the next is to be less."""


class Warm:
    """Memory that has been touched, given back bit by bit before it is needed.

    A virtual machine may return free memory to its host after a second or two, and to have it again takes many times
    as long as to zero it; so whoever needs much memory would be timed waiting for the host.
    """

    def __init__(self, size: int) -> None:
        self._left = max(size // HUGE_PAGE, 1) * HUGE_PAGE
        self._memory = mmap.mmap(-1, self._left, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        np.frombuffer(self._memory, dtype=np.uint8)[:: mmap.PAGESIZE] = 1
        self._before = _resident()

    def give(self) -> None:
        """Give back as much as this process has grown by, and some more for what comes next."""
        given = min((_resident() - self._before + AHEAD) // HUGE_PAGE * HUGE_PAGE, self._left)
        if given > 0:
            self._left -= given
            self._memory.madvise(mmap.MADV_DONTNEED, self._left, given)

    def close(self) -> None:
        self._memory.close()


def _resident() -> int:
    return _field(os.getpid(), "status", "VmRSS")


def reset_peak() -> None:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _field(process: int, file: str, *names: str) -> int:
    found = 0
    with suppress(OSError):
        for line in Path(f"/proc/{process}/{file}").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name in names:
                found += int(value.split()[0]) * KIB
    return found
