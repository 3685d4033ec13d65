"""A team of processes on this machine that carry out the same commands together.

This process is worker 0; the others are forked from it and live until they are closed, fail, or lose it. A command
goes to them by pipe, and what each made of it comes back through a board of words in shared memory. Whoever waits for
another asks now and then whether all are alive: so nobody waits for the dead, and nobody outlives worker 0.

Forking is safe here although other threads may run: a child does nothing but what it is told, in one thread.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from deltamark.dataflow.kernels.core.memory import Memory, view
from deltamark.dataflow.kernels.parallel.exchange import LINE, awaited, publish
from deltamark.errors import DeltamarkError

FINISHED, RESULT = 0, 1
"""Of a worker's line on the board: how many commands it has carried out, and what came of the last."""

SPINS, POLLS = 4000, 400
"""How often to look before asking what is wrong, and for a command before going to sleep, with a core for each."""

IMPATIENT, NAP = 200, 50e-6
"""After so many questions in a row, sleep for so many seconds before the next."""

DEATH_SIGNAL = 1
_libc = ctypes.CDLL(None, use_errno=True)


class StoppedError(Exception):
    """Another worker has failed."""


@dataclass
class Member:
    """Another worker, as worker 0 sees it."""

    pid: int
    commands: int
    complaints: int
    is_dead: bool = False


class Team:
    def __init__(self, workers: int, memory: Memory) -> None:
        self.workers = workers
        self._carry_out: Callable[[Any], int] = _nothing
        self._board = memory.share(LINE * (workers + 1))
        self._stop = self._board + 8 * LINE * workers
        self._worker = self._sent = self._questions = 0
        self._closed = False
        self._process = os.getpid()
        self._members: dict[int, Member] = {}
        self._spins = spins(workers)

    def start(self, prepare: Callable[[int], None], carry_out: Callable[[Any], int]) -> None:
        """Make the other workers. prepare: what each does first, given its number; carry_out: a command."""
        self._carry_out = carry_out
        try:
            for worker in range(1, self.workers):
                self._members[worker] = self._fork(worker, prepare)
        except BaseException:
            self.close()
            raise

    def together(self, command: Any) -> list[int]:
        """Have every worker carry out a command; return what each of them made of it."""
        self.check()
        try:
            return self._together(command)
        except StoppedError:
            error = self._complaint()
            self.close()
            raise error from None
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """Raise an error if the workers are no more."""
        if self._closed:
            raise DeltamarkError("no workers any more", "they were closed, or one has failed", "make new ones")

    def _together(self, command: Any) -> list[int]:
        content = pickle.dumps(command) if self._members else b""
        self._sent += 1
        self._questions = 0
        for worker, member in self._members.items():
            try:
                os.write(member.commands, len(content).to_bytes(4, "little") + content)
            except BrokenPipeError:
                self._give_up(worker)
        results = [self._carry_out(command)]
        for worker in self._members:
            line = self._board + 8 * LINE * worker
            while not awaited(line + 8 * FINISHED, self._sent, self._spins):
                self.wait()
            results.append(int(view(line, RESULT + 1)[RESULT]))
        return results

    def wait(self) -> None:
        """Let others run, and make sure that waiting for them makes sense."""
        if view(self._stop, 1)[0] != 0:
            raise StoppedError
        for worker, member in self._members.items():
            if os.waitpid(member.pid, os.WNOHANG) != (0, 0):
                member.is_dead = True
                self._give_up(worker)
        self._questions += 1
        if self._questions % IMPATIENT == 0:
            time.sleep(NAP)
        else:
            os.sched_yield()

    def close(self) -> None:
        """End the other workers; again if need be."""
        self._closed = True
        while self._members and os.getpid() == self._process:
            _, member = self._members.popitem()
            if not member.is_dead:
                os.kill(member.pid, signal.SIGKILL)
                os.waitpid(member.pid, 0)
            os.close(member.commands)
            os.close(member.complaints)

    def __del__(self) -> None:
        self.close()

    def _complaint(self) -> DeltamarkError:
        """Return the error of the worker that has stopped the others."""
        member = self._members[int(view(self._stop, 1)[0])]
        error: DeltamarkError = pickle.loads(_read(member.complaints))  # noqa: S301 (our own process wrote it)
        return error

    def _give_up(self, worker: int) -> NoReturn:
        """Say why a worker is no more."""
        if view(self._stop, 1)[0] != 0:
            raise StoppedError
        raise DeltamarkError(
            f"worker {worker} of {self.workers} has died",
            f"process {self._members[worker].pid} was killed from outside",
            "look for what killed it (the kernel, where memory runs out: see dmesg), and start again",
        )

    def _fork(self, worker: int, prepare: Callable[[int], None]) -> Member:
        (commands, send), (listen, complaints) = os.pipe(), os.pipe()
        parent = os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads: see above
            pid = os.fork()
        if pid != 0:
            os.close(commands)
            os.close(complaints)
            return Member(pid, send, listen)
        try:
            end_with(parent)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.close(send)
            self._members.clear()
            self._worker = worker
            self._follow(commands, complaints, prepare)
        finally:
            os._exit(1)

    def _follow(self, commands: int, complaints: int, prepare: Callable[[int], None]) -> NoReturn:
        """Be a worker other than the first."""
        line = self._board + 8 * LINE * self._worker
        try:
            prepare(self._worker)
            while True:
                self._questions = 0
                result = self._carry_out(self._command(commands))
                self._sent += 1
                view(line, RESULT + 1)[RESULT] = result
                publish(line + 8 * FINISHED, self._sent)
        except StoppedError:
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 (whatever it is, worker 0 must hear of it)
            content = pickle.dumps(_said(error, self._worker))
            os.write(complaints, len(content).to_bytes(4, "little") + content)
            publish(self._stop, self._worker)
            os._exit(1)

    def _command(self, commands: int) -> Any:
        if self._spins:
            poll = select.poll()
            poll.register(commands, select.POLLIN)
            for _ in range(POLLS):
                if poll.poll(0):
                    break
        return pickle.loads(_read(commands))  # noqa: S301 (our own process wrote it)


def end_with(parent: int) -> None:
    """Have this process, which `parent` has just forked, be killed when that ends."""
    _libc.prctl(DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _nothing(command: Any) -> int:
    raise AssertionError(command)


def spins(workers: int) -> int:
    """Return how often a worker looks for what it waits for before it asks why: not at all if that takes a core."""
    return SPINS if workers <= len(os.sched_getaffinity(0)) else 0


def _read(pipe: int) -> bytes:
    """Read one message."""
    content, missing = b"", 4
    size: int | None = None
    while missing > 0:
        chunk = os.read(pipe, missing)
        if not chunk:
            raise StoppedError
        content += chunk
        missing -= len(chunk)
        if size is None and missing == 0:
            size = missing = int.from_bytes(content, "little")
            content = b""
    return content


def _said(error: BaseException, worker: int) -> DeltamarkError:
    """Make of what a worker has raised what its caller is told."""
    if isinstance(error, DeltamarkError):
        return error
    where = "".join(traceback.format_exception(error))[-4000:]
    return DeltamarkError(f"worker {worker} has failed", where, "this is a fault in deltamark: please report it")
