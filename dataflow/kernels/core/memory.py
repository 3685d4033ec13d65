"""Memory: reservations of address space, which occupy no memory until they are touched.

State is reserved for its bound, so it is neither moved nor copied when it grows.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, SupportsIndex

import numpy as np

from deltamark.dataflow.kernels.core.guard import CHECKED, check_view, forget, register
from deltamark.errors import DeltamarkError

UNBOUNDED_WORDS = 1 << 24 if CHECKED else 1 << 31
"""Words of an array of unknown size. Checked kernels are for small data, and detect stray accesses sooner if
reservations are smaller."""

MAP_NORESERVE, MADV_HUGEPAGE = 0x4000, 14
"""Flags of `mmap` and `madvise` on Linux, which Python does not name."""

SMALL_PAGE_BYTES = 1 << 18
"""Bytes at the start of a reservation in small pages, since zeroing a huge page takes longer than a small array saves.
Not measured."""

PAGES_PER_QUERY = 1 << 14
"""Pages whose residence is queried in one call, which returns a byte for each."""

STAGGER_BYTES, MAX_STAGGER_BYTES = 17 * 64, 1 << 16
"""Reservations begin at different offsets within a page: arrays with the same offset compete for the same cache
lines. Not measured."""

GAP_BYTES = mmap.PAGESIZE if CHECKED else 0
"""Bytes behind a reservation that no reservation contains."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


@dataclass(frozen=True)
class MemoryRegion:
    """A mapped region of this process, which may cover a part of a reservation, or several."""

    start: int
    end: int
    resident_bytes: int
    """Bytes in memory that this process has touched."""

    def resident(self, start: int, end: int) -> int:
        """Count the resident bytes between two addresses."""
        start, end = max(start, self.start), min(end, self.end)
        if start >= end or self.resident_bytes == 0:
            return 0
        if (start, end) == (self.start, self.end):
            return self.resident_bytes
        return sum(
            _resident_pages(first, min(end - first, PAGES_PER_QUERY * mmap.PAGESIZE)) * mmap.PAGESIZE
            for first in range(start, end, PAGES_PER_QUERY * mmap.PAGESIZE)
        )


REGION = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) .*\n(?:.*\n)*?Rss: +(\d+)", re.MULTILINE)


def _regions() -> list[MemoryRegion]:
    """Return the mapped regions of this process, in order of their addresses."""
    smaps = Path("/proc/self/smaps").read_bytes()
    return [MemoryRegion(int(start, 16), int(end, 16), 1024 * int(rss)) for start, end, rss in REGION.findall(smaps)]


def _resident_pages(address: int, size: int) -> int:
    pages = np.empty(size // mmap.PAGESIZE, np.uint8)
    if _libc.mincore(address, size, pages.ctypes.data) != 0:
        raise OSError(ctypes.get_errno(), "mincore")
    return int(np.count_nonzero(pages & 1))


class Uncopied:
    """An object over native memory, which a copy would use and release a second time."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        """Refuse `copy.copy`, `copy.deepcopy` and `pickle`."""
        raise DeltamarkError("neither copied nor pickled", f"a {type(self).__name__}", "make another one instead")


class Memory(Uncopied):
    """The reservations of a program. Each belongs to an owner; all are released when the memory is closed."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[int, int]] = {}
        self._owners: dict[int, object] = {}
        self.owner: object = None
        """The owner of the next reservations."""

    def reserve(self, words: int) -> int:
        """Reserve int64 words, all zero; return their address."""
        offset = len(self._held) * STAGGER_BYTES % MAX_STAGGER_BYTES
        size = -(-(words * 8 + offset + GAP_BYTES) // mmap.PAGESIZE) * mmap.PAGESIZE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
        address = _libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if address in (None, 2**64 - 1):
            remedy = "lift ulimit -v, or allow overcommitting: sysctl vm.overcommit_memory=0"
            raise DeltamarkError("no address space", f"{size / 1e9:.1f} GB", remedy)
        if size > SMALL_PAGE_BYTES:
            _libc.madvise(address + SMALL_PAGE_BYTES, size - SMALL_PAGE_BYTES, MADV_HUGEPAGE)
        self._held[address + offset] = (address, size)
        self._owners[address + offset] = self.owner
        register(int(address + offset), 8 * words, f"a reservation of {words} words")
        return int(address + offset)

    def replace(self, address: int, by: int) -> None:
        """Release a reservation whose content has moved to another, which gets its owner."""
        self._owners[by] = self._owners[address]
        self.release(address)

    def release(self, address: int) -> None:
        """Return a reservation to the system."""
        del self._owners[address]
        start, size = self._held.pop(address)
        forget(start, size)
        _libc.munmap(start, size)

    def set_owner(self, address: int, owner: object) -> None:
        """Change the owner of a reservation."""
        self._owners[address] = owner

    def reservations(self) -> dict[int, object]:
        """Return the owner of each reservation, the oldest reservation first."""
        return self._owners

    def resident(self, addresses: Iterable[int]) -> dict[int, int]:
        """Count the bytes of reservations that are in memory and that this process has touched."""
        regions = _regions()
        starts, sizes = [region.start for region in regions], {}
        for address in addresses:
            start, size = self._held[address]
            parts = regions[max(bisect_right(starts, start) - 1, 0) : bisect_left(starts, start + size)]
            sizes[address] = sum(region.resident(start, start + size) for region in parts)
        return sizes

    @contextmanager
    def or_closed(self) -> Iterator[None]:
        """Release all reservations if an error stops a construction, since its frames keep the memory alive."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release all reservations."""
        for address in list(self._held):
            self.release(address)

    def __del__(self) -> None:
        self.close()


class Scratch:
    """Reservations that their owner releases together. The garbage collector releases none of them by itself."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._addresses: list[int] = []

    def reserve(self, words: int) -> int:
        """Reserve words until the scratch is closed; return their address."""
        return self.own(self._memory.reserve(words))

    def own(self, address: int) -> int:
        """Release a reservation together with the others."""
        self._addresses.append(address)
        return address

    def close(self) -> None:
        """Release all reservations."""
        while self._addresses:
            self._memory.release(self._addresses.pop())


def view(address: int, size: int) -> np.ndarray:
    """Return int64 words as an array, which is valid until their memory is released."""
    check_view(address, 8 * size)
    array = (ctypes.c_int64 * size).from_address(address)
    return np.frombuffer(array, np.int64)  # type: ignore[call-overload]


def words(address: int, count: int) -> ctypes.Array[ctypes.c_int64]:
    """Return int64 words as a ctypes array, whose elements Python reads and writes faster than those of `view`."""
    check_view(address, 8 * count)
    return (ctypes.c_int64 * count).from_address(address)
