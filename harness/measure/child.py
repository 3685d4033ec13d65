"""Work done in a child of this process: a time limit, a crash and a kill concern that work alone.

The child tells when a stage begins, which has a new time limit, and what it found; between stages it may wait for the
word to go on. One that serves is given work after work. It leads a group of processes: what it has started ends with
it, and it ends with its parent. Its temporary files lie in a directory that goes when it ends, however it does.
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
from typing import Any, NoReturn

from deltamark.dataflow.runtime.process_pool import end_with
from deltamark.datagen import scratch

STAGE, RESULT, ERROR, WAITING = range(4)
HEADER = struct.Struct("<BQ")


class AbandonedError(Exception):
    """Nobody waits for the result any more."""


class LimitError(Exception):
    """A stage took longer than it may."""


class Stages:
    """What a child says of where it is."""

    def __init__(self, pipe: int, gate: int) -> None:
        self._pipe, self._gate = pipe, gate

    def __call__(self) -> None:
        """Say that a stage begins."""
        _send(self._pipe, STAGE, b"")

    def wait(self) -> None:
        """Wait for the word to go on."""
        _send(self._pipe, WAITING, b"")
        os.read(self._gate, 1)

    def serve(self, work: Callable[[Any], Any]) -> NoReturn:
        """Do work for whatever is given, until there is nobody to give."""
        with os.fdopen(self._gate, "rb") as given:
            while True:
                _send(self._pipe, RESULT, pickle.dumps(work(pickle.load(given))))  # noqa: S301 (of our own parent)


Work = Callable[[Stages], Any]


class Child:
    """A child at work. watched: a file whose end means that nobody waits for the result any more."""

    def __init__(self, work: Work, watched: int | None = None) -> None:
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
        self._held = b""
        self._said: tuple[int, Any] | None = None
        """That it waits, its result, or why there is none."""

    def reach(self, limit: float) -> None:
        """Let it work until it waits, or has ended."""
        try:
            if self._said is None:
                self._hear(limit)
        except (LimitError, ChildProcessError) as error:
            self._said = ERROR, error

    def result(self, limit: float) -> Any:
        """Let it go on to its end; return what it found."""
        with suppress(BrokenPipeError):
            os.write(self._gate, b".")
        while self._said is None or self._said[0] == WAITING:
            self._hear(limit)
        kind, found = self._said
        if kind == ERROR:
            raise found
        return found

    def ask(self, what: Any, limit: float) -> Any:
        """Give work to one that serves, which waits once in it; return what came of it."""
        self._said = None
        with suppress(BrokenPipeError):
            _write(self._gate, pickle.dumps(what))
        self.reach(limit)
        return self.result(limit)

    def close(self) -> None:
        """End it, and what it has started."""
        os.close(self._pipe)
        os.close(self._gate)
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        scratch.remove(self._scratch)

    def _hear(self, limit: float) -> None:
        """Wait for what it says next, but for that a stage begins."""
        deadline = time.monotonic() + limit
        while True:
            while (frame := self._frame()) is not None:
                kind, body = frame
                if kind != STAGE:
                    self._said = kind, _read(kind, body)
                    return
                deadline = time.monotonic() + limit
            self._receive(deadline, limit)

    def _receive(self, deadline: float, limit: float) -> None:
        ready = [self._pipe, *([self._watched] if self._watched is not None else [])]
        found, _, _ = select.select(ready, [], [], max(deadline - time.monotonic(), 0))
        if not found:
            raise LimitError(f"over {limit:g} s")
        if self._watched in found:
            raise AbandonedError
        piece = os.read(self._pipe, 1 << 20)
        if not piece:
            raise ChildProcessError(_ending(self._pid))
        self._held += piece

    def _frame(self) -> tuple[int, bytes] | None:
        """Take the next whole message."""
        if len(self._held) < HEADER.size:
            return None
        kind, size = HEADER.unpack_from(self._held)
        if len(self._held) < HEADER.size + size:
            return None
        body, self._held = self._held[HEADER.size : HEADER.size + size], self._held[HEADER.size + size :]
        return kind, body


def forked(work: Work, limit: float, watched: int | None = None) -> Any:
    """Have a child do `work(stages)`; return its result. limit: seconds that a stage may take."""
    with closing(Child(work, watched)) as child:
        return child.result(limit)


def _read(kind: int, body: bytes) -> Any:
    if kind == RESULT:
        return pickle.loads(body)  # noqa: S301 (of our own child)
    return ChildProcessError(body.decode())


def _ending(pid: int) -> str:
    """Say how a child ended that gave no result."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert ended
    if ended.si_code == os.CLD_EXITED:
        return f"ended with {ended.si_status} and no result"
    name = signal.Signals(ended.si_status).name
    return f"ended by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")


def _child(work: Work, pipe: int, gate: int, parent: int) -> NoReturn:
    try:
        os.setpgid(0, 0)
        end_with(parent)
        os.dup2(2, 1)  # what it prints is no part of what the parent says
        body = pickle.dumps(work(Stages(pipe, gate)))
        _send(pipe, RESULT, body)
    except BaseException as error:  # noqa: BLE001 (it is told to the parent, whatever it is)
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
