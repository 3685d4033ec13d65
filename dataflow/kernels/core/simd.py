"""Eight 4-byte numbers at once."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

LANES = 8


def _matcher() -> Any:
    """Make matches(a, b): which of the eight numbers at an address are among those at another one, a bit each."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        lanes = ir.VectorType(ir.IntType(32), LANES)
        a, b = (builder.load(builder.inttoptr(each, lanes.as_pointer()), align=4) for each in args)
        found = None
        for turn in range(LANES):
            places = [ir.Constant(ir.IntType(32), (lane + turn) % LANES) for lane in range(LANES)]
            turned = builder.shuffle_vector(b, b, ir.Constant(ir.VectorType(ir.IntType(32), LANES), places))
            equal = builder.icmp_signed("==", a, turned)
            found = equal if found is None else builder.or_(found, equal)
        return builder.zext(builder.bitcast(found, ir.IntType(LANES)), ir.IntType(64))

    @intrinsic
    def matches(_typing: Any, _a: Any, _b: Any) -> Any:
        return types.int64(types.int64, types.int64), generate

    return matches


matches = _matcher()
