"""The compilation of kernels on a machine that has not compiled them yet, with its progress."""

from __future__ import annotations

from functools import partial

from deltamark.dataflow.interpreter.compilation import compile_kernels
from deltamark.dataflow.kernels import compiled_before, is_writable
from deltamark.harness.console.progress import ProgressLine


def ensure_compiled() -> None:
    """Compile the kernels, unless they are in the cache or it cannot be written."""
    if not compiled_before() and is_writable():
        with ProgressLine() as progress:
            compile_kernels(partial(progress.report, "compiling kernels, once on this machine"))
