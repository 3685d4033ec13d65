"""Checked kernels: every load and store must stay within the range of memory that its address belongs to.

The environment variable DELTAMARK_CHECKED, set before the first import, selects them; their cache is separate. Each
reservation, block, table and cell of the process, and each array that is lent to kernels, is registered as a range of
addresses. A load or store has a base and an index: the base must lie in a registered range, and the accessed bytes must
lie in the same one. Views of the memory in Python are checked in the same way.

Two faults are not detected: a wrong index that stays within its range, and a wrong base that lies in another range.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import bisect
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import cfunc, types
from numba.core import cgutils
from numba.core.ccallback import CFunc
from numba.core.cpu import CPUContext
from numba.core.typing.templates import Signature

from deltamark.dataflow.kernels.core.dispatcher import WORD, Generated, instruction

CHECKED = os.environ.get("DELTAMARK_CHECKED", "0") not in ("", "0")

SYMBOL = "deltamark_guard"
"""The symbol of the check in compiled kernels."""

CACHED_RANGES, MAX_LENT, MAX_RANGES = 1024, 1 << 12, 1 << 18
VERSION, FAULT_BASE, FAULT_ADDRESS, FAULT_SIZE, CACHE = 0, 1, 2, 3, 8
HALVES = CACHE + 2 * CACHED_RANGES
COUNT, LENT, ARRAYS = 0, 1, 2
STARTS = ARRAYS + 2 * MAX_LENT
ENDS = STARTS + MAX_RANGES
HALF_WORDS = ENDS + MAX_RANGES
"""Positions in the table that the check reads: a version, the last fault and the cached ranges, then two halves. A half
has the numbers of ranges and of lent arrays, the lent arrays (pairs of first address and end), the first addresses of
all ranges in order, and their ends. A change writes the other half before it increases the version, which says which
half is valid: so other threads may check meanwhile. A check that fails is repeated if the version has changed.
"""


class OutOfBoundsError(Exception):
    """A kernel has accessed memory outside its ranges: a fault in deltamark."""


@dataclass(frozen=True)
class Range:
    """Addresses that kernels may access, and a description of them for errors."""

    start: int
    end: int
    label: str


class Registry:
    """The ranges of this process. A forked process has a copy."""

    def __init__(self) -> None:
        self.table = np.zeros(HALVES + 2 * HALF_WORDS, np.int64)
        self._starts: list[int] = []
        self._ranges: dict[int, Range] = {}
        self._lent: list[Range] = []
        self._is_changing, self._freed = False, list[tuple[int, int]]()
        """Memory that the garbage collector released during a change."""
        self._lock_anew()
        os.register_at_fork(after_in_child=self._lock_anew)

    def _lock_anew(self) -> None:
        """Replace the lock in a forked process: the thread that has it does not exist there."""
        self._lock = threading.RLock()

    def add(self, start: int, size: int, label: str) -> None:
        with self._change():
            self._add(start, size, label)

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Complete a change before the next begins: the garbage collector may release memory at any step of one."""
        with self._lock:
            self._is_changing = True
            try:
                yield
            finally:
                while self._freed:
                    self._remove_all(*self._freed.pop())
                self._is_changing = False

    def _add(self, start: int, size: int, label: str) -> None:
        place = bisect.bisect(self._starts, start)
        if len(self._starts) == MAX_RANGES:
            raise MemoryError("too many ranges for checked kernels")
        self._starts.insert(place, start)
        self._ranges[start] = Range(start, start + size, label)
        self._show(place, [(start, start + size)], place)

    def remove_within(self, memory: Iterable[tuple[int, int]]) -> None:
        """Remove all ranges that begin within some memory, given as first addresses and bytes."""
        with self._lock:
            if self._is_changing:
                self._freed += memory
                return
            with self._change():
                for start, size in memory:
                    self._remove_all(start, size)

    def _remove_all(self, start: int, size: int) -> None:
        first, last = bisect.bisect_left(self._starts, start), bisect.bisect_left(self._starts, start + size)
        for each in self._starts[first:last]:
            del self._ranges[each]
        del self._starts[first:last]
        self._show(first, [], last)

    def _show(self, place: int, ends: Sequence[tuple[int, int]], behind: int) -> None:
        """Make the other half valid: ranges up to a place, then new ones, then the old ones from another place on."""
        version = int(self.table[VERSION])
        old, new = (self.table[HALVES + HALF_WORDS * (each & 1) :][:HALF_WORDS] for each in (version, version + 1))
        left = int(old[COUNT]) - behind
        for column, values in ((STARTS, [start for start, _ in ends]), (ENDS, [end for _, end in ends])):
            new[column : column + place] = old[column : column + place]
            new[column + place : column + place + len(ends)] = values
            after = column + place + len(ends)
            new[after : after + left] = old[column + behind : column + behind + left]
        new[COUNT], new[LENT] = place + len(ends) + left, len(self._lent)
        lent = [word for each in self._lent for word in (each.start, each.end)]
        new[ARRAYS : ARRAYS + len(lent)] = lent
        self.table[CACHE:HALVES] = 0
        self.table[VERSION] = version + 1

    def lend(self, lent: Sequence[Range]) -> None:
        """Add arrays, which may overlap, until `take_back`."""
        with self._change():
            self._lent += lent
            self._show_lent()

    def take_back(self, lent: Sequence[Range]) -> None:
        with self._change():
            for each in lent:
                self._lent.remove(each)
            self._show_lent()

    def _show_lent(self) -> None:
        if len(self._lent) > MAX_LENT:
            raise MemoryError("too many lent arrays for checked kernels")
        self._show(len(self._starts), [], len(self._starts))

    def of(self, address: int) -> Range | None:
        """Return the range that contains an address."""
        with self._lock:
            place = bisect.bisect(self._starts, address) - 1
            found = self._ranges[self._starts[place]] if place >= 0 else None
            if found is not None and address < found.end:
                return found
            return next((each for each in self._lent if each.start <= address < each.end), None)

    def fault(self) -> str:
        """Describe the last load or store that was refused."""
        base, address, size = (int(self.table[each]) for each in (FAULT_BASE, FAULT_ADDRESS, FAULT_SIZE))
        found = self.of(base)
        if found is None:
            return f"{size} bytes at address {address:#x}, {(address - base) // size} elements from {base:#x}, not live"
        offset, length = (address - found.start) // size, (found.end - found.start) // size
        return f"{size} bytes at index {offset} of {found.label}, which has {length} such elements at {found.start:#x}"

    def check(self, address: int, size: int) -> None:
        """Refuse a view of memory that does not lie in one range."""
        found = self.of(address)
        if size and (found is None or address + size > found.end):
            self.table[FAULT_BASE], self.table[FAULT_ADDRESS], self.table[FAULT_SIZE] = address, address + size - 8, 8
            raise OutOfBoundsError(f"a view of {size} bytes: {self.fault()}")


