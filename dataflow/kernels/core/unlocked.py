"""Kernels without the lock of Python, so that several threads run them at once.

A kernel that Python calls holds the lock, and runs the handlers of signals (see `intrinsics.heed_signals`). A kernel
that is called here must not touch Python. Its thread heeds a word instead, by which another thread can stop it.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import llvmlite.binding
from numba import types

from deltamark.dataflow.kernels.core.dispatcher import Kernel
from deltamark.dataflow.kernels.core.guard import OutOfBoundsError

HEEDED = "deltamark_heeded"
"""The symbol of the number by which a thread finds the word that it heeds."""

STOPPED = -1
"""The status of a kernel that has returned because of `heed_signals`."""

_libc = ctypes.CDLL(None)
_libc.pthread_setspecific.argtypes = [ctypes.c_uint, ctypes.c_void_p]
_heeded = ctypes.c_uint()
_libc.pthread_key_create(ctypes.byref(_heeded), None)
llvmlite.binding.add_symbol(HEEDED, ctypes.addressof(_heeded))


class StoppedError(Exception):
    """Raised in a thread that was stopped by another one."""


@contextmanager
def heeding(word: ctypes.c_int64) -> Iterator[None]:
    """Let the kernels of this thread stop once a word is not 0."""
    _libc.pthread_setspecific(_heeded, ctypes.addressof(word))
    try:
        yield
    finally:
        _libc.pthread_setspecific(_heeded, None)


class Unlocked:
    """A kernel over words, whose calls do not hold the lock of Python. Its thread must be `heeding` a word."""

    def __init__(self, kernel: Kernel, *kinds: types.Type) -> None:
        kernel.compile(kinds)
        compiled = kernel.overloads[kinds]
        address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
        pointer, words = ctypes.c_void_p, [ctypes.c_int64] * len(kinds)
        self._function = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, *words)(address)

    def __call__(self, *words: int) -> int:
        """Call the kernel; return its result."""
        result, error = ctypes.c_int64(), ctypes.c_void_p()
        status = self._function(ctypes.addressof(result), ctypes.addressof(error), *words)
        if status == STOPPED:
            raise StoppedError
        if status != 0:
            raise OutOfBoundsError
        return result.value
