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


def touch(size: int) -> None:
    """Touch so many bytes and give them back. A virtual machine may have to ask its host for memory that was long
    unused, which takes many times as long as using it again; so whoever comes first would pay for it.
    """
    with mmap.mmap(-1, max(size, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        np.frombuffer(memory, dtype=np.uint8)[:: mmap.PAGESIZE] = 1


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