REGISTRY = Registry() if CHECKED else None


def _make_check(table: int) -> CFunc:
    pointer = ir.Constant(WORD, table).inttoptr(WORD.as_pointer())

    @instruction
    def word(_typing: object, _index: object) -> Generated:
        def generate(_context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
            return builder.load(builder.gep(pointer, [args[0]]))

        return types.int64(types.int64), generate

    @instruction
    def version(_typing: object) -> Generated:
        def generate(_context: CPUContext, builder: ir.IRBuilder, _: Signature, _args: Sequence[ir.Value]) -> ir.Value:
            return builder.load_atomic(builder.gep(pointer, [WORD(VERSION)]), "seq_cst", 8)

        return types.int64(), generate

    @instruction
    def set_word(_typing: object, _index: object, _value: object) -> Generated:
        def generate(context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
            builder.store(args[1], builder.gep(pointer, [args[0]]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    @cfunc(types.int32(types.int64, types.int64, types.int64))
    def check(base: int, address: int, size: int) -> int:
        """Return 0 if the access lies within a range."""
        cached = CACHE + 2 * ((base >> 5) & (CACHED_RANGES - 1))
        if word(cached) <= base < word(cached + 1) and word(cached) <= address and address + size <= word(cached + 1):
            return 0
        before = version() - 1
        while before != version():
            before = version()
            half = HALVES + HALF_WORDS * (before & 1)
            low, high = 0, word(half + COUNT)
            while low < high:
                middle = (low + high) >> 1
                if word(half + STARTS + middle) <= base:
                    low = middle + 1
                else:
                    high = middle
            if low > 0 and base < word(half + ENDS + low - 1):
                start, end = word(half + STARTS + low - 1), word(half + ENDS + low - 1)
                if start <= address and address + size <= end:
                    set_word(cached, start)
                    set_word(cached + 1, end)
                    return 0
            for place in range(word(half + LENT)):
                start, end = word(half + ARRAYS + 2 * place), word(half + ARRAYS + 2 * place + 1)
                if start <= base < end and start <= address and address + size <= end:
                    return 0
        set_word(FAULT_BASE, base)
        set_word(FAULT_ADDRESS, address)
        set_word(FAULT_SIZE, size)
        return 1

    return check


if REGISTRY is not None:
    CHECK = _make_check(REGISTRY.table.ctypes.data)
    llvmlite.binding.add_symbol(SYMBOL, CHECK.address)


def guard(context: CPUContext, builder: ir.IRBuilder, base: ir.Value, index: ir.Value, size: int) -> None:
    """Generate the check of a load or store at base + index * size, in checked kernels only."""
    if CHECKED:
        _check(context, builder, base, builder.add(base, builder.mul(index, WORD(size))), WORD(size))


def guard_bytes(context: CPUContext, builder: ir.IRBuilder, base: ir.Value, size: ir.Value) -> None:
    """Generate the check of an access to `size` bytes, which may be 0, in checked kernels only."""
    if CHECKED:
        with builder.if_then(builder.icmp_signed("!=", size, WORD(0))):
            _check(context, builder, base, base, size)


def _check(context: CPUContext, builder: ir.IRBuilder, base: ir.Value, address: ir.Value, size: ir.Value) -> None:
    kind = ir.FunctionType(ir.IntType(32), [WORD, WORD, WORD])
    function = cgutils.get_or_insert_function(builder.module, kind, SYMBOL)
    status = builder.call(function, [base, address, size])
    refused = builder.icmp_signed("!=", status, ir.IntType(32)(0))
    with cgutils.if_unlikely(builder, refused):
        context.call_conv.return_user_exc(builder, OutOfBoundsError, ())


def register(start: int, size: int, label: str) -> None:
    """Register memory that kernels may access."""
    if REGISTRY is not None:
        REGISTRY.add(start, size, label)


def forget(memory: Iterable[tuple[int, int]]) -> None:
    """Remove all ranges within memory that is released, given as first addresses and bytes."""
    if REGISTRY is not None:
        REGISTRY.remove_within(memory)


def check_view(address: int, size: int) -> None:
    if REGISTRY is not None:
        REGISTRY.check(address, size)


@contextmanager
def lent(*arrays: np.ndarray) -> Iterator[list[int]]:
    """Lend arrays to kernels; yield their addresses, which are valid while the context is open."""
    addresses = [int(each.__array_interface__["data"][0]) for each in arrays]
    ranges = [Range(at, at + each.nbytes, "a lent array") for at, each in zip(addresses, arrays, strict=True)]
    if REGISTRY is not None:
        REGISTRY.lend(ranges)
    try:
        yield addresses
    finally:
        if REGISTRY is not None:
            REGISTRY.take_back(ranges)
