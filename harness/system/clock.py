"""The clock of the harness: every published time comes from this module, or is reported by an engine.

A `Stopwatch` adds up pieces of work, CPU time tells whether an engine works outside of it, a `WallClock` tells an open
loop which rounds are due, and the control work shows whether the machine has changed. Progress lines and deadlines read
clocks of their own; tests/harness/measure/test_clock.py lists their modules.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Self, TypeVar

import numpy as np
import psutil

from deltamark.harness.system.resources import descendants

Result = TypeVar("Result")

LIST_EVERY_S = 0.2
"""The time between two lists of the processes of an engine. A list takes about 5 ms if 200 processes run."""

SPIN_S = 0.001
"""The last part of a wait, in which the clock is read again and again: a sleep may be longer than requested."""

SORTED_NUMBERS, RANDOM_READS, MEMORY_NUMBERS = 1 << 16, 1 << 17, 1 << 21
"""The control work: of numbers of 8 bytes, 512 KiB are sorted, and 16 MiB are read from."""


class Stopwatch:
    """The seconds of pieces of work, on the wall and of the CPU. A piece is the block of a `with` statement."""

    def __init__(self) -> None:
        self.laps: list[float] = []
        """The seconds of each piece."""
        self.cpu = 0.0
        """The CPU seconds of this process in all pieces."""

    def __enter__(self) -> Self:
        self._cpu_before, self._before = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.laps.append(time.perf_counter() - self._before)
        self.cpu += time.process_time() - self._cpu_before

    @property
    def seconds(self) -> float:
        """The seconds of all pieces."""
        return sum(self.laps)

    def repeats(self, most: int, enough: float) -> Iterator[None]:
        """Iterate until `most` pieces were timed, or pieces of `enough` seconds."""
        while len(self.laps) < most and self.seconds < enough:
            yield


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """Call a function; return the seconds and the result."""
    with Stopwatch() as watch:
        result = work()
    return watch.seconds, result


@contextmanager
def without_collections() -> Iterator[None]:
    """Keep the garbage collector out of timed work."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class WallClock:
    """The clock of the machine, in seconds."""

    def now(self) -> float:
        return time.perf_counter()

    def wait(self, until: float) -> None:
        while (left := until - time.perf_counter()) > 0:
            if left > SPIN_S:
                time.sleep(left - SPIN_S)


class CpuUse:
    """The CPU time of the descendants of this process, phase by phase. every: seconds between two lists of them.

    A list takes milliseconds. A process that begins and ends between two lists counts from the next list, if its parent
    has waited for it; one that nothing waits for does not: on Spark, short-lived Python workers.
    """

    def __init__(self, every: float) -> None:
        self._every = every
        self.list_processes()
        self._before = self._total()

    def passed(self) -> float:
        """Return the CPU seconds since the last call."""
        if time.monotonic() - self._listed > self._every:
            self.list_processes()
        before, self._before = self._before, self._total()
        return max(self._before - before, 0.0)

    def list_processes(self) -> None:
        """List the processes. At the end of a run, `passed` then counts those that have ended since the last list."""
        self._listed = time.monotonic()
        self._seconds: dict[int, float] = {}
        self._of_ended = 0.0
        for process in descendants():
            with suppress(psutil.Error):
                ended = process.cpu_times()
                self._seconds[process.pid] = _cpu(process.pid)
                self._of_ended += ended.children_user + ended.children_system

    def _total(self) -> float:
        for process, seconds in self._seconds.items():
            self._seconds[process] = max(seconds, _cpu(process))  # it may have ended
        return sum(self._seconds.values()) + self._of_ended


def _cpu(process: int) -> float:
    with suppress(OSError):
        return time.clock_gettime(~process << 3 | 2)  # the clock id that clock_getcpuclockid returns for a process
    return 0.0


def control_seconds() -> float:
    """Time the control work once: a fixed computation, which is timed beside every cell.

    One half sorts numbers that fit in a core's cache; the other half reads random places of memory.
    """
    numbers, places, memory = _control_input()
    with Stopwatch() as watch:
        np.sort(numbers, kind="stable")
        memory[places].sum()
    return watch.seconds


@cache
def _control_input() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make the input, the same on every machine, and read it once."""
    chance = np.random.default_rng(1)
    numbers = chance.integers(0, 1 << 40, SORTED_NUMBERS)
    memory = np.arange(MEMORY_NUMBERS)
    places = chance.integers(0, MEMORY_NUMBERS, RANDOM_READS)
    memory[places].sum()
    return numbers, places, memory
