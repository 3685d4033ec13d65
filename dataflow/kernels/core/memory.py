"""Memory by address: loads and stores that numba compiles to one instruction, and reservations.

An address is an int64, an index counts elements. Nothing is checked, for operators size what the kernels touch; kernels
that check each access can be had for tests: see kernels.core.guard. A reservation is virtual until it is touched, so
state is reserved for its bound and never moved or copied as it grows.
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
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from deltamark.dataflow.kernels.core.guard import CHECKED, check_view, forget, guard, guard_bytes, register
from deltamark.errors import DeltamarkError

kernel = njit(cache=True, error_model="numpy")
"""Compile a kernel. Integers wrap, as in C: what may overflow is checked where it may."""

inline = njit(cache=True, error_model="numpy", inline="always")


def _loader(bits: int, align: int | None = None) -> Any:
    @intrinsic
    def load(_typing: Any, _address: Any, _index: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            guard(context, builder, args[0], args[1], bits // 8)
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            value = builder.load(builder.gep(pointer, [args[1]]), align=align)
            if bits == 8:
                return builder.zext(value, ir.IntType(64))
            return value if bits == 64 else builder.sext(value, ir.IntType(64))

        return types.int64(types.int64, types.int64), generate

    return load


def _storer(bits: int) -> Any:
    @intrinsic
    def store(_typing: Any, _address: Any, _index: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            guard(context, builder, args[0], args[1], bits // 8)
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            value = args[2] if bits == 64 else builder.trunc(args[2], ir.IntType(bits))
            builder.store(value, builder.gep(pointer, [args[1]]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    return store


load, store = _loader(64), _storer(64)
load32, store32 = _loader(32), _storer(32)
load8, store8 = _loader(8), _storer(8)
_load_any = _loader(64, align=1)


@inline
def load_any(address: int) -> int:
    """Load the eight bytes at any address."""
    return _load_any(address, 0)


@inline
def wraps(a: int, b: int) -> int:
    """Return a negative number where the sum of two needs more than 64 bits."""
    total = a + b
    return (a ^ total) & (b ^ total)


def _multiplier() -> Any:
    @intrinsic
    def too_wide(_typing: Any, _a: Any, _b: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.zext(builder.extract_value(builder.smul_with_overflow(*args), 1), ir.IntType(64))

        return types.int64(types.int64, types.int64), generate

    return too_wide


too_wide = _multiplier()
"""Return 1 where the product of two needs more than 64 bits, else 0. (Dividing it again does not tell: LLVM may take it
for granted that there is no overflow.)"""


def _adder() -> Any:
    """Make add_product(address, a, b): add a * b to the 128-bit number at an address, low word first."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        guard(context, builder, args[0], ir.IntType(64)(0), 16)
        pointer = builder.inttoptr(args[0], wide.as_pointer())
        product = builder.mul(builder.sext(args[1], wide), builder.sext(args[2], wide))
        builder.store(builder.add(builder.load(pointer, align=8), product), pointer, align=8)
        return context.get_dummy_value()

    @intrinsic
    def add_product(_typing: Any, _address: Any, _a: Any, _b: Any) -> Any:
        return types.void(types.int64, types.int64, types.int64), generate

    return add_product


add_product = _adder()


def _wide_adder() -> Any:
    """Make add_wide(address, other): add the 128-bit number at another address to the one at an address."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        for arg in args:
            guard(context, builder, arg, ir.IntType(64)(0), 16)
        pointer, other = (builder.inttoptr(arg, ir.IntType(128).as_pointer()) for arg in args)
        total = builder.add(builder.load(pointer, align=8), builder.load(other, align=8))
        builder.store(total, pointer, align=8)
        return context.get_dummy_value()

    @intrinsic
    def add_wide(_typing: Any, _address: Any, _other: Any) -> Any:
        return types.void(types.int64, types.int64), generate

    return add_wide


add_wide = _wide_adder()


def _prefetcher() -> Any:
    @intrinsic
    def prefetch(_typing: Any, _address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            pointer, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
            function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
            builder.call(function, [builder.inttoptr(args[0], pointer), flag(0), flag(3), flag(1)])
            return context.get_dummy_value()

        return types.void(types.int64), generate

    return prefetch


prefetch = _prefetcher()
"""Have the cache fetch what lies at an address; any address will do."""


def _mover() -> Any:
    @intrinsic
    def move(_typing: Any, _target: Any, _source: Any, _size: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            pointer, size = ir.IntType(8).as_pointer(), ir.IntType(64)
            for end in args[:2]:
                guard_bytes(context, builder, end, args[2])
            kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, size, ir.IntType(1)])
            function = builder.module.declare_intrinsic("llvm.memmove", [pointer, pointer, size], kind)
            ends = [builder.inttoptr(arg, pointer) for arg in args[:2]]
            builder.call(function, [*ends, args[2], ir.Constant(ir.IntType(1), 0)])
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    return move


move = _mover()
"""Copy so many bytes to an address from another one; they may overlap."""


def _published() -> tuple[Any, Any]:
    """Make a load and a store of words that other processes write and read."""

    @intrinsic
    def load_acquire(_typing: Any, _address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            guard(context, builder, args[0], ir.IntType(64)(0), 8)
            pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
            return builder.load_atomic(pointer, "acquire", 8)

        return types.int64(types.int64), generate

    @intrinsic
    def store_release(_typing: Any, _address: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            guard(context, builder, args[0], ir.IntType(64)(0), 8)
            pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
            builder.store_atomic(args[1], pointer, "release", 8)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return load_acquire, store_release


load_acquire, store_release = _published()
"""Whoever loads what was so stored sees all that was stored before it; and a loop that waits loads it each time."""


def _asker() -> Any:
    @intrinsic
    def heed_signals(_typing: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
            kind = ir.FunctionType(ir.IntType(32), [])
            name = "PyErr_CheckSignals"
            function = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]
            raised = builder.icmp_signed("!=", builder.call(function, []), ir.IntType(32)(0))
            with cgutils.if_unlikely(builder, raised):  # type: ignore[no-untyped-call]
                context.call_conv.return_exc(builder)
            return context.get_dummy_value()

        return types.void(), generate

    return heed_signals


heed_signals = _asker()
"""Run the Python handlers of signals that have come, and raise what they raise: so Ctrl-C ends a long kernel.
It costs 5 ns, and is to be called now and then."""

OFTEN = (1 << 16) - 1
"""Steps of a long loop, less one, between two looks for signals."""


@inline
def heed_signals_at(step: int) -> None:
    """Heed signals at some of the steps of a loop."""
    if step & OFTEN == 0:
        heed_signals()


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
