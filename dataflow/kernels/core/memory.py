"""Memory: reservations of address space, which occupy no memory until they are touched.

State is reserved for its bound, so it is neither moved nor copied when it grows. Released reservations go to the pool
of the process, with their pages: see `pages`.
"""

from __future__ import annotations

import ctypes
import re
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, NoReturn, SupportsIndex

import numpy as np

from deltamark.dataflow.kernels.core import pages
from deltamark.dataflow.kernels.core.guard import CHECKED, check_view, forget, register
from deltamark.dataflow.kernels.core.pages import (
    MAX_STAGGER_BYTES,
    PAGE_BYTES,
    STAGGER_BYTES,
    Extent,
    Kind,
    Mapping,
    Pool,
)
from deltamark.errors import DeltamarkError

UNBOUNDED_WORDS = 1 << 24 if CHECKED else 1 << 31
"""Words of an array of unknown size; it gets fewer if address space is short. Checked kernels are for small data, and
detect stray accesses sooner if reservations are smaller."""

UNSET = 0x5E7DA7A0BAD5EED
"""A word that no array contains by accident: in checked kernels the content of unset words, and otherwise the mark of
each page from the pool that its new user has not used yet."""

MARKS = 8
"""The words of a mark: a cache line."""

UNSET_BYTES = 1 << 15
"""The first bytes of unset words that checked kernels find filled with UNSET."""

REGION = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) .*\n(?:.*\n)*?Rss: +(\d+)", re.MULTILINE)


def _resident(mappings: Sequence[Mapping]) -> list[int]:
    """Count the bytes of mappings that are in memory.

    A list of all mappings of the process, which older kernels have alone, takes 0.1 s if the pool has thousands.
    """
    try:
        return [sum(end - start for start, end, _ in each) for each in pages.scan(mappings, pages.PRESENT)]
    except OSError:
        smaps = Path("/proc/self/smaps").read_bytes()
        regions = [(int(start, 16), 1024 * int(rss)) for start, _, rss in REGION.findall(smaps)]
        starts = [start for start, _ in regions]
        parts = [regions[bisect_left(starts, each.first) : bisect_left(starts, each.end)] for each in mappings]
        return [sum(size for _, size in each) for each in parts]


class Uncopied:
    """An object over native memory, which a copy would use and release a second time."""

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        """Refuse `copy.copy`, `copy.deepcopy` and `pickle`."""
        raise DeltamarkError("neither copied nor pickled", f"a {type(self).__name__}", "make another one instead")


class Run(NamedTuple):
    """Successive bytes of a reservation."""

    offset: int
    size: int


