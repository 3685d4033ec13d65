"""Operations on eight 4-byte numbers at once."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from deltamark.dataflow.kernels.core.guard import guard_bytes

LANES = 8


def _matcher() -> Any:
    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        lanes = ir.VectorType(ir.IntType(32), LANES)
        for arg in args:
            guard_bytes(context, builder, arg, ir.IntType(64)(4 * LANES))
        a, b = (builder.load(builder.inttoptr(arg, lanes.as_pointer()), align=4) for arg in args)
        is_found = None
        for rotation in range(LANES):
            order = [ir.Constant(ir.IntType(32), (lane + rotation) % LANES) for lane in range(LANES)]
            rotated = builder.shuffle_vector(b, b, ir.Constant(ir.VectorType(ir.IntType(32), LANES), order))
            is_equal = builder.icmp_signed("==", a, rotated)
            is_found = is_equal if is_found is None else builder.or_(is_found, is_equal)
        return builder.zext(builder.bitcast(is_found, ir.IntType(LANES)), ir.IntType(64))

    @intrinsic
    def matches(_typing: Any, a: Any, b: Any) -> Any:
        return types.int64(a, b), generate

    return matches


matches = _matcher()
"""matches(a, b): return a bit for each of the first eight numbers of `a`: is it among the first eight of `b`?"""
