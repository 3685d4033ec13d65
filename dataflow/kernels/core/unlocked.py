"""Kernels without the lock of Python, so that several threads run them at once.

A kernel that Python calls holds the lock, and runs the handlers of signals (see `intrinsics.heed_signals`). A kernel
that is called here must not touch Python. Its thread heeds words instead, by which another thread can stop it. A thread
that can get signals takes the lock from time to time, to run their handlers.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager

import llvmlite.binding
from numba import types

from deltamark.dataflow.kernels.core.dispatcher import Kernel, code_of
from deltamark.dataflow.kernels.core.guard import OutOfBoundsError

HEEDED = "deltamark_heeded"
"""The symbol of the number by which a thread finds the word that it heeds."""

STOP_WORD, POLL_WORD, RAISED_WORD, HEEDED_WORDS = 0, 1, 2, 5
"""The words that a thread heeds: not 0 if it shall stop; the time at which it handles signals next, or 0; and the error
of a handler (the type, the value and the traceback), or 0.
"""

POLL_NS = 20_000_000
"""The nanoseconds between two times at which a thread handles signals. Not measured."""

STOPPED = -1
"""The status of a kernel that has returned because of `heed_signals`."""

_libc = ctypes.CDLL(None)
_libc.pthread_setspecific.argtypes = [ctypes.c_uint, ctypes.c_void_p]
_heeded = ctypes.c_uint()
_libc.pthread_key_create(ctypes.byref(_heeded), None)
llvmlite.binding.add_symbol(HEEDED, ctypes.addressof(_heeded))


class StoppedError(Exception):
    """Raised in a thread that was stopped by another one."""


class Heeded:
    """The words that a thread heeds while it runs kernels without the lock. gets_signals: whether it handles them."""

    def __init__(self, *, gets_signals: bool = False) -> None:
        self._words = (ctypes.c_int64 * HEEDED_WORDS)()
        self._gets_signals = gets_signals

    def stop(self) -> None:
        """Let all kernels of the thread return."""
        self._words[STOP_WORD] = 1

    def begin(self) -> None:
        """Let the kernels of the thread run from now on."""
        self._words[STOP_WORD] = 0
        self._words[POLL_WORD] = time.perf_counter_ns() + POLL_NS if self._gets_signals else 0

    @property
    def has_raised(self) -> bool:
        """Whether the handler of a signal has raised an error."""
        return self._words[RAISED_WORD] != 0

    def raise_error(self) -> None:
        """Raise the error of the handler of a signal, if there is one."""
        error = self._words[RAISED_WORD:]
        self._words[RAISED_WORD:] = [0] * len(error)
        if error[0]:
            ctypes.pythonapi.PyErr_Restore(*map(ctypes.c_void_p, error))

    @contextmanager
    def heeding(self) -> Iterator[None]:
        """Let this thread heed the words."""
        _libc.pthread_setspecific(_heeded, ctypes.addressof(self._words))
        try:
            yield
        finally:
            _libc.pthread_setspecific(_heeded, None)


class Unlocked:
    """A kernel over words, whose calls do not hold the lock of Python. Its thread must be `heeding` words."""

    def __init__(self, kernel: Kernel, *kinds: types.Type) -> None:
        pointer, words = ctypes.c_void_p, [ctypes.c_int64] * len(kinds)
        self._function = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, *words)(code_of(kernel, *kinds))

    def __call__(self, *words: int) -> int:
        """Call the kernel; return its result."""
        result, error = ctypes.c_int64(), ctypes.c_void_p()
        status = self._function(ctypes.addressof(result), ctypes.addressof(error), *words)
        if status == STOPPED:
            raise StoppedError
        if status != 0:
            raise OutOfBoundsError
        return result.value
