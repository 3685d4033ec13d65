"""Progress of long work: a live bar on a terminal, a line every few seconds elsewhere.

The two long works that many commands begin with are the compilation of kernels and the generation of data.
"""

from __future__ import annotations

import time
from functools import partial
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.make import Wanted, make_data
from deltamark.harness.console.console import ERR, say_folded, warn

LINE_INTERVAL_S = 2.0


class ProgressLine:
    """`report(step, done, total)` may be called at any rate; total is 0 if it is not known."""

    def __init__(self) -> None:
        self._live = ERR.is_terminal
        self._step = ""
        self._started = self._printed = 0.0
        self._finished = False
        self.seconds: dict[str, float] = {}
        """The seconds of each step, up to its last report."""
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(), console=ERR, transient=True,
        )  # fmt: skip
        self._task = self._bar.add_task("", start=True, visible=False)

    def __enter__(self) -> Self:
        if self._live:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live:
            self._bar.stop()

    def report(self, step: str, done: int, total: int) -> None:
        now = time.monotonic()
        is_new = step != self._step
        if is_new:
            self._step, self._started = step, now
        self.seconds[step] = now - self._started
        if self._live:
            self._bar.update(self._task, description=step, completed=done, total=total or None, visible=True)
            if is_new:
                self._bar.reset(self._task, description=step, total=total or None, visible=True)
            return
        finished = 0 < done == total
        is_due = not finished and now - self._printed >= LINE_INTERVAL_S
        if is_new or is_due or (finished and not self._finished):
            self._printed, self._finished = now, finished
            warn(line(step, done, total, now - self._started))


def line(step: str, done: int, total: int, seconds: float) -> str:
    """Return a progress line: the step, the share that is done, and the remaining time at the same speed."""
    if not total:
        return f"{step} ..."
    left = f", about {seconds * (total - done) / done:.0f} s left" if 0 < done < total and seconds >= 1 else ""
    return f"{step}: {done:,} of {total:,} ({100 * done // total}%), {seconds:.0f} s{left}"


def ensure_compiled() -> None:
    """Compile the kernels, unless they are in the cache or it cannot be written."""
    from deltamark.dataflow.interpreter.compilation import compile_kernels  # noqa: PLC0415 (it loads all kernels)
    from deltamark.dataflow.kernels import compiled_before, is_writable  # noqa: PLC0415 (it loads numba)

    if not compiled_before() and is_writable():
        with ProgressLine() as progress:
            compile_kernels(partial(progress.report, "compiling kernels, once on this machine"))


def open_quietly(wanted: Wanted) -> Dataset:
    """Open a dataset, generating it first if it is missing; print nothing on standard output."""
    with ProgressLine() as progress:
        return make_data(wanted, progress.report)[0]


def open_dataset(wanted: Wanted) -> Dataset:
    """Open a dataset, generating it first if it is missing, and print its size."""
    started = time.monotonic()
    with ProgressLine() as progress:
        dataset, made = make_data(wanted, progress.report)
    manifest = dataset.manifest
    rows = sum(relation.rows for relation in manifest.relations.values())
    size = sum(chunk.bytes for chunk in manifest.files) / 1e6
    steps = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in progress.seconds.items() if seconds)
    origin = f"made in {time.monotonic() - started:.1f} s ({steps})" if made else "already there"
    say_folded(f"{dataset.directory}: SF {manifest.sf}, {rows:,} rows, {size:,.1f} MB, {origin}")
    return dataset
