"""Child processes that run examples: the parent survives the death of a child, and reports it.

A child writes its example and the time of its start on a board, in memory that it shares with its parent; the parent
reads it if the child is killed, or takes too long or too much memory. The failures come through a pipe.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import pickle
import select
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.random_plans.choices import Seeded

from deltamark.harness.system.children import end_with
from fuzz.kinds import KINDS, Failure, kind_of, run
from fuzz.tally import TALLY, taken

LONGEST_WORK, LONGEST_SECONDS = 60.0, 600.0
"""The limits of an example: seconds of CPU time, which other processes do not take, and seconds of a clock."""
LATE = "not done after"
MOST_BYTES = 4 << 30

SEED, SINCE, KIND, WORK, FIRST_COUNT = 0, 1, 2, 3, 8
PAGE = os.sysconf("SC_PAGE_SIZE")
PIPE_BYTES = 1 << 20
MOST_COUNTED = 200
"""The counts that a child keeps before it sends them; none of examples for other engines, whose counts are shown."""


class Child:
    """A process that carries out a task and sends objects to its parent."""

    def __init__(self, task: Callable[[Board, Callable[[Any], None]], None]) -> None:
        self.board = Board()
        self._pipe, send = os.pipe()
        self._content = b""
        parent = os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads; a child starts none
            self.pid = os.fork()
        if self.pid:
            os.close(send)
            os.set_blocking(self._pipe, False)
            self.status: int | None = None
            return
        code = 1
        try:
            end_with(parent)
            for each in (signal.SIGINT, signal.SIGTERM):  # the parent ends it; programs that it starts take them
                signal.signal(each, lambda *_: None)
            os.close(self._pipe)
            task(self.board, lambda found: _send(send, found))
            code = 0
        finally:
            os._exit(code)

    def found(self) -> Iterator[Any]:
        """Yield the objects that the child has sent since the last call."""
        with suppress(BlockingIOError):
            while chunk := os.read(self._pipe, PIPE_BYTES):
                self._content += chunk
        while len(self._content) >= 8 and len(self._content) >= (
            end := 8 + int.from_bytes(self._content[:8], "little")
        ):
            content, self._content = self._content[8:end], self._content[end:]
            yield pickle.loads(content)

    def problem(self, share: float = 1.0) -> str | None:
        """Return the problem of the process, if it has one; kill it if it takes too long or too much memory.

        share: the part of the memory that a process may take. A child of a child must take less: both are added up.
        """
        if self.ended():
            code = os.waitstatus_to_exitcode(self.status or 0)
            return f"killed by {signal.Signals(-code).name}" if code < 0 else "the process ended" if code else None
        if late := self._late():
            self.kill()
            return late
        if mapped(self.pid) > MOST_BYTES * share and resident(self.pid) > MOST_BYTES * share:
            self.kill()
            return f"more than {MOST_BYTES >> 30} GB of memory"
        return None

    def _late(self) -> str | None:
        if self.board.seconds() > LONGEST_SECONDS:
            return f"{LATE} {LONGEST_SECONDS:g} seconds"
        if self.board.seconds() and work(self.pid) - self.board.work_before > LONGEST_WORK:
            return f"{LATE} {LONGEST_WORK:g} seconds of CPU time"
        return None

    def ended(self) -> bool:
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        return self.status is not None

    def wait(self, seconds: float) -> None:
        """Wait until the child sends an object or ends, or for some seconds."""
        select.select([self._pipe], [], [], seconds)

    def kill(self) -> None:
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            _, self.status = os.waitpid(self.pid, 0)

    def close(self) -> None:
        self.kill()
        os.close(self._pipe)


class Board:
    """The state of a child, in memory that its parent reads."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, PAGE)
        self._words = (ctypes.c_int64 * (PAGE // 8)).from_buffer(self._memory)

    def begin(self, kind: str, seed: int) -> None:
        self._words[KIND], self._words[SEED] = list(KINDS).index(kind), seed
        self._words[WORK] = int(work(os.getpid()) * 1e9)
        self._words[SINCE] = time.monotonic_ns()

    def end(self) -> None:
        self._words[FIRST_COUNT + self._words[KIND]] += 1
        self._words[SINCE] = 0

    @property
    def kind(self) -> str:
        return list(KINDS)[self._words[KIND]]

    @property
    def seed(self) -> int:
        return int(self._words[SEED])

    def counts(self) -> dict[str, int]:
        """Return the number of examples of each kind that have ended."""
        return {name: int(self._words[FIRST_COUNT + at]) for at, name in enumerate(KINDS)}

    def seconds(self) -> float:
        """Return the seconds since the start of the example."""
        since = self._words[SINCE]
        return (time.monotonic_ns() - since) / 1e9 if since else 0.0

    @property
    def work_before(self) -> float:
        """The CPU time of the process before the example, in seconds."""
        return self._words[WORK] / 1e9


def explorer(first: int, end: int, step: int, names: list[str]) -> Child:
    """Start a child that runs the examples of every `step`-th seed from the first on."""

    def explore(board: Board, send: Callable[[Failure | Counter[str]], None]) -> None:
        for seed in range(first, end, step):
            kind = kind_of(seed, names)
            board.begin(kind, seed)
            failure = run(kind, seed, Seeded(seed))
            board.end()
            if failure is not None:
                send(failure)
            if TALLY.total() > (0 if KINDS[kind].keeps else MOST_COUNTED):
                send(taken())
        send(taken())

    return Child(explore)


def mapped(pid: int) -> int:
    """Return the bytes of resident memory of a process and its children; a page that several share counts for each.

    It takes 0.03 ms instead of 10 ms for a process with many mappings, which cannot be changed in this time.
    """
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    return pages * PAGE + sum(mapped(int(each)) for each in children)


def resident(pid: int) -> int:
    """Return the bytes of resident memory of a process and its children; a page that several share counts once."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    kilobytes = sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes * 1024 + sum(resident(int(each)) for each in children)


def work(pid: int) -> float:
    """Return the seconds of CPU time that a process and its children have taken."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    return sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK") + sum(work(int(each)) for each in children)


def _send(pipe: int, found: object) -> None:
    content = pickle.dumps(found)
    left = memoryview(len(content).to_bytes(8, "little") + content)
    while left:
        left = left[os.write(pipe, left) :]
