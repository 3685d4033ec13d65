"""The compilation of all kernels before their first use, in a process for each core.

The processes compile the kernels of operators, with all that they call, and store them in the cache on disk. The
interpreter, which calls all of them, is compiled at the end. A kernel that two of them call may be compiled twice.
Measured on two cores: 30 s, instead of 51 s in one process.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib import import_module
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from numba import types

import deltamark.dataflow.kernels as package
from deltamark.dataflow.kernels.core.block_types import kernel_type
from deltamark.dataflow.kernels.core.blocks import Operator
from deltamark.dataflow.kernels.core.dispatcher import KernelDispatcher

ROOT = Path(package.__file__).parents[3]
"""The directory of the packages."""

MAX_PROCESSES = 8
"""The most processes, each of which loads numba. The kernel that takes longest would keep more of them waiting."""

Report = Callable[[int, int], None]
"""A function of the number of kernels that are compiled, and of all."""


def compile_kernels(report: Report) -> None:
    """Compile all kernels, and store them in the cache."""
    kernels = len(_operator_kernels())
    report(0, kernels + 1)
    processes, results = _start(kernels)
    try:
        with closing(os.fdopen(results, "rb", buffering=0)) as reader:
            for done in count(1):
                if not reader.read(1):
                    break
                report(done, kernels + 1)
    finally:
        for each in processes:
            each.kill()
            each.wait()
    _interpreter().compile((types.int64, types.int64))  # with those kernels that a process failed to compile
    report(kernels + 1, kernels + 1)


def _start(kernels: int) -> tuple[Sequence[subprocess.Popen[bytes]], int]:
    """Start the processes; return them, and the end of the pipe into which they write a byte for each kernel.

    They read the numbers of the kernels from one pipe, a byte each, so that none is idle while kernels are left.
    """
    numbers, source = os.pipe()
    results, target = os.pipe()
    os.write(source, bytes(range(kernels)))
    os.close(source)
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    processes = [
        subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            env=os.environ | {"PYTHONPATH": paths}, stdin=numbers, stdout=target, stderr=subprocess.DEVNULL,
        )
        for _ in range(min(len(os.sched_getaffinity(0)), MAX_PROCESSES))
    ]  # fmt: skip
    os.close(numbers)
    os.close(target)
    return processes, results


def _compile_from_pipe() -> None:
    """Compile kernels whose numbers are read from the standard input, until it ends."""
    kernels = _operator_kernels()
    while number := os.read(0, 1):
        kernel = kernels[number[0]]
        kernel.compile(_signature(kernel))
        os.write(1, b".")


def _operator_kernels() -> list[Any]:
    """Return the kernels that the interpreter calls with the block of an operator, those with the most code first."""
    interpreter = _interpreter()
    own = [each for each in _called(interpreter) if each.__module__ == interpreter.__module__]
    called = {each for function in own for each in _callees(function) if _takes_operator(each)}
    return sorted(called, key=lambda each: (-_size(each), each.__module__, each.__name__))


def _interpreter() -> Any:
    return import_module(f"{package.__name__}.interpreter").run


def _takes_operator(kernel: Any) -> bool:
    """Return whether a kernel takes a block. Numba's cache does not find closures that another process has compiled."""
    if kernel.py_func.__closure__:
        return False
    hints = [hint for name, hint in get_type_hints(kernel.py_func).items() if name != "return"]
    is_one = isinstance(kernel, KernelDispatcher) and len(hints) == 1 and isinstance(hints[0], type)
    return is_one and issubclass(hints[0], Operator)


def _signature(kernel: Any) -> tuple[types.Type, ...]:
    hints = get_type_hints(kernel.py_func)
    return tuple(kernel_type(hint) for name, hint in hints.items() if name != "return")


def _size(kernel: Any) -> int:
    """Return the bytes of code of a kernel and of all functions that it calls."""
    return sum(len(each.py_func.__code__.co_code) for each in _called(kernel))


def _called(kernel: Any) -> list[Any]:
    """Return a kernel, and all compiled functions that it calls, directly or not."""
    found = [kernel]
    for function in found:
        found += [each for each in _callees(function) if each not in found]
    return found


def _callees(function: Any) -> list[Any]:
    names, scope = function.py_func.__code__.co_names, function.py_func.__globals__
    values = [scope[name] for name in names if name in scope]
    members = [getattr(each, name, None) for each in values if isinstance(each, ModuleType) for name in names]
    return [each for each in dict.fromkeys((*values, *members)) if hasattr(each, "py_func")]


if __name__ == "__main__":
    _compile_from_pipe()
