"""Progress of long work: a live bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from deltamark.harness.console.console import ERR, warn

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
