"""The compilation of all kernels before their first use, in a process for each core.

The processes compile the kernels of all steps, with all that they call, and store them in the cache on disk. A kernel
that two of them call may be compiled twice.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from io import FileIO
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

from numba import types

import deltamark
from deltamark.dataflow import kernels, operators
from deltamark.dataflow.interpreter.run import run
from deltamark.dataflow.interpreter.service import serve
from deltamark.dataflow.kernels.core.dispatcher import Kernel, code_of
from deltamark.dataflow.kernels.core.steps import Step, code

ROOT = Path(deltamark.__file__).parents[1]
"""The directory of the package."""

MAX_PROCESSES = 8
"""The largest number of processes. Each loads numba, and all wait for the slowest kernel. Not measured."""

Report = Callable[[int, int], None]
"""A function that receives the number of compiled kernels, and the number of all kernels."""


def compile_kernels(report: Report) -> None:
    """Compile all kernels, and store them in the cache."""
    count = len(_step_kernels())
    report(0, count + 1)
    with ExitStack() as stack:
        results = _start(count, stack)
        for done in range(1, count + 1):
            if not results.read(1):  # a process has failed; the error is raised below, if it is one of a kernel
                break
            report(done, count + 1)
    load_kernels()
    kernels.mark_compiled()
    report(count + 1, count + 1)


def load_kernels() -> None:
    """Load all kernels, so that no program has to load its own, or compile those that are not in the cache."""
    for each in _step_kernels():
        code(each)
    code_of(run, types.int64, types.int64)
    code_of(serve, types.int64)


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
    ordered = _step_kernels()
    while number := os.read(0, 1):
        each = ordered[number[0]]
        code(each)
        os.write(1, b".")


def _step_kernels() -> list[Kernel]:
    """Return the kernels of all steps, those with the most code first."""
    called = dict.fromkeys(kernel for step in _steps() for kernel in step.kernels)
    return sorted(called, key=lambda each: (-_size(each), each.__module__, each.py_func.__qualname__))


def _steps() -> Iterator[Step]:
    """Yield the steps of all modules of kernels and operators."""
    for package in (kernels, operators):
        for each in walk_packages(package.__path__, f"{package.__name__}."):
            yield from (value for value in vars(import_module(each.name)).values() if isinstance(value, Step))


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
