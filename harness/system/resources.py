"""The memory of this process and its descendants. Memory that processes share is counted on Linux alone."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""The environment in which libraries start no thread pools, since the server forks."""

KIB = 1024


def descendants(process: int | None = None) -> list[psutil.Process]:
    """List the live descendants of a process; by default, of this process."""
    with suppress(psutil.Error):
        return list(psutil.Process(process).children(recursive=True))
    return []


def memory(process: int | None = None) -> int:
    """Return the bytes of a process, by default this one, and its descendants, without mapped files."""
    return _with_descendants(process, "Pss_Anon", "Pss_Shmem")


def swapped(process: int | None = None) -> int:
    """Return the bytes of a process, by default this one, and its descendants that are in swap space."""
    return _with_descendants(process, "SwapPss")


def _with_descendants(process: int | None, *names: str) -> int:
    processes = (process or os.getpid(), *(each.pid for each in descendants(process)))
    return sum(_field(each, "smaps_rollup", *names) for each in processes)


def peak(process: int | None = None) -> int:
    """Return the peak resident bytes of a process since `reset_peak`, plus the current bytes of its descendants."""
    own = _field(process or os.getpid(), "status", "VmHWM")
    return own + sum(_field(each.pid, "smaps_rollup", "Pss_Anon") for each in descendants(process))


class MemoryUse:
    """The memory of a process, by default this one, and its descendants since a moment."""

    def __init__(self, process: int | None = None) -> None:
        self._process, self._before = process, memory(process)

    @property
    def now(self) -> int:
        return memory(self._process)

    @property
    def growth(self) -> int:
        """The bytes by which the memory has grown."""
        return max(self.now - self._before, 0)

    @property
    def peak(self) -> int:
        return peak(self._process)


HUGE_PAGE_BYTES = 2 << 20

RELEASED_AHEAD_BYTES = 256 << 20
"""The memory that is free for allocations between two calls of `PretouchedMemory.release`. Not tuned."""


def touch(size: int) -> None:
    """Touch memory and free it, so that the next allocations need not wait for the host of a virtual machine.

    It raises the peak of this process, so `reset_peak` belongs after it.
    """
    if size:
        _touched(size).close()


def _touched(size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    np.frombuffer(memory, dtype=np.uint8)[:: mmap.PAGESIZE] = 1
    return memory


class PretouchedMemory:
    """Memory that was touched before a timed run, and is released as the run needs memory.

    A virtual machine may return free memory to its host after a second or two. Getting it back takes many times as long
    as zeroing it, so a run that allocates much memory would be timed while it waits for the host.
    """

    def __init__(self, size: int) -> None:
        self._left = max(size // HUGE_PAGE_BYTES, 1) * HUGE_PAGE_BYTES
        self._memory = _touched(self._left)
        self._before = self._resident()

    def release(self) -> None:
        """Release as much memory as the process has grown by, and RELEASED_AHEAD_BYTES for its next allocations."""
        grown = self._resident() - self._before + RELEASED_AHEAD_BYTES
        size = min(grown // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES, self._left)
        if size > 0:
            self._left -= size
            self._memory.madvise(mmap.MADV_DONTNEED, self._left, size)

    def close(self) -> None:
        self._memory.close()

    @staticmethod
    def _resident() -> int:
        return int(psutil.Process().memory_info().rss)


def reset_peak(process: int | None = None) -> None:
    with suppress(OSError):
        Path(f"/proc/{process or os.getpid()}/clear_refs").write_text("5", encoding="ascii")


def _field(process: int, file: str, *names: str) -> int:
    """Return the sum of some fields of a file of a process, in bytes."""
    size = 0
    with suppress(OSError):
        for line in Path(f"/proc/{process}/{file}").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name in names:
                size += int(value.split()[0]) * KIB
    return size
