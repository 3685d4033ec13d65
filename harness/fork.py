"""Work done in a child of this process: a time limit, a crash and a kill concern that work alone.

The child tells when a stage begins, which has a new time limit, and what it found. It leads a group of processes: what
it has started ends with it, and it ends with its parent.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from dataflow.team import end_with

STAGE, RESULT, ERROR = 0, 1, 2
HEADER = struct.Struct("<BQ")


class AbandonedError(Exception):
    """Nobody waits for the result any more."""


class LimitError(Exception):
    """A stage took longer than it may."""


@dataclass
class Child:
    pid: int
    pipe: int
    held: bytes = b""

    def frame(self) -> tuple[int, bytes] | None:
        """Take the next whole message."""
        if len(self.held) < HEADER.size:
            return None
        kind, size = HEADER.unpack_from(self.held)
        if len(self.held) < HEADER.size + size:
            return None
        body, self.held = self.held[HEADER.size : HEADER.size + size], self.held[HEADER.size + size :]
        return kind, body


def forked(work: Callable[[Callable[[], None]], Any], limit: float, watched: int | None = None) -> Any:
    """Have a child do `work(stage)`; return its result. `watched`: whose end means that nobody waits any more."""
    reading, writing = os.pipe()
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        os.close(reading)
        _child(work, writing, parent)
    with suppress(OSError):  # the child may have done it, and have ended
        os.setpgid(pid, pid)
    os.close(writing)
    try:
        return _await(Child(pid, reading), limit, watched)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _await(child: Child, limit: float, watched: int | None) -> Any:
    deadline = time.monotonic() + limit
    ready = [child.pipe, *([watched] if watched is not None else [])]
    while True:
        found, _, _ = select.select(ready, [], [], max(deadline - time.monotonic(), 0))
        if not found:
            raise LimitError(f"over {limit:g} s")
        if watched in found:
            raise AbandonedError
        piece = os.read(child.pipe, 1 << 20)
        if not piece:
            raise ChildProcessError(_ending(child.pid))
        child.held += piece
        while (frame := child.frame()) is not None:
            kind, body = frame
            if kind == RESULT:
                return pickle.loads(body)  # noqa: S301 (of our own child)
            if kind == ERROR:
                raise ChildProcessError(body.decode())
            deadline = time.monotonic() + limit


def _ending(pid: int) -> str:
    """Say how a child ended that gave no result."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert ended
    if ended.si_code == os.CLD_EXITED:
        return f"ended with {ended.si_status} and no result"
    name = signal.Signals(ended.si_status).name
    return f"ended by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")


def _child(work: Callable[[Callable[[], None]], Any], pipe: int, parent: int) -> NoReturn:
    try:
        os.setpgid(0, 0)
        end_with(parent)
        os.dup2(2, 1)  # what it prints is no part of what the parent says
        body = pickle.dumps(work(lambda: _send(pipe, STAGE, b"")))
        _send(pipe, RESULT, body)
    except BaseException as error:  # noqa: BLE001 (it is told to the parent, whatever it is)
        with suppress(OSError):
            _send(pipe, ERROR, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(0)


def _send(pipe: int, kind: int, body: bytes) -> None:
    message = memoryview(HEADER.pack(kind, len(body)) + body)
    while message:
        message = message[os.write(pipe, message) :]
