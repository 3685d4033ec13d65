"""Work in a child process, so that a time limit, a crash or a kill ends this work alone.

A child reports the beginning of each phase, which has its own time limit, and its result; between phases it may wait
for a signal to go on. A serving child receives one task after another. A child leads a process group: the processes
that it starts end with it, and it ends with its parent. The directory of its temporary files is removed when it ends.
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Generic, NoReturn, TypeVar

from deltamark.datagen import scratch
from deltamark.harness.system.children import described_end, end_with

PHASE, RESULT, ERROR, WAITING = range(4)
"""The kinds of messages from a child, each sent with a value."""

STACK, ASK_STACK = "stack", signal.SIGUSR1
"""The file in the directory of a child to which it writes its calls, and the signal that requests them."""

STACK_TIMEOUT_S = 1.0
"""The time that a child has to write its calls. Not measured."""

ENDING_TIMEOUT_S = 5.0
"""The time that a child has to end after it has closed its connection. Not measured."""

Result = TypeVar("Result")
Task = TypeVar("Task")


class AbandonedError(Exception):
    """The process that requested the result has ended."""


class LimitError(Exception):
    """A phase exceeded its time limit."""


class Phases:
    """The child's end of the connection to its parent."""

    def __init__(self, parent: Connection) -> None:
        self._parent = parent

    def begin(self) -> None:
        """Report that a phase begins."""
        self._parent.send((PHASE, None))

    def wait(self) -> None:
        """Wait until the parent requests the result."""
        self._parent.send((WAITING, None))
        self._parent.recv()

    def serve(self, work: Callable[[Task], object]) -> NoReturn:
        """Send the result of `work(task)` for each task from the parent, until the process is killed."""
        while True:
            self._parent.send((RESULT, work(self._parent.recv())))


class ForkedChild(Generic[Result]):
    """A child at work. watched: a file whose end means that the result is no longer needed."""

    def __init__(self, work: Callable[[Phases], Result], watched: int | None = None) -> None:
        self._child, connection = Pipe()
        self._scratch = scratch.make()
        parent, self._pid = os.getpid(), os.fork()
        if self._pid == 0:
            self._child.close()
            os.environ["TMPDIR"] = tempfile.tempdir = str(self._scratch)
            _write_stack_to(self._scratch / STACK)
            _run(work, connection, parent)
        with suppress(OSError):  # the child may have done it, and have ended
            os.setpgid(self._pid, self._pid)
        connection.close()
        self._sources: list[Connection | int] = [self._child, *([] if watched is None else [watched])]
        self._state = PHASE
        """The kind of the last message: PHASE while the child works."""
        self._outcome: Result | Exception

    def reach(self, limit: float) -> None:
        """Let the child work until it waits or ends. limit: seconds for each phase."""
        try:
            if self._state == PHASE:
                self._listen(limit)
        except (LimitError, ChildProcessError) as error:
            self._state, self._outcome = ERROR, error

    def result(self, limit: float) -> Result:
        """Let the child work to its end; return its result. limit: seconds for each phase."""
        if self._state in (PHASE, WAITING):
            self._send(None)
        while self._state in (PHASE, WAITING):
            self._listen(limit)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def serve(self, task: object, limit: float) -> Result:
        """Send a task to a serving child, whose work waits once; return the result."""
        self._state = PHASE
        self._send(task)
        self.reach(limit)
        return self.result(limit)

    def close(self) -> None:
        """Kill the child and the processes that it started."""
        self._child.close()
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        scratch.remove(self._scratch)

    def _send(self, message: object) -> None:
        with suppress(OSError):  # its end is an error of the next `_listen`
            self._child.send(message)

    def _listen(self, limit: float) -> None:
        """Wait for the next message that is not the beginning of a phase."""
        kind, deadline = PHASE, time.monotonic() + limit
        while kind == PHASE:
            ready = wait(self._sources, max(deadline - time.monotonic(), 0))
            if not ready:
                raise LimitError(f"over {limit:g} s{self._place()}")
            if self._child not in ready:
                raise AbandonedError
            try:
                kind, value = self._child.recv()
            except (EOFError, OSError):
                raise ChildProcessError(_ending(self._pid)) from None
            deadline = time.monotonic() + limit
        self._state, self._outcome = kind, ChildProcessError(value) if kind == ERROR else value

    def _place(self) -> str:
        """Return the place in the sources that the child executes, or nothing if it does not tell."""
        file, deadline, calls = self._scratch / STACK, time.monotonic() + STACK_TIMEOUT_S, ""
        with suppress(OSError):
            os.kill(self._pid, ASK_STACK)
            while not calls.endswith("\n") and time.monotonic() < deadline:
                time.sleep(STACK_TIMEOUT_S / 100)
                calls = file.read_text(encoding="utf-8", errors="replace")
        innermost = re.search(r'File "(?:.*/)?(.*)", line (\d+) in (.*)', calls)
        return " in {2}, {0}:{1}".format(*innermost.groups()) if innermost else ""


def run_in_child(work: Callable[[Phases], Result], limit: float, watched: int | None = None) -> Result:
    """Return the result of `work(phases)` in a child. limit: seconds for each phase."""
    with closing(ForkedChild(work, watched)) as child:
        return child.result(limit)


def _ending(pid: int) -> str:
    """Describe the end of a child that sent no result and has closed its connection."""
    if not wait([ending := os.pidfd_open(pid)], ENDING_TIMEOUT_S):
        os.close(ending)
        return "closed its connection, and goes on without a result"
    os.close(ending)
    end = described_end(pid)
    return end + (", perhaps for want of memory" if end.endswith("SIGKILL") else ", without a result")


def _write_stack_to(path: Path) -> None:
    """Let this process write its calls to a file when it gets the signal, also if it never returns to Python."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    faulthandler.register(ASK_STACK, file=file, all_threads=False)


def _run(work: Callable[[Phases], object], connection: Connection, parent: int) -> NoReturn:
    """Do the work of a child, and end it."""
    try:
        os.setpgid(0, 0)
        end_with(parent)
        os.dup2(2, 1)  # the output of the parent is its replies alone
        connection.send((RESULT, work(Phases(connection))))
    except BaseException as error:  # noqa: BLE001 (the parent raises it, whatever it is)
        with suppress(OSError):
            connection.send((ERROR, f"{type(error).__name__}: {error}"))
    finally:
        os._exit(0)
