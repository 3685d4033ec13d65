"""Checked kernels: every load and store must stay within the reservation that its address belongs to.

They are chosen by the environment variable DELTAMARK_CHECKED, before the first import, and are compiled apart from the
others. Then this module knows each reservation, block, table and cell of the process, and each array that is lent to
kernels, as a range of addresses. A load or store names a base and an index: the base must lie in a range that is live,
and what is touched must lie in the same one. Python's own views of the memory are checked alike.

What this cannot see: an index that goes astray within its range, and a base that is computed to lie in another one.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import cfunc, types
from numba.core import cgutils
from numba.extending import intrinsic

CHECKED = os.environ.get("DELTAMARK_CHECKED", "0") not in ("", "0")

SYMBOL = "deltamark_guard"
"""The name by which compiled kernels know the check."""

COUNT, LENT, FAULT_BASE, FAULT_ADDRESS, FAULT_SIZE, CACHE = 0, 1, 2, 3, 4, 8
CACHED, MOST_LENT, MOST = 1024, 1 << 12, 1 << 18
"""Words of the table that the check reads: how many ranges and lent arrays there are, the last fault, a cache of
CACHED ranges (first address, end), the lent arrays, the first addresses of all ranges in order, and their ends."""
ARRAYS = CACHE + 2 * CACHED
STARTS = ARRAYS + 2 * MOST_LENT
ENDS = STARTS + MOST


class OutOfBoundsError(Exception):
    """A kernel has touched memory that is not its own: a fault in deltamark."""


@dataclass(frozen=True)
class Range:
    """Addresses that may be touched, and what they are."""

    start: int
    end: int
    label: str


class Registry:
    """The ranges of this process. A forked process has a copy."""

    def __init__(self) -> None:
        self.table = np.zeros(ENDS + MOST, np.int64)
        self._starts: list[int] = []
        self._ranges: dict[int, Range] = {}
        self._lent: list[Range] = []
        self._is_changing, self._freed = False, list[tuple[int, int]]()
        """Memory that was given back by the garbage collector in the middle of a change."""

    def add(self, start: int, size: int, label: str) -> None:
        with self._change():
            self._add(start, size, label)

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Make one change after the other, though the garbage collector may give memory back at any step of one."""
        self._is_changing = True
        try:
            yield
        finally:
            self._is_changing = False
        while self._freed:
            self.remove_within(*self._freed.pop())

    def _add(self, start: int, size: int, label: str) -> None:
        place = bisect.bisect(self._starts, start)
        count = len(self._starts)
        if count == MOST:
            raise MemoryError("too many ranges for checked kernels")
        for column, value in ((STARTS, start), (ENDS, start + size)):
            self.table[column + place + 1 : column + count + 1] = self.table[column + place : column + count].copy()
            self.table[column + place] = value
        self._starts.insert(place, start)
        self._ranges[start] = Range(start, start + size, label)
        self._changed()

    def _remove(self, start: int) -> None:
        place, count = bisect.bisect_left(self._starts, start), len(self._starts)
        for column in (STARTS, ENDS):
            self.table[column + place : column + count - 1] = self.table[column + place + 1 : column + count].copy()
        del self._starts[place], self._ranges[start]
        self._changed()

    def remove_within(self, start: int, size: int) -> None:
        """Remove all ranges that begin in a piece of memory."""
        if self._is_changing:
            self._freed.append((start, size))
            return
        with self._change():
            self._remove_all(start, size)

    def _remove_all(self, start: int, size: int) -> None:
        first, last = bisect.bisect_left(self._starts, start), bisect.bisect_left(self._starts, start + size)
        for each in self._starts[first:last]:
            self._remove(each)

    def _changed(self) -> None:
        self.table[COUNT] = len(self._starts)
        self.table[CACHE:ARRAYS] = 0

    def lend(self, lent: Sequence[Range]) -> None:
        """Add arrays, which may overlap, for a while."""
        self._lent += lent
        self._show_lent()

    def take_back(self, lent: Sequence[Range]) -> None:
        for each in lent:
            self._lent.remove(each)
        self._show_lent()

    def _show_lent(self) -> None:
        if len(self._lent) > MOST_LENT:
            raise MemoryError("too many lent arrays for checked kernels")
        self.table[LENT] = len(self._lent)
        for place, each in enumerate(self._lent):
            self.table[ARRAYS + 2 * place : ARRAYS + 2 * place + 2] = each.start, each.end

    def of(self, address: int) -> Range | None:
        """Return the range that an address lies in."""
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
        """Check a view of memory."""
        found = self.of(address)
        if size and (found is None or address + size > found.end):
            self.table[FAULT_BASE], self.table[FAULT_ADDRESS], self.table[FAULT_SIZE] = address, address + size - 8, 8
            raise OutOfBoundsError(f"a view of {size} bytes: {self.fault()}")


