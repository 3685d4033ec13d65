"""Progress of long work: a live bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

EVERY_SECONDS = 2.0


class ProgressLine:
    """`report(what, done, total)` as often as you like; total 0 where it is not known."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._live = self._console.is_terminal
        self._what = ""
        self._started = self._printed = 0.0
        self._finished = False
        self.took: dict[str, float] = {}
        """Seconds of each kind of work, up to its last report."""
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(), console=self._console, transient=True,
        )  # fmt: skip
        self._task = self._bar.add_task("", start=True, visible=False)

    def __enter__(self) -> Self:
        if self._live:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live:
            self._bar.stop()

    def report(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        fresh = what != self._what
        if fresh:
            self._what, self._started = what, now
        self.took[what] = now - self._started
        if self._live:
            self._bar.update(self._task, description=what, completed=done, total=total or None, visible=True)
            if fresh:
                self._bar.reset(self._task, description=what, total=total or None, visible=True)
            return
        finished = 0 < done == total
        if fresh or (finished and not self._finished) or (not finished and now - self._printed >= EVERY_SECONDS):
            self._printed, self._finished = now, finished
            print(line(what, done, total, now - self._started), file=sys.stderr, flush=True)


def line(what: str, done: int, total: int, seconds: float) -> str:
    """Return a progress line: what, how far, and what is left at the same speed."""
    if not total:
        return f"{what} ..."
    left = f", about {seconds * (total - done) / done:.0f} s left" if 0 < done < total and seconds >= 1 else ""
    return f"{what}: {done:,} of {total:,} ({100 * done // total}%), {seconds:.0f} s{left}"
