"""Memory: reservations of virtual memory, which cost nothing until they are touched.

State is reserved for its bound, so it is never moved or copied when it grows.
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

import numpy as np

from deltamark.dataflow.kernels.core.guard import CHECKED, check_view, forget, register
from deltamark.errors import DeltamarkError

NORESERVE, HUGE_PAGES, GIVE_BACK = 0x4000, 14, 9
SMALL_PAGES = 1 << 18
"""Bytes at the start of a reservation in small pages: zeroing a huge one costs more than a small array is worth."""
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
MOST_PAGES = 1 << 14
"""Asked of at a time: the answer is a byte a page, and a large array would itself be many pages."""
STAGGER, STAGGER_WITHIN = 17 * 64, 1 << 16
GAP = mmap.PAGESIZE if CHECKED else 0
"""Bytes behind a reservation that belong to nobody."""


@dataclass(frozen=True)
class Mapping:
    """A mapping of this process, which may be of a part of a reservation, or of several."""

    start: int
    end: int
    bytes: int
    """What of it costs memory, as far as this process has touched it."""

    def resident(self, start: int, end: int) -> int:
        """Count the bytes between two addresses that cost memory."""
        start, end = max(start, self.start), min(end, self.end)
        if start >= end or self.bytes == 0:
            return 0
        if (start, end) == (self.start, self.end):
            return self.bytes
        return sum(
            _resident_pages(first, min(end - first, MOST_PAGES * mmap.PAGESIZE)) * mmap.PAGESIZE
            for first in range(start, end, MOST_PAGES * mmap.PAGESIZE)
        )


MAPPING = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) .*\n(?:.*\n)*?Rss: +(\d+)", re.MULTILINE)


def _mappings() -> list[Mapping]:
    """Return the mappings of this process, in order of their addresses."""
    smaps = Path("/proc/self/smaps").read_bytes()
    return [Mapping(int(start, 16), int(end, 16), 1024 * int(rss)) for start, end, rss in MAPPING.findall(smaps)]


def _resident_pages(address: int, size: int) -> int:
    pages = np.empty(size // mmap.PAGESIZE, np.uint8)
    if _libc.mincore(address, size, pages.ctypes.data) != 0:
        raise OSError(ctypes.get_errno(), "mincore")
    return int(np.count_nonzero(pages & 1))


class Memory:
    """Owns reservations, and gives them back all at once, or those that were made for an owner."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[int, int]] = {}
        self._owners: dict[int, object] = {}
        self.owner: object = None
        """Whom reservations are made for from now on."""

    def reserve(self, words: int) -> int:
        """Return the address of so many int64, all zero, none of them costing memory yet."""
        return self._map(words, mmap.MAP_PRIVATE)

    def share(self, words: int) -> int:
        """Reserve what processes that are forked later have in common."""
        return self._map(words, mmap.MAP_SHARED)

    @contextmanager
    def borrowed(self, words: int) -> Iterator[int]:
        """Reserve words for as long as the context is open."""
        address = self.reserve(words)
        try:
            yield address
        finally:
            if address in self._held:  # unless everything has been given back meanwhile
                self.release(address)

    def _map(self, words: int, kind: int) -> int:
        # arrays that begin at the same place in their pages fight for the same lines of the cache
        offset = len(self._held) * STAGGER % STAGGER_WITHIN
        size = -(-(words * 8 + offset + GAP) // mmap.PAGESIZE) * mmap.PAGESIZE
        flags = kind | mmap.MAP_ANONYMOUS | NORESERVE
        address = _libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if address in (None, 2**64 - 1):
            raise DeltamarkError(
                "no address space", f"{size / 1e9:.1f} GB", "lower the bounds on rows, or lift ulimit -v"
            )
        if size > SMALL_PAGES and kind == mmap.MAP_PRIVATE:
            _libc.madvise(address + SMALL_PAGES, size - SMALL_PAGES, HUGE_PAGES)
        self._held[address + offset] = (address, size)
        self._owners[address + offset] = self.owner
        register(int(address + offset), 8 * words, f"a reservation of {words} words")
        return int(address + offset)

    def clear(self, address: int, used: int) -> None:
        """Give back the memory of a shared reservation of which so many bytes were used; it reads as zeros again."""
        start, size = self._held[address]
        whole = -(-(address - start + used) // mmap.PAGESIZE) * mmap.PAGESIZE
        if _libc.madvise(start, min(whole, size), GIVE_BACK) != 0:
            raise OSError(ctypes.get_errno(), "madvise")

    def replace(self, address: int, by: int) -> None:
        """Give a reservation back, whose content has moved to another."""
        self._owners[by] = self._owners[address]
        self.release(address)

    def release(self, address: int) -> None:
        del self._owners[address]
        start, size = self._held.pop(address)
        forget(start, size)
        _libc.munmap(start, size)

    def give(self, address: int, owner: object) -> None:
        """Let a reservation belong to another owner."""
        self._owners[address] = owner

    def reservations(self) -> dict[int, object]:
        """Return whom each reservation was made for, in the order in which they were made."""
        return self._owners

    def resident(self, addresses: Iterable[int]) -> dict[int, int]:
        """Count the bytes of each of these reservations that cost memory and that this process has touched."""
        mapped = _mappings()
        starts, found = [each.start for each in mapped], {}
        for address in addresses:
            start, size = self._held[address]
            parts = mapped[max(bisect_right(starts, start) - 1, 0) : bisect_left(starts, start + size)]
            found[address] = sum(each.resident(start, start + size) for each in parts)
        return found

    def close(self) -> None:
        for address in list(self._held):
            self.release(address)

    def __del__(self) -> None:
        self.close()


def view(address: int, size: int) -> np.ndarray:
    """Look at int64 words as an array; it is valid as long as its memory is."""
    check_view(address, 8 * size)
    return np.ctypeslib.as_array((ctypes.c_int64 * size).from_address(address))


def words(address: int, count: int) -> ctypes.Array[ctypes.c_int64]:
    """Look at int64 words in a way that is quick to read and write one by one."""
    check_view(address, 8 * count)
    return (ctypes.c_int64 * count).from_address(address)