REGISTRY = Registry() if CHECKED else None


def _make_check(table: int) -> Any:
    @intrinsic
    def _word(_typing: Any, _index: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(ir.Constant(ir.IntType(64), table), ir.IntType(64).as_pointer())
            return builder.load(builder.gep(pointer, [args[0]]))

        return types.int64(types.int64), generate

    word: Any = _word

    @intrinsic
    def _set_word(_typing: Any, _index: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            pointer = builder.inttoptr(ir.Constant(ir.IntType(64), table), ir.IntType(64).as_pointer())
            builder.store(args[1], builder.gep(pointer, [args[0]]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    set_word: Any = _set_word

    @cfunc(types.int32(types.int64, types.int64, types.int64))
    def check(base: int, address: int, size: int) -> int:
        """Return 0 where all is well."""
        cached = CACHE + 2 * ((base >> 5) & (CACHED - 1))
        if word(cached) <= base < word(cached + 1) and word(cached) <= address and address + size <= word(cached + 1):
            return 0
        low, high = 0, word(COUNT)
        while low < high:
            middle = (low + high) >> 1
            if word(STARTS + middle) <= base:
                low = middle + 1
            else:
                high = middle
        if low > 0 and base < word(ENDS + low - 1):
            start, end = word(STARTS + low - 1), word(ENDS + low - 1)
            if start <= address and address + size <= end:
                set_word(cached, start)
                set_word(cached + 1, end)
                return 0
        for place in range(word(LENT)):
            start, end = word(ARRAYS + 2 * place), word(ARRAYS + 2 * place + 1)
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


def guard(context: Any, builder: Any, base: Any, index: Any, size: int) -> None:
    """Generate the check of a load or store at base + index * size; nothing in kernels unchecked."""
    if CHECKED:
        word = ir.IntType(64)
        _check(context, builder, base, builder.add(base, builder.mul(index, word(size))), word(size))


def guard_bytes(context: Any, builder: Any, base: Any, size: Any) -> None:
    """Generate the check of an access to a number of bytes, which may be none."""
    if CHECKED:
        with builder.if_then(builder.icmp_signed("!=", size, ir.IntType(64)(0))):
            _check(context, builder, base, base, size)


def _check(context: Any, builder: Any, base: Any, address: Any, size: Any) -> None:
    word = ir.IntType(64)
    kind = ir.FunctionType(ir.IntType(32), [word, word, word])
    function = cgutils.get_or_insert_function(builder.module, kind, SYMBOL)  # type: ignore[no-untyped-call]
    status = builder.call(function, [base, address, size])
    refused = builder.icmp_signed("!=", status, ir.IntType(32)(0))
    with cgutils.if_unlikely(builder, refused):  # type: ignore[no-untyped-call]
        context.call_conv.return_user_exc(builder, OutOfBoundsError, ())


def register(start: int, size: int, label: str) -> None:
    """Make memory known that kernels may touch."""
    if REGISTRY is not None:
        REGISTRY.add(start, size, label)


def forget(start: int, size: int) -> None:
    """Make known that all of a piece of memory is given back."""
    if REGISTRY is not None:
        REGISTRY.remove_within(start, size)


def check_view(address: int, size: int) -> None:
    if REGISTRY is not None:
        REGISTRY.check(address, size)


@contextmanager
def lent(*arrays: np.ndarray) -> Iterator[list[int]]:
    """Lend arrays to kernels: yields their addresses, which are valid for as long as the context is open."""
    addresses = [int(each.__array_interface__["data"][0]) for each in arrays]
    ranges = [Range(at, at + each.nbytes, "a lent array") for at, each in zip(addresses, arrays, strict=True)]
    if REGISTRY is not None:
        REGISTRY.lend(ranges)
    try:
        yield addresses
    finally:
        if REGISTRY is not None:
            REGISTRY.take_back(ranges)
