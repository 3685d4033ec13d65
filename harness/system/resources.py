"""The memory of this process and its descendants. Memory that processes share is counted on Linux alone."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import psutil

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""The environment in which libraries start no thread pools, since the server forks."""

KIB = 1024

POOL_MODULE = "deltamark.dataflow.kernels.core.pages"


def descendants(process: int | None = None) -> list[psutil.Process]:
    """List the live descendants of a process; by default, of this process."""
    with suppress(psutil.Error):
        return list(psutil.Process(process).children(recursive=True))
    return []


def memory(process: int | None = None) -> int:
    """Return the bytes of a process, by default this one, and its descendants, without mapped files."""
    return _with_descendants(process, "Pss_Anon", "Pss_Shmem")


def swapped() -> int:
    """Return the bytes of this process and its descendants that are in swap space."""
    return _with_descendants(None, "SwapPss")


def _with_descendants(process: int | None, *names: str) -> int:
    processes = (process or os.getpid(), *(each.pid for each in descendants(process)))
    return sum(_field(each, "smaps_rollup", *names) for each in processes)


def peak(process: int | None = None) -> int:
    """Return the peak resident bytes of a process since `reset_peak`, plus the current bytes of its descendants."""
    own = _field(process or os.getpid(), "status", "VmHWM")
    return own + sum(_field(each.pid, "smaps_rollup", "Pss_Anon") for each in descendants(process))


def kept_bytes() -> int:
    """Return the bytes that our engine keeps in this process for its next dataflows."""
    pages = sys.modules.get(POOL_MODULE)  # an import would load the kernels
    return pages.POOL.bytes if pages else 0


def empty_pool() -> None:
    """Return these bytes to the system: the next dataflow begins as in a fresh process."""
    if pages := sys.modules.get(POOL_MODULE):
        pages.POOL.clear()


def return_freed() -> None:
    """Return the memory that this process has freed to the system, where the C library can.

    Otherwise a measurement counts buffers that are long freed: 50 MB in q18 over a sliding window at SF 0.1, with a
    state of 5 MB.
    """
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


class MemoryUse:
    """The memory of a process, by default this one, and its descendants since a moment, without `kept_bytes`."""

    def __init__(self, process: int | None = None) -> None:
        self._process = process
        self._before = self.now

    @property
    def now(self) -> int:
        if self._process:
            return memory(self._process)
        return_freed()
        return memory() - kept_bytes()

    @property
    def growth(self) -> int:
        """The bytes by which the memory has grown."""
        return max(self.now - self._before, 0)

    @property
    def peak(self) -> int:
        return peak(self._process)

    def reset_peak(self) -> None:
        """Let `peak` begin with the present memory."""
        reset_peak(self._process)


def touch(size: int) -> None:
    """Touch memory and free it, so that the next allocations need not wait for the host of a virtual machine.

    It raises the peak of this process, so `reset_peak` belongs after it.
    """
    if size <= 0:
        return
    with closing(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)) as memory:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        np.frombuffer(memory, dtype=np.uint8)[:: mmap.PAGESIZE] = 1


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
