"""Work in a child process, so that a time limit, a crash or a kill ends this work alone.

A child reports the begin of each stage, which has its own time limit, and its result; between stages it may wait for a
signal to go on. A serving child is given one task after another. A child leads a process group: the processes that it
starts end with it, and it ends with its parent. The directory of its temporary files is removed when it ends.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import struct
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any, Generic, NoReturn, TypeVar

from deltamark.dataflow.runtime.process_pool import end_with
from deltamark.datagen import scratch

STAGE, RESULT, ERROR, WAITING = range(4)
"""The kinds of messages from a child."""

HEADER = struct.Struct("<BQ")
"""The kind of a message, and the number of bytes that follow."""

READ_BYTES = 1 << 20
GO = b"."

Result = TypeVar("Result")


class AbandonedError(Exception):
    """The process that requested the result has ended."""


class LimitError(Exception):
    """A stage exceeded its time limit."""


class Stages:
    """The child's end of the pipes to its parent."""

    def __init__(self, pipe: int, gate: int) -> None:
        self._pipe, self._gate = pipe, gate

    def begin(self) -> None:
        """Report that a stage begins."""
        _send(self._pipe, STAGE, b"")

    def wait(self) -> None:
        """Wait until the parent asks for the result."""
        _send(self._pipe, WAITING, b"")
        os.read(self._gate, len(GO))

    def serve(self, work: Callable[[Any], Any]) -> NoReturn:
        """Send the result of `work(task)` for each task that the parent gives, until the process is killed."""
        with os.fdopen(self._gate, "rb") as tasks:
            while True:
                _send(self._pipe, RESULT, pickle.dumps(work(pickle.load(tasks))))  # noqa: S301 (from our parent)


class Child(Generic[Result]):
    """A child at work. watched: a file whose end means that the result is no longer needed."""

    def __init__(self, work: Callable[[Stages], Result], watched: int | None = None) -> None:
        (self._pipe, writing), (waiting, self._gate) = os.pipe(), os.pipe()
        self._scratch = scratch.make()
        parent, self._pid = os.getpid(), os.fork()
        if self._pid == 0:
            os.close(self._pipe)
            os.close(self._gate)
            os.environ["TMPDIR"] = tempfile.tempdir = str(self._scratch)
            _child(work, writing, waiting, parent)
        with suppress(OSError):  # the child may have done it, and have ended
            os.setpgid(self._pid, self._pid)
        os.close(writing)
        os.close(waiting)
        self._watched = watched
        self._received = b""
        self._state: tuple[int, Any] | None = None
        """WAITING, RESULT with the result, or ERROR with the exception; None while the child works."""

    def reach(self, limit: float) -> None:
        """Let the child work until it waits or ends. limit: seconds for each stage."""
        try:
            if self._state is None:
                self._listen(limit)
        except (LimitError, ChildProcessError) as error:
            self._state = ERROR, error

    def result(self, limit: float) -> Result:
        """Let the child work to its end; return its result. limit: seconds for each stage."""
        with suppress(BrokenPipeError):
            os.write(self._gate, GO)
        while self._state is None or self._state[0] == WAITING:
            self._listen(limit)
        kind, value = self._state
        if kind == ERROR:
            raise value
        return value

    def serve(self, task: Any, limit: float) -> Result:
        """Give a task to a serving child, whose work waits once; return the result."""
        self._state = None
        with suppress(BrokenPipeError):
            _write(self._gate, pickle.dumps(task))
        self.reach(limit)
        return self.result(limit)

    def close(self) -> None:
        """Kill the child and the processes that it started."""
        os.close(self._pipe)
        os.close(self._gate)
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        scratch.remove(self._scratch)

    def _listen(self, limit: float) -> None:
        """Wait for the next message that is not the begin of a stage."""
        deadline = time.monotonic() + limit
        while True:
            while (message := self._message()) is not None:
                kind, body = message
                if kind != STAGE:
                    self._state = kind, _value(kind, body)
                    return
                deadline = time.monotonic() + limit
            self._receive(deadline, limit)

    def _receive(self, deadline: float, limit: float) -> None:
        files = [self._pipe, *([self._watched] if self._watched is not None else [])]
        ready, _, _ = select.select(files, [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            raise LimitError(f"over {limit:g} s")
        if self._watched in ready:
            raise AbandonedError
        piece = os.read(self._pipe, READ_BYTES)
        if not piece:
            raise ChildProcessError(_ending(self._pid))
        self._received += piece

    def _message(self) -> tuple[int, bytes] | None:
        """Take the next complete message."""
        if len(self._received) < HEADER.size:
            return None
        kind, size = HEADER.unpack_from(self._received)
        end = HEADER.size + size
        if len(self._received) < end:
            return None
        body, self._received = self._received[HEADER.size : end], self._received[end:]
        return kind, body


def run_in_child(work: Callable[[Stages], Result], limit: float, watched: int | None = None) -> Result:
    """Return the result of `work(stages)` in a child. limit: seconds for each stage."""
    with closing(Child(work, watched)) as child:
        return child.result(limit)


def _value(kind: int, body: bytes) -> Any:
    if kind == RESULT:
        return pickle.loads(body)  # noqa: S301 (from our child)
    return ChildProcessError(body.decode())


def _ending(pid: int) -> str:
    """Describe the end of a child that sent no result."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert ended
    if ended.si_code == os.CLD_EXITED:
        return f"ended with {ended.si_status} and no result"
    name = signal.Signals(ended.si_status).name
    return f"ended by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")


def _child(work: Callable[[Stages], Any], pipe: int, gate: int, parent: int) -> NoReturn:
    try:
        os.setpgid(0, 0)
        end_with(parent)
        os.dup2(2, 1)  # the output of the parent is its replies alone
        body = pickle.dumps(work(Stages(pipe, gate)))
        _send(pipe, RESULT, body)
    except BaseException as error:  # noqa: BLE001 (the parent raises it, whatever it is)
        with suppress(OSError):
            _send(pipe, ERROR, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(0)


def _send(pipe: int, kind: int, body: bytes) -> None:
    _write(pipe, HEADER.pack(kind, len(body)) + body)


def _write(pipe: int, body: bytes) -> None:
    left = memoryview(body)
    while left:
        left = left[os.write(pipe, left) :]
