"""Pages: ranges of address space, and the pool that keeps the pages of released ones for the next.

The kernel clears each page that it hands out: measured at SF 1, a fifth of the time of a query. So a released range
goes to the pool of the process with the pages that it has touched. The next reservation of the same kind gets it: the
same address space, and about the same expected size. The ranges that were released last come first, in the order in
which they were reserved, so a dataflow that is opened again gets for each array the pages of the same array.

The kernel may take the pages of the pool if it is short of memory (MADV_FREE). Beyond a bound, the oldest ranges return
to the system. A forked process begins with an empty pool, since a write would copy each page.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import NamedTuple

import numpy as np

from deltamark.errors import DeltamarkError

PAGE_BYTES, HUGE_PAGE_BYTES = mmap.PAGESIZE, 2 << 20

LARGE_BYTES = 2 * HUGE_PAGE_BYTES
"""The expected size from which on an array lies in huge pages from its first byte. The first bytes of others, nearly
HUGE_PAGE_BYTES, lie in small pages, since clearing a huge page takes longer than a small array saves. Not measured."""

STAGGER_BYTES, MAX_STAGGER_BYTES = 17 * 64, 1 << 16
"""Arrays begin at different offsets within a page: those with the same offset compete for the same cache lines. Not
measured."""

EDGE_BYTES = max(MAX_STAGGER_BYTES, 2 * PAGE_BYTES)
"""The bytes before an array and behind it that have a page without access."""

ADDRESS_BYTES = 1 << 47
"""The address space of a process on x86-64."""

SPACE_SHARE = 1 << 12
"""An array of unknown size gets at most this fraction, as a divisor, of the address space that is left. So the first
four thousand get all that they ask for, and later ones get less, before there is none for the last."""

MAX_SPACE_SHARES = 16
"""The fractions that an array gets at most if each of its items has many words. Not tuned."""

MIN_UNKNOWN_BYTES = 1 << 30
"""The address space that an array of unknown size gets at least: 128 million numbers. Not tuned."""

KEPT_SHARE = 4
"""The pool keeps at most this fraction, as a divisor, of the machine's memory. Not tuned."""

MOST_SPACE = ADDRESS_BYTES // 2
"""The address space that a pool keeps at most, and gives up when no other is left. Measured: the 22 queries in one
dataflow have 2,700 arrays of 16 GB. With half of this bound, the next dataflow got many of them afresh, and took 1.5
times as long."""

MAX_KEPT = 1 << 13
"""The number of ranges that the pool keeps at most. Before Linux 6.13 each has two mappings, of the 65,530 that the
kernel allows."""

MAX_MAPPINGS = Path("/proc/sys/vm/max_map_count")

SPARE_MAPPINGS = 16
"""A process that has all mappings but these has reached the limit: another thread may have unmapped some meanwhile."""

MACHINE_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
"""The memory of the machine."""

MAP_NORESERVE, MADV_DONTNEED, MADV_FREE, MADV_HUGEPAGE, MADV_GUARD_INSTALL = 0x4000, 4, 8, 14, 102
"""Flags of `mmap` and `madvise` on Linux, which Python does not name."""

PAGEMAP_SCAN, PRESENT, SWAPPED, ZERO, HUGE = 0xC0606610, 1 << 3, 1 << 4, 1 << 5, 1 << 6
"""A request of Linux 6.7, and categories of pages."""

SCANNED_EXTENTS = 1 << 10
"""The number of extents that one request returns at most."""

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Kind(NamedTuple):
    """The bytes of address space of a range, and the bytes that its array is expected to use: powers of two."""

    size: int
    expected: int

    @classmethod
    def of(cls, size: int, expected: int) -> Kind:
        """Return the kind of an array. expected: 0 if it is not known."""
        return cls(_power(max(size, PAGE_BYTES)), _power(min(expected, size)))

    @property
    def is_large(self) -> bool:
        return self.expected >= LARGE_BYTES


def _power(number: int) -> int:
    """Return the least power of two that is not less."""
    return 1 << (number - 1).bit_length() if number > 0 else 0


class Extent(NamedTuple):
    """Neighbouring pages of one size, in memory."""

    start: int
    end: int
    page_bytes: int


@dataclass(frozen=True)
class Mapping:
    """A range of address space between pages without access, and the pages that an earlier user has touched.

    start: the first address of the array; extents: those of these pages, in order of their addresses.
    """

    kind: Kind
    base: int
    start: int
    mapped: int
    """The bytes from `base` on that are mapped."""
    extents: Sequence[Extent] = ()
    serial: int = 0

    @property
    def first(self) -> int:
        """The first address that may be accessed: that of the page in which the array begins."""
        return self.start // MAX_STAGGER_BYTES * MAX_STAGGER_BYTES

    @property
    def end(self) -> int:
        return self.first + self.kind.size + MAX_STAGGER_BYTES

    @property
    def kept_bytes(self) -> int:
        return sum(each.end - each.start for each in self.extents)


