"""Intrinsics: instructions that kernels use and Python does not have.

An address is an int64; an index counts elements. Accesses are unchecked, because operators reserve the memory that
kernels touch; checked kernels verify each of them: see `guard`.

Operations on eight 4-byte numbers at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.cpu import CPUContext
from numba.core.typing.templates import Signature

from deltamark.dataflow.kernels.core.dispatcher import WORD, Generated, inline, instruction
from deltamark.dataflow.kernels.core.guard import guard, guard_bytes
from deltamark.dataflow.kernels.core.unlocked import HEEDED, POLL_NS, POLL_WORD, RAISED_WORD

LANES = 8

SEMAPHORE_WORDS = 4
"""The words of a semaphore of the C library, which is initialised by `sem_init`."""


@instruction
def matches(_typing: object, a: types.Type, b: types.Type) -> Generated:
    """Return eight bits: bit i is set if number i of `a` is among the first eight numbers of `b`."""

    def generate(context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
        lanes = ir.VectorType(ir.IntType(32), LANES)
        for arg in args:
            guard_bytes(context, builder, arg, WORD(4 * LANES))
        x, y = (builder.load(builder.inttoptr(arg, lanes.as_pointer()), align=4) for arg in args)
        is_found = None
        for rotation in range(LANES):
            order = [ir.Constant(ir.IntType(32), (lane + rotation) % LANES) for lane in range(LANES)]
            rotated = builder.shuffle_vector(y, y, ir.Constant(ir.VectorType(ir.IntType(32), LANES), order))
            is_equal = builder.icmp_signed("==", x, rotated)
            is_found = is_equal if is_found is None else builder.or_(is_found, is_equal)
        return builder.zext(builder.bitcast(is_found, ir.IntType(LANES)), WORD)

    return types.int64(a, b), generate


# mypy: allow-untyped-calls


CLOCK = time.CLOCK_MONOTONIC

BYTE, WIDE = ir.IntType(8), ir.IntType(128)


def _loader(bits: int, align: int | None = None) -> Callable[..., int]:
    @instruction
    def load(_typing: object, _address: object, _index: object) -> Generated:
        def generate(context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
            guard(context, builder, args[0], args[1], bits // 8)
            pointer = builder.inttoptr(args[0], ir.IntType(bits).as_pointer())
            value = builder.load(builder.gep(pointer, [args[1]]), align=align)
            if bits == 8:
                return builder.zext(value, WORD)
            return value if bits == 64 else builder.sext(value, WORD)

        return types.int64(types.int64, types.int64), generate

    return load


def _storer(bits: int) -> Callable[..., None]:
    @instruction
    def store(_typing: object, _address: object, _index: object, _value: object) -> Generated:
        def generate(context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
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


@instruction
def too_wide(_typing: object, _a: object, _b: object) -> Generated:
    """Return 1 if the product of two numbers needs more than 64 bits, else 0.

    A division of the product would not detect it, because LLVM may assume that there is no overflow.
    """

    def generate(_context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
        return builder.zext(builder.extract_value(builder.smul_with_overflow(*args), 1), WORD)

    return types.int64(types.int64, types.int64), generate


@instruction
def add_product(_typing: object, _address: object, _a: object, _b: object) -> Generated:
    """Add a * b to the 128-bit number at an address, low word first."""

    def generate(context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
        guard(context, builder, args[0], WORD(0), 16)
        pointer = builder.inttoptr(args[0], WIDE.as_pointer())
        product = builder.mul(builder.sext(args[1], WIDE), builder.sext(args[2], WIDE))
        builder.store(builder.add(builder.load(pointer, align=8), product), pointer, align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@instruction
def add_shifted_product(_typing: object, _address: object, _a: object, _b: object, _shift: object) -> Generated:
    """Add a * b * 2**shift to the 192-bit number at an address, low word first; return what is to add to the next word.

    The number has no sign, and the product has one. shift: from 0 to 63.
    """

    def generate(context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
        guard(context, builder, args[0], WORD(0), 24)
        stored, whole = ir.IntType(192), ir.IntType(256)
        pointer = builder.inttoptr(args[0], stored.as_pointer())
        product = builder.mul(builder.sext(args[1], whole), builder.sext(args[2], whole))
        shifted = builder.shl(product, builder.zext(args[3], whole))
        total = builder.add(builder.zext(builder.load(pointer, align=8), whole), shifted)
        builder.store(builder.trunc(total, stored), pointer, align=8)
        return builder.trunc(builder.ashr(total, whole(192)), WORD)

    return types.int64(types.int64, types.int64, types.int64, types.int64), generate


@instruction
def leading_zeros(_typing: object, _word: object) -> Generated:
    """Return the number of zero bits before the first one of a word that is not zero."""

    def generate(_context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
        return builder.ctlz(args[0], ir.IntType(1)(1))

    return types.int64(types.int64), generate


@instruction
def double_of_bits(_typing: object, _bits: object) -> Generated:
    """Return the double with the bits of a word."""

    def generate(_context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), generate


@instruction
def bits_of_double(_typing: object, _value: object) -> Generated:
    """Return the bits of a double."""

    def generate(_context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
        return builder.bitcast(args[0], WORD)

    return types.int64(types.float64), generate


@instruction
def add_wide(_typing: object, _address: object, _other: object) -> Generated:
    """Add the 128-bit number at another address to the one at an address."""

    def generate(context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
        for arg in args:
            guard(context, builder, arg, WORD(0), 16)
        pointer, other = (builder.inttoptr(arg, WIDE.as_pointer()) for arg in args)
        total = builder.add(builder.load(pointer, align=8), builder.load(other, align=8))
        builder.store(total, pointer, align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@instruction
def prefetch(_typing: object, _address: object) -> Generated:
    """Load the cache line of any address, valid or not."""

    def generate(context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
        pointer, flag = BYTE.as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        builder.call(function, [builder.inttoptr(args[0], pointer), flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


CHUNK, AHEAD_BYTES, LINE_BYTES = 64, 2048, 64
"""The rows of a chunk, the distance at which a loop over the chunks of a column prefetches it, and a cache line. Other
chunks and distances were not measured."""


@inline
def prefetch_ahead(chunk: int, width: int) -> None:
    """Prefetch a column behind a chunk, whose address and bytes of a value are given.

    A loop that does more for a row than to copy it has too few rows in flight to wait for several cache lines at once.
    Measured on a virtual machine, on columns that are in no cache: 0.8 ns a row instead of 2.1 for a filter.
    """
    prefetch_chunk(chunk + AHEAD_BYTES, width)


@inline
def prefetch_chunk(chunk: int, width: int) -> None:
    """Prefetch a chunk of a column, whose address and bytes of a value are given."""
    for line in range(CHUNK * width // LINE_BYTES):
        prefetch(chunk + LINE_BYTES * line)


@instruction
def move(_typing: object, _target: object, _source: object, _size: object) -> Generated:
    """Copy bytes between two addresses; the ranges may overlap."""

    def generate(context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
        pointer, flag = BYTE.as_pointer(), ir.IntType(1)
        for end in args[:2]:
            guard_bytes(context, builder, end, args[2])
        kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, WORD, flag])
        function = builder.module.declare_intrinsic("llvm.memmove", [pointer, pointer, WORD], kind)
        builder.call(function, [*(builder.inttoptr(arg, pointer) for arg in args[:2]), args[2], flag(0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@instruction
def load_acquire(_typing: object, _address: object) -> Generated:
    """Load a word that another thread has published.

    A thread that loads a value stored by `store_release` also sees all stores before it. A loop that waits for a value
    loads it anew each time.
    """

    def generate(context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
        guard(context, builder, args[0], WORD(0), 8)
        return builder.load_atomic(builder.inttoptr(args[0], WORD.as_pointer()), "acquire", 8)

    return types.int64(types.int64), generate


@instruction
def store_release(_typing: object, _address: object, _value: object) -> Generated:
    """Publish a word for other threads; see `load_acquire`."""

    def generate(context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
        guard(context, builder, args[0], WORD(0), 8)
        builder.store_atomic(args[1], builder.inttoptr(args[0], WORD.as_pointer()), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@instruction
def exchange_if(_typing: object, _address: object, _expected: object, _value: object) -> Generated:
    """Replace a word that is as expected, as one step that no other thread can divide; return whether it was."""

    def generate(context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
        guard(context, builder, args[0], WORD(0), 8)
        pointer = builder.inttoptr(args[0], WORD.as_pointer())
        return builder.extract_value(builder.cmpxchg(pointer, args[1], args[2], "acq_rel", "acquire"), 1)

    return types.boolean(types.int64, types.int64, types.int64), generate


@instruction
def heed_signals(_typing: object) -> Generated:
    """Return from all kernels if Ctrl-C, or another thread, demands it.

    A thread that holds the lock of Python runs the handlers of pending signals, and raises their errors. Another one
    has told which words it heeds (see `unlocked`), and stops if the first is not 0. Measured: 8 ns a call with the
    lock, 2 ns without it.
    """

    def generate(context: CPUContext, builder: ir.IRBuilder, _: Signature, _args: Sequence[ir.Value]) -> ir.Value:
        number = ir.IntType(32)
        key = builder.load(context.get_c_value(builder, number, HEEDED, dllimport=False))
        heeded = _call(builder, "pthread_getspecific", WORD.as_pointer(), [key])
        raised = cgutils.alloca_once(builder, number)
        with builder.if_else(cgutils.is_null(builder, heeded)) as (is_locked, is_unlocked):
            with is_locked:
                builder.store(_call(builder, "PyErr_CheckSignals", number, []), raised)
            with is_unlocked:
                demanded = builder.load_atomic(heeded, "monotonic", 8)
                builder.store(builder.trunc(demanded, number), raised)
                _poll_signals(builder, heeded, raised)
        with cgutils.if_unlikely(builder, cgutils.is_not_null(builder, builder.load(raised))):
            context.call_conv.return_exc(builder)
        return context.get_dummy_value()

    return types.void(), generate


@instruction
def run_step(_typing: object, _code: object, _block: object) -> Generated:
    """Call the kernel of a step by the address of its code; return its status, or 0 if it returns nothing."""
    return types.int64(types.int64, types.int64), _call_code


@instruction
def end_group(_typing: object, _code: object, _block: object, _group_id: object, _group: object) -> Generated:
    """Call the kernel that ends a time for a group by the address of its code; return an error, or 0."""
    return types.int64(types.int64, types.int64, types.int64, types.int64), _call_code


def _call_code(context: CPUContext, builder: ir.IRBuilder, sig: Signature, args: Sequence[ir.Value]) -> ir.Value:
    """Generate the call of a kernel by the address of its code, as numba generates that by its name."""
    kind = context.call_conv.get_function_type(sig.return_type, sig.args[1:])
    code = builder.inttoptr(args[0], kind.as_pointer())
    status, result = context.call_conv.call_function(builder, code, sig.return_type, sig.args[1:], args[1:])
    with cgutils.if_unlikely(builder, status.is_error):
        context.call_conv.return_status_propagate(builder, status)
    return result


@instruction
def yield_core(_typing: object) -> Generated:
    """Let another thread run on this core, if one is ready."""

    def generate(context: CPUContext, builder: ir.IRBuilder, _: Signature, _args: Sequence[ir.Value]) -> ir.Value:
        _call(builder, "sched_yield", ir.IntType(32), [])
        return context.get_dummy_value()

    return types.void(), generate


@instruction
def nap(_typing: object, _microseconds: object) -> Generated:
    """Sleep for some microseconds."""

    def generate(context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
        _call(builder, "usleep", ir.IntType(32), [builder.trunc(args[0], ir.IntType(32))])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@instruction
def sleep_until_posted(_typing: object, _semaphore: object) -> Generated:
    """Sleep until a semaphore has been posted, and take one post; a signal may end the sleep before."""
    return _call_of_semaphore("sem_wait")


@instruction
def post(_typing: object, _semaphore: object) -> Generated:
    """Post a semaphore, which wakes a thread that sleeps until then."""
    return _call_of_semaphore("sem_post")


def _call_of_semaphore(name: str) -> Generated:
    def generate(context: CPUContext, builder: ir.IRBuilder, _: Signature, args: Sequence[ir.Value]) -> ir.Value:
        guard(context, builder, args[0], WORD(0), 8 * SEMAPHORE_WORDS)
        _call(builder, name, ir.IntType(32), [builder.inttoptr(args[0], WORD.as_pointer())])
        return context.get_dummy_value()

    return types.void(types.int64), generate


def _call(builder: ir.IRBuilder, name: str, result: ir.Type, args: Sequence[ir.Value]) -> ir.Value:
    """Generate the call of a C function."""
    kind = ir.FunctionType(result, [each.type for each in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


def _poll_signals(builder: ir.IRBuilder, heeded: ir.Value, raised: ir.Value) -> None:
    """Generate the handling of signals by a thread that heeds words, if it is due: with the lock of Python.

    An error of a handler is kept in the words until Python can raise it.
    """
    number, place = ir.IntType(32), builder.gep(heeded, [WORD(POLL_WORD)])
    due = builder.load(place)
    with builder.if_then(cgutils.is_not_null(builder, due), likely=False):
        is_due = builder.icmp_signed(">=", _now(builder), due)
        with builder.if_then(is_due, likely=False):
            lock = _call(builder, "PyGILState_Ensure", number, [])
            failed = _call(builder, "PyErr_CheckSignals", number, [])
            with builder.if_then(cgutils.is_not_null(builder, failed), likely=False):
                kept = [builder.gep(heeded, [WORD(RAISED_WORD + at)]) for at in range(3)]
                _call(builder, "PyErr_Fetch", ir.VoidType(), kept)
                builder.store(number(1), raised)
            _call(builder, "PyGILState_Release", ir.VoidType(), [lock])
            builder.store(builder.add(_now(builder), WORD(POLL_NS)), place)


def _now(builder: ir.IRBuilder) -> ir.Value:
    """Generate a reading of the clock of `time.perf_counter_ns`."""
    number, kind = ir.IntType(32), ir.LiteralStructType([WORD, WORD])
    now = cgutils.alloca_once(builder, kind)
    _call(builder, "clock_gettime", number, [number(CLOCK), now])
    seconds, rest = (builder.load(builder.gep(now, [number(0), number(at)])) for at in range(2))
    return builder.add(builder.mul(seconds, WORD(1_000_000_000)), rest)


@instruction
def nanoseconds(_typing: object) -> Generated:
    """Return the time of the clock of `time.perf_counter_ns`. Measured: 25 ns a call."""

    def generate(_context: CPUContext, builder: ir.IRBuilder, _: Signature, _args: Sequence[ir.Value]) -> ir.Value:
        return _now(builder)

    return types.int64(), generate


STEPS_PER_POLL = 1 << 16
"""Steps of a long loop between two calls of `heed_signals`, which then take no measurable time."""


@inline
def heed_signals_at(step: int) -> None:
    """Heed signals at some of the steps of a loop."""
    if step & (STEPS_PER_POLL - 1) == 0:
        heed_signals()
