"""Operations on eight 4-byte numbers at once."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir
from numba import types
from numba.core.cpu import CPUContext
from numba.core.typing.templates import Signature

from deltamark.dataflow.kernels.core.dispatcher import WORD, Generated, instruction
from deltamark.dataflow.kernels.core.guard import guard_bytes

LANES = 8


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
