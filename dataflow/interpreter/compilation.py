"""The compilation of all kernels before their first use, in a process for each core.

The processes compile the kernels of operators, with all that they call, and store them in the cache on disk. The
interpreter, which calls all of them, is compiled at the end. A kernel that two of them call may be compiled twice.
Measured on two cores: 30 s, instead of 51 s in one process.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

from numba import types

import deltamark
from deltamark.dataflow.interpreter.groups import update_groups
from deltamark.dataflow.interpreter.registry import STEPS
from deltamark.dataflow.interpreter.run import run
from deltamark.dataflow.interpreter.service import serve
from deltamark.dataflow.kernels.core.blocks import Operator, kernel_type
from deltamark.dataflow.kernels.core.dispatcher import Kernel, KernelDispatcher

ROOT = Path(deltamark.__file__).parents[1]
"""The directory of the package."""

MAX_PROCESSES = 8
"""The largest number of processes. Each loads numba, and all wait for the slowest kernel. Not measured."""

Report = Callable[[int, int], None]
"""A function that receives the number of compiled kernels, and the number of all kernels."""


def compile_kernels(report: Report) -> None:
    """Compile all kernels, and store them in the cache."""
    kernels = len(_operator_kernels())
    report(0, kernels + 1)
    with ExitStack() as stack:
        results = _start(kernels, stack)
        for done in range(1, kernels + 1):
            if not results.read(1):  # a process has failed; the error is raised below, if it is one of a kernel
                break
            report(done, kernels + 1)
    run.compile((types.int64, types.int64))
    serve.compile((types.int64,))
    report(kernels + 1, kernels + 1)


def _start(kernels: int, stack: ExitStack) -> FileIO:
    """Start the processes; return the end of the pipe into which they write a byte for each kernel.

    They read the numbers of the kernels from one pipe, a byte each, so that none is idle while kernels are left. They
    end with the context of the stack.
    """
    numbers, source = _pipe(stack)
    results, target = _pipe(stack)
    source.write(bytes(range(kernels)))
    source.close()
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    for _ in range(min(len(os.sched_getaffinity(0)), MAX_PROCESSES)):
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__], env=os.environ | {"PYTHONPATH": paths},
            stdin=numbers, stdout=target, start_new_session=True,
        )  # fmt: skip
        stack.callback(process.wait)
        stack.callback(process.kill)
    target.close()
    return results


def _pipe(stack: ExitStack) -> tuple[FileIO, FileIO]:
    reader, writer = os.pipe()
    return stack.enter_context(FileIO(reader, "r")), stack.enter_context(FileIO(writer, "w"))


def _compile_from_pipe() -> None:
    """Compile kernels whose numbers are read from the standard input, until it ends.

    Garbage is not collected. Measured: 37 CPU seconds in all instead of 40.
    """
    gc.disable()
    kernels = _operator_kernels()
    while number := os.read(0, 1):
        kernel = kernels[number[0]]
        kernel.compile(_signature(kernel))
        os.write(1, b".")


def _operator_kernels() -> list[Kernel]:
    """Return the kernels that the interpreter calls with the block of an operator, those with the most code first."""
    called = [each for each in (update_groups, *(step.kernel for step in STEPS.values())) if _takes_operator(each)]
    return sorted(called, key=lambda each: (-_size(each), each.__module__, each.__name__))


def _takes_operator(kernel: Kernel) -> bool:
    """Return whether a kernel takes a block. Numba's cache does not find closures that another process has compiled."""
    if kernel.py_func.__closure__:
        return False
    hints = [hint for name, hint in get_type_hints(kernel.py_func).items() if name != "return"]
    is_one = isinstance(kernel, KernelDispatcher) and len(hints) == 1 and isinstance(hints[0], type)
    return is_one and issubclass(hints[0], Operator)


def _signature(kernel: Kernel) -> tuple[types.Type, ...]:
    hints = get_type_hints(kernel.py_func)
    return tuple(kernel_type(hint) for name, hint in hints.items() if name != "return")


def _size(kernel: Kernel) -> int:
    """Return the bytes of code of a kernel and of all functions that it calls."""
    return sum(len(each.py_func.__code__.co_code) for each in _called(kernel))


def _called(kernel: Kernel) -> list[Kernel]:
    """Return a kernel, and all compiled functions that it calls, directly or not."""
    found = [kernel]
    for function in found:
        found += [each for each in _callees(function) if each not in found]
    return found


def _callees(function: Kernel) -> list[Kernel]:
    names, scope = function.py_func.__code__.co_names, function.py_func.__globals__
    values = [scope[name] for name in names if name in scope]
    members = [getattr(each, name, None) for each in values if isinstance(each, ModuleType) for name in names]
    return [each for each in dict.fromkeys((*values, *members)) if hasattr(each, "py_func")]


if __name__ == "__main__":
    _compile_from_pipe()
