"""Intrinsics: instructions that kernels use and Python does not have.

An address is an int64; an index counts elements. Accesses are unchecked, because operators reserve the memory that
kernels touch; checked kernels verify each of them: see `guard`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from deltamark.dataflow.kernels.core.dispatcher import inline
from deltamark.dataflow.kernels.core.guard import guard, guard_bytes


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
    """Return a negative number if the sum of two numbers needs more than 64 bits."""
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
"""too_wide(a, b): return 1 if the product of two numbers needs more than 64 bits, else 0. A division of the product
would not detect it, because LLVM may assume that there is no overflow."""


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
"""prefetch(address): load the cache line of any address, valid or not."""


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
"""move(target, source, size): copy bytes between two addresses; the ranges may overlap."""


def _published() -> tuple[Any, Any]:
    """Make the load and the store of words that processes exchange."""

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
"""load_acquire(address), store_release(address, value): a process that loads a stored value also sees all stores before
it. A loop that waits for a value loads it anew each time."""


def _signal_checker() -> Any:
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


heed_signals = _signal_checker()
"""heed_signals(): run the Python handlers of pending signals, and raise their errors, so that Ctrl-C ends a long
kernel. Measured: 5 ns a call."""

STEPS_PER_POLL = 1 << 16
"""Steps of a long loop between two calls of `heed_signals`, which then take no measurable time."""


@inline
def heed_signals_at(step: int) -> None:
    """Heed signals at some of the steps of a loop."""
    if step & (STEPS_PER_POLL - 1) == 0:
        heed_signals()