class Mapped:
    """The bytes of address space that all ranges of the process take."""

    def __init__(self) -> None:
        self.bytes = 0
        self._lock = RLock()  # as that of a pool

    def add(self, size: int) -> None:
        with self._lock:
            self.bytes += size

    def begin_process(self) -> None:
        """Replace the lock in a forked process, which has the ranges of its parent."""
        self._lock = RLock()


MAPPED = Mapped()
os.register_at_fork(after_in_child=MAPPED.begin_process)


def most_bytes(shares: int, left: int) -> int:
    """Return the most bytes of an array of unknown size whose first bytes are used: a power of two.

    The array cannot need more than the memory of the machine; that is doubled since some may be swapped out.

    shares: the words of an item; left: the address space that is left.
    """
    share = max(left // SPACE_SHARE * min(shares, MAX_SPACE_SHARES), MIN_UNKNOWN_BYTES)
    return min(1 << share.bit_length() - 1, _power(2 * MACHINE_BYTES))


def map_pages(kind: Kind, stagger: int) -> Mapping:
    """Map fresh pages, all zero. stagger: the offset of the array, less than MAX_STAGGER_BYTES.

    The array begins at a huge page if it is expected to be large, and else behind the beginning of one, which has the
    page without access, and so consists of small pages.
    """
    unit = HUGE_PAGE_BYTES if kind.size >= HUGE_PAGE_BYTES else MAX_STAGGER_BYTES
    size = kind.size + MAX_STAGGER_BYTES
    mapped = size + unit + 2 * EDGE_BYTES
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    base = libc.mmap(None, mapped, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if base in (None, 2**64 - 1):
        raise _no_space(mapped)
    first = _aligned(base + EDGE_BYTES, unit) if kind.is_large else _aligned(base, unit) + EDGE_BYTES
    if not _guard(base, first, first + size, base + mapped):
        libc.munmap(base, mapped)
        raise _no_space(mapped)
    MAPPED.add(mapped)
    return Mapping(kind, base, first + stagger, mapped)


def _aligned(address: int, unit: int) -> int:
    """Return the first multiple of a unit that is not less."""
    return -(-address // unit) * unit


def _guard(base: int, first: int, end: int, stop: int) -> bool:
    """Bar access to a page before an array and one behind it; return whether that was possible.

    Since Linux 6.13 pages of one mapping can be barred, so all arrays that lie side by side are one mapping of the
    kernel, which allows a limited number. They are not next to the array: a scan does not tell them from used pages.
    """
    libc.madvise(base, stop - base, MADV_HUGEPAGE)
    guards = (first - 2 * PAGE_BYTES, end + PAGE_BYTES)
    if all(libc.madvise(each, PAGE_BYTES, MADV_GUARD_INSTALL) == 0 for each in guards):
        return True
    return all(libc.mprotect(begin, until - begin, 0) == 0 for begin, until in ((base, first), (end, stop)))


def _no_space(size: int) -> DeltamarkError:
    """Return the error for a range that cannot be mapped, with the limit that was reached."""
    with suppress(OSError, ValueError):
        most, used = int(MAX_MAPPINGS.read_text()), Path("/proc/self/maps").read_bytes().count(b"\n")
        if used > most - SPARE_MAPPINGS:
            actual = f"{used:,}; vm.max_map_count is {most:,}"
            remedy = f"close other dataflows or connections, take fewer workers, or: sysctl vm.max_map_count={4 * most}"
            return DeltamarkError("too many memory mappings of a process", actual, remedy)
    remedy = "lift ulimit -v, or allow overcommitting: sysctl vm.overcommit_memory=0"
    return DeltamarkError("no address space", f"{size / 1e9:.1f} GB", remedy)


def unmap(mapping: Mapping) -> None:
    """Return a range to the system."""
    libc.munmap(mapping.base, mapping.mapped)
    MAPPED.add(-mapping.mapped)


def clear(mapping: Mapping) -> None:
    """Return the pages of a range to the system: all its words are zero then."""
    libc.madvise(mapping.first, mapping.end - mapping.first, MADV_DONTNEED)


def touched(mappings: Sequence[Mapping]) -> list[Sequence[Extent]]:
    """Return the pages of each range that are in memory, or swapped out; nothing if this kernel cannot tell."""
    try:
        return scan(mappings, PRESENT | SWAPPED)
    except OSError:
        return [()] * len(mappings)


def scan(mappings: Sequence[Mapping], categories: int) -> list[Sequence[Extent]]:
    """Return the pages of each range in one of some categories; before Linux 6.7 an OSError is raised.

    Ranges without a gap between them are scanned together, which takes half the time.
    """
    found, spans = list[Extent](), list[list[int]]()
    for each in sorted(mappings, key=lambda each: each.base):
        if not spans or spans[-1][1] != each.base:
            spans.append([each.base, each.base])
        spans[-1][1] += each.mapped
    pages = os.open("/proc/self/pagemap", os.O_RDONLY)
    try:
        for start, end in spans:
            found += _scan(pages, start, end, categories)
    finally:
        os.close(pages)
    starts = [each.start for each in found]
    return [found[bisect_left(starts, each.first) : bisect_left(starts, each.end)] for each in mappings]


def _scan(pages: int, start: int, end: int, categories: int) -> Iterator[Extent]:
    """Yield the pages between two addresses. pages: an open file of the pages of the process.

    A request with room for more extents has reached the end. The address at which it says to go on may be an earlier
    one: Linux 6.18 repeats the extents behind the 512th then.
    """
    extents = np.empty((SCANNED_EXTENTS, 3), np.uint64)
    while start < end:
        words = 96, 0, start, end, 0, extents.ctypes.data, len(extents), 0, ZERO, ZERO, categories, HUGE
        request = bytearray(struct.pack("12Q", *words))
        count = fcntl.ioctl(pages, PAGEMAP_SCAN, request)
        (start,) = struct.unpack_from("Q", request, 32)
        for at, stop, kind in extents[:count].tolist():
            yield Extent(at, stop, HUGE_PAGE_BYTES if kind & HUGE else PAGE_BYTES)
        if count < len(extents):
            return


class Pool:
    """The released ranges of a process. It is safe for threads, and for the garbage collector.

    A range without pages returns to the system, but keeps its place in the order of its kind.
    """

    def __init__(self, most_bytes: int, most_space: int = MOST_SPACE) -> None:
        self.most_bytes, self.most_space = most_bytes, most_space
        self.bytes = 0
        """The bytes of all pages in the pool, some of which the kernel may have taken."""
        self.space = 0
        """The bytes of address space of all ranges in the pool."""
        self._kept: dict[Kind, deque[Mapping]] = {}
        self._count = self._serial = 0
        self._lock = RLock()  # the garbage collector may release memory while the thread has the lock

    def take(self, kind: Kind) -> Mapping | None:
        """Return the first range of a kind, if there is one and it has pages."""
        with self._lock:
            found = self._kept.get(kind)
            first = self._forget(found.popleft()) if found else None
        return first if first and first.extents else None

    def put(self, mappings: Sequence[Mapping]) -> None:
        """Keep ranges with the pages that they have touched, before all others and in this order.

        Measured: if the oldest ranges came first, a small dataflow after one with many arrays of its kinds got their
        small ranges, and each time others of them; q05 took 190 ms instead of 43.
        """
        for mapping, extents in zip(reversed(mappings), reversed(touched(mappings)), strict=True):
            if not extents:
                unmap(mapping)
            for start, end, _ in extents:
                libc.madvise(start, end - start, MADV_FREE)
            self._keep(mapping, extents)

    def _keep(self, mapping: Mapping, extents: Sequence[Extent]) -> None:
        with self._lock:
            self._serial += 1
            kept = replace(mapping, extents=extents, serial=self._serial)
            self._kept.setdefault(kept.kind, deque()).appendleft(kept)
            self._count_in(kept, 1)
            while self.bytes > self.most_bytes or self._count > MAX_KEPT or self.space > self.most_space:
                self._drop_oldest(min(filter(None, self._kept.values()), key=lambda each: each[-1].serial))

    def _drop_oldest(self, kept: deque[Mapping]) -> None:
        oldest = self._forget(kept.pop())
        if oldest.extents:
            unmap(oldest)

    def _forget(self, mapping: Mapping) -> Mapping:
        self._count_in(mapping, -1)
        return mapping

    def _count_in(self, mapping: Mapping, sign: int) -> None:
        size = mapping.kept_bytes  # before the sum is read: a collection may put other ranges into the pool meanwhile
        self.bytes += sign * size
        self.space += sign * mapping.mapped * bool(size)
        self._count += sign

    def clear(self) -> None:
        """Return all ranges to the system."""
        with self._lock:
            for kept in self._kept.values():
                while kept:
                    self._drop_oldest(kept)

    def begin_process(self) -> None:
        """Empty the pool of a forked process. Another thread of the parent may have had the lock."""
        self._lock = RLock()
        self.clear()


POOL = Pool(MACHINE_BYTES // KEPT_SHARE)
os.register_at_fork(after_in_child=POOL.begin_process)