@dataclass(frozen=True)
class Reservation:
    """Words with a range of their own. is_unset: whether they had no value at first, rather than zeros."""

    mapping: Mapping
    is_unset: bool

    def begin(self) -> None:
        """Prepare the pages of an earlier user."""
        for start, end, _ in self.mapping.extents:
            if self.is_unset:
                _content(start, end)[self._marks(start, end)] = UNSET
            else:
                ctypes.memset(start, 0, end - start)

    def _marks(self, start: int, end: int) -> np.ndarray:
        """Return the places of the first words of the array in each small page: a record may leave some unused."""
        first = np.maximum(np.arange(start, end, PAGE_BYTES), self.mapping.start) - start
        return first[:, np.newaxis] // 8 + np.arange(MARKS)

    def unused_bytes(self) -> int:
        """Count the bytes of the pages of an earlier user that the array has not used."""
        total = 0
        for start, end, page_bytes in self.mapping.extents:
            content = _content(start, end)
            if self.is_unset:
                used = (content[self._marks(start, end)] != UNSET).any(1)
            else:
                used = content.reshape(-1, PAGE_BYTES // 8).any(1)
            total += page_bytes * int(np.count_nonzero(~used.reshape(-1, page_bytes // PAGE_BYTES).any(1)))
        return total

    def used(self, extents: Sequence[Extent]) -> list[Run]:
        """Return the runs of pages that are not all zero. extents: those in memory, or swapped out.

        Pages of an earlier user of unset words belong to them: the array may have used any word of a page.
        """
        runs = list[Run]()
        for start, end, _ in extents:
            used = _content(start, end).reshape(-1, PAGE_BYTES // 8).any(1)
            edges = np.flatnonzero(np.diff(used, prepend=False, append=False)).reshape(-1, 2)
            for first, last in (start + PAGE_BYTES * edges).tolist():
                begin = max(first, self.mapping.start)
                if begin < last:
                    runs.append(Run(begin - self.mapping.start, last - begin))
        return runs


def _content(start: int, end: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_int64 * ((end - start) // 8)).from_address(start), np.int64)  # type: ignore[call-overload]


class Memory(Uncopied):
    """The reservations of a program. Each belongs to an owner; all are released when the memory is closed.

    pool: the pool whose pages are used; None: all pages are fresh.
    """

    def __init__(self, pool: Pool | None = pages.POOL) -> None:
        self._pool = None if CHECKED else pool
        self._held: dict[int, Reservation] = {}
        self._owners: dict[int, object] = {}
        self.owner: object = None
        """The owner of the next reservations."""

    def reserve(self, words: int, expected: int = 0) -> int:
        """Reserve int64 words, all zero, the first of which will be used; return their address.

        words: UNBOUNDED_WORDS for each word of an item if their number is unknown; the array gets fewer if address
        space is short; expected: the words in use later; 0: unknown.
        """
        return self._reserve(self._possible(words), expected, is_unset=False)

    def reserve_whole(self, words: int, expected: int = 0) -> int:
        """Reserve int64 words, all zero, any of which may be used; return their address. expected: as of `reserve`."""
        return self._reserve(words, expected, is_unset=False)

    def reserve_unset(self, words: int, expected: int = 0) -> int:
        """Reserve int64 words without a value; return their address. words, expected: as of `reserve`."""
        words = self._possible(words)
        address = self._reserve(words, expected, is_unset=True)
        if CHECKED:
            view(address, min(words, UNSET_BYTES // 8))[:] = UNSET
        return address

    def _possible(self, words: int) -> int:
        """Return the number of words of an array whose first words are used, if it asks for some."""
        if words < UNBOUNDED_WORDS:
            return words
        left = pages.ADDRESS_BYTES - pages.MAPPED.bytes + (self._pool.space if self._pool else 0)
        return min(words, pages.most_bytes(words // UNBOUNDED_WORDS, left) // 8)

    def _reserve(self, words: int, expected: int, *, is_unset: bool) -> int:
        kind = Kind.of(8 * words, 8 * expected)
        mapping = self._pool.take(kind) if self._pool else None
        return self._hold(mapping or self._fresh(kind), words, is_unset=is_unset)

    def _fresh(self, kind: Kind) -> Mapping:
        """Map fresh pages, if need be in the address space that the pool gives up."""
        try:
            return pages.map_pages(kind, self._stagger)
        except DeltamarkError:
            if self._pool is None:
                raise
            self._pool.clear()
            return pages.map_pages(kind, self._stagger)

    @property
    def _stagger(self) -> int:
        return len(self._held) * STAGGER_BYTES % MAX_STAGGER_BYTES

    def _hold(self, mapping: Mapping, words: int, *, is_unset: bool) -> int:
        address = mapping.start
        self._held[address] = Reservation(mapping, is_unset)
        self._owners[address] = self.owner
        self._held[address].begin()
        register(address, 8 * words, f"a reservation of {words} words")
        return address

    def replace(self, address: int, by: int) -> None:
        """Release a reservation whose content has moved to another, which gets its owner."""
        self._owners[by] = self._owners[address]
        self.release(address)

    def release(self, *addresses: int) -> None:
        """Return reservations to the pool, or to the system."""
        released = []
        for address in addresses:
            del self._owners[address]
            released.append(self._held.pop(address).mapping)
        forget((each.base, each.mapped) for each in released)
        if self._pool:
            self._pool.put(released)
            return
        for mapping in released:
            pages.unmap(mapping)

    def set_owner(self, address: int, owner: object) -> None:
        """Change the owner of a reservation."""
        self._owners[address] = owner

    def reservations(self) -> dict[int, object]:
        """Return the owner of each reservation, the oldest reservation first."""
        return self._owners

    def resident(self, addresses: Iterable[int]) -> dict[int, int]:
        """Count the bytes of reservations that are in memory and that this process has used."""
        held = {address: self._held[address] for address in addresses}
        sizes = _resident([each.mapping for each in held.values()])
        return {at: size - each.unused_bytes() for (at, each), size in zip(held.items(), sizes, strict=True)}

    def sizes(self) -> dict[int, int]:
        """Return the bytes of address space of each reservation."""
        return {address: each.mapping.kind.size for address, each in self._held.items()}

    def used(self, addresses: Iterable[int]) -> dict[int, list[Run]]:
        """Return the used bytes of reservations; an OSError is raised if this kernel cannot tell (before Linux 6.7)."""
        held = {address: self._held[address] for address in addresses}
        extents = pages.scan([each.mapping for each in held.values()], pages.PRESENT | pages.SWAPPED)
        return {at: each.used(found) for (at, each), found in zip(held.items(), extents, strict=True)}

    def clear(self, address: int) -> None:
        """Let a reservation have zeros alone, in fresh pages."""
        held = self._held[address]
        pages.clear(held.mapping)
        self._held[address] = replace(held, mapping=replace(held.mapping, extents=()))

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
        self.release(*self._held)

    def __del__(self) -> None:
        if not sys.is_finalizing():  # a process that ends returns its memory, and cannot open files any more
            self.close()


class Scratch:
    """Reservations that their owner releases together. The garbage collector releases none of them by itself."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._addresses: list[int] = []

    def reserve(self, words: int) -> int:
        """Reserve words until the scratch is closed; return their address."""
        return self.own(self._memory.reserve(words))

    def reserve_unset(self, words: int) -> int:
        """Reserve words without a value until the scratch is closed; return their address."""
        return self.own(self._memory.reserve_unset(words))

    def own(self, address: int) -> int:
        """Release a reservation together with the others."""
        self._addresses.append(address)
        return address

    def close(self) -> None:
        """Release all reservations."""
        addresses, self._addresses = self._addresses, []
        self._memory.release(*addresses)


def view(address: int, size: int) -> np.ndarray:
    """Return int64 words as an array, which is valid until their memory is released."""
    check_view(address, 8 * size)
    array = (ctypes.c_int64 * size).from_address(address)
    return np.frombuffer(array, np.int64)  # type: ignore[call-overload]


def narrow_view(address: int, width: int, size: int) -> np.ndarray:
    """Return integers of 1, 2, 4 or 8 bytes as an array, which is valid as that of `view` is."""
    check_view(address, width * size)
    array = (ctypes.c_char * (width * size)).from_address(address)
    return np.frombuffer(array, f"i{width}")  # type: ignore[call-overload]


def words(address: int, count: int) -> ctypes.Array[ctypes.c_int64]:
    """Return int64 words as a ctypes array, whose elements Python reads and writes faster than those of `view`."""
    check_view(address, 8 * count)
    return (ctypes.c_int64 * count).from_address(address)
