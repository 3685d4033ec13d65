"""The decorators of kernels.

`kernel` compiles a function, `inline` inserts it into the kernels that call it, and `instruction` makes an instruction
of LLVM code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from llvmlite import ir
from numba import njit, types
from numba.core.registry import CPUDispatcher
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

Kernel: TypeAlias = Any
"""A compiled function. Numba's dispatchers have no types."""

OPTIONS = {"nopython": True, "error_model": "numpy", "no_cfunc_wrapper": True, "boundscheck": None}
"""Integers wrap, as in C; kernels check for overflow where it can happen."""


class KernelDispatcher(CPUDispatcher):
    """Compiles a kernel once for each combination of argument types.

    Numba itself compiles it once more for each constant argument, such as the 0 from which a loop counts. Measured for
    the interpreter: 249 compilations in 57 CPU seconds instead of 300 in 72.
    """

    def get_call_template(self, args: Sequence[Any] | dict[str, Any], kws: Any) -> Any:
        """Return how the kernel is called from another kernel, after compiling it if need be."""
        return super().get_call_template([types.unliteral(arg) for arg in args], kws)  # type: ignore[no-untyped-call]


def kernel(function: Callable[..., Any]) -> Kernel:
    """Compile a function as a kernel, which other kernels and Python can call. The compiled code is cached on disk.

    Functions of a module must have different names. The linker knows compiled code by the module, the name and the
    types of a function, and by a number that numba counts in each process. Cached code of two functions with one name
    may come from two processes that have counted to the same number, and then one of them is called for both.
    """
    dispatcher = KernelDispatcher(function, locals={}, targetoptions=OPTIONS)
    dispatcher.enable_caching()
    return dispatcher


def code_of(kernel: Kernel, *kinds: types.Type) -> int:
    """Return the address of the compiled code of a kernel for some types of arguments, which is loaded or compiled."""
    kernel.compile(kinds)
    compiled = kernel.overloads[kinds]
    address: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    return address


inline = njit(error_model="numpy", inline="always")
"""Insert a function into each kernel that calls it."""


WORD = ir.IntType(64)

Generated = tuple[Signature, Callable[..., ir.Value]]
"""The types of a call, and the generator of its LLVM code."""


def instruction(function: Callable[..., Generated]) -> Kernel:
    """Make an instruction that kernels can call from the function that returns its types and its code."""
    return intrinsic(function)
