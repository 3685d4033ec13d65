"""A pool of processes on this machine that all run the same commands.

This process is worker 0. The others are forked from it, and live until the pool is closed, one of them fails, or
worker 0 ends. Commands are sent through pipes; results come back through a board of words in shared memory. A process
that waits for another regularly checks that all are alive, so no process waits for a dead one.

Forking is safe although other threads may run: a child runs nothing but the commands, in one thread.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NoReturn, TypeVar

from deltamark.dataflow.kernels.core.memory import Memory, view
from deltamark.dataflow.kernels.parallel.exchange import LINE, awaited, publish
from deltamark.dataflow.runtime.process_ends import described_end, end_with
from deltamark.errors import DeltamarkError

FINISHED, RESULT = 0, 1
"""Words of a worker's line on the board: the number of commands it has run, and the result of the last one."""

MAX_SPINS, MAX_POLLS = 60_000, 400
"""Polls for a result, or for a command, before a process sleeps, if each has a core of its own. After them Python
notices the end of a wait late. Measured at SF 1 on two workers: with 60,000 instead of 4,000 spins, six queries take
0.96 times as long in batches of one time, 1.00 times in batches of many times. The polls for a command are not
measured."""

MAX_YIELDS, NAP_S = 200, 50e-6
"""Checks in a row that only yield the core; each later one sleeps for NAP_S. Not measured."""

KILLING_SIGNALS = ("SIGKILL", "SIGTERM")
"""The names of signals that come from outside; others are faults of a worker."""

MessageT = TypeVar("MessageT")


class StoppedError(Exception):
    """Raised in a worker when another one has failed."""


@dataclass
class ForkedWorker:
    """The process and the pipes of another worker, at worker 0."""

    pid: int
    commands: int
    errors: int


class ProcessPool(Generic[MessageT]):
    """The workers of a dataflow, each a process; `run` runs a command in all of them."""

    def __init__(self, workers: int, memory: Memory) -> None:
        self.workers = workers
        self._command: Callable[[MessageT], int] = _no_command
        self._board = memory.share(LINE * (workers + 1))
        self._stop = self._board + 8 * LINE * workers
        self._worker = self._sent = self._checks = 0
        self._closed = False
        self._process = os.getpid()
        self._children: dict[int, ForkedWorker] = {}
        self._spins = spins(workers)

    def start(self, prepare: Callable[[int], None], command: Callable[[MessageT], int]) -> None:
        """Fork the other workers. prepare: called first in each, with its number; command: runs a message."""
        self._command = command
        try:
            for worker in range(1, self.workers):
                self._children[worker] = self._fork(worker, prepare)
        except BaseException:
            self.close()
            raise

    def run(self, message: MessageT) -> list[int]:
        """Run the command with a message in every worker; return the result of each."""
        self.check()
        try:
            return self._run(message)
        except StoppedError:
            error = self._reported()
            self.close()
            raise error from None
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """Raise an error if the workers have ended."""
        if self._closed:
            raise DeltamarkError("the workers have ended", "they were closed, or one has failed", "make a new dataflow")

    def _run(self, message: MessageT) -> list[int]:
        content = pickle.dumps(message) if self._children else b""
        self._sent += 1
        self._checks = 0
        for worker, child in self._children.items():
            try:
                os.write(child.commands, len(content).to_bytes(4, "little") + content)
            except BrokenPipeError:
                self._give_up(worker)
        results = [self._command(message)]
        for worker in self._children:
            line = self._board + 8 * LINE * worker
            while not awaited(line + 8 * FINISHED, self._sent, self._spins):
                self.wait()
            results.append(int(view(line, RESULT + 1)[RESULT]))
        return results

    def wait(self) -> None:
        """Let other processes run, and check that all workers are alive."""
        if view(self._stop, 1)[0] != 0:
            raise StoppedError
        for worker, child in self._children.items():
            if os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                self._give_up(worker)
        self._checks += 1
        if self._checks % MAX_YIELDS == 0:
            time.sleep(NAP_S)
        else:
            os.sched_yield()

    def close(self) -> None:
        """End the other workers. An interrupted close can be called again."""
        self._closed = True
        while self._children and os.getpid() == self._process:
            _, child = self._children.popitem()
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
            os.close(child.commands)
            os.close(child.errors)

    def __del__(self) -> None:
        self.close()

    def _reported(self) -> DeltamarkError:
        """Return the error of the worker that has stopped the others."""
        child = self._children[int(view(self._stop, 1)[0])]
        error: DeltamarkError = pickle.loads(_read(child.errors))  # noqa: S301 (our own process wrote it)
        return error

    def _give_up(self, worker: int) -> NoReturn:
        """Raise the error for a worker that has ended."""
        if view(self._stop, 1)[0] != 0:
            raise StoppedError
        pid = self._children[worker].pid
        end = described_end(pid)
        remedy = "this is a fault in deltamark: please report it"
        if end.endswith(KILLING_SIGNALS):
            remedy = "find the cause (the kernel kills processes if memory runs out: see dmesg), and start again"
        raise DeltamarkError(f"worker {worker} of {self.workers} has died", f"process {pid} {end}", remedy)

    def _fork(self, worker: int, prepare: Callable[[int], None]) -> ForkedWorker:
        (commands, send), (listen, errors) = os.pipe(), os.pipe()
        parent = os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads: see above
            pid = os.fork()
        if pid != 0:
            os.close(commands)
            os.close(errors)
            return ForkedWorker(pid, send, listen)
        try:
            end_with(parent)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.close(send)
            self._children.clear()
            self._worker = worker
            self._serve(commands, errors, prepare)
        finally:
            os._exit(1)

    def _serve(self, commands: int, errors: int, prepare: Callable[[int], None]) -> NoReturn:
        """Run commands in a child until the pool ends."""
        line = self._board + 8 * LINE * self._worker
        try:
            prepare(self._worker)
            while True:
                self._checks = 0
                result = self._command(self._received(commands))
                self._sent += 1
                view(line, RESULT + 1)[RESULT] = result
                publish(line + 8 * FINISHED, self._sent)
        except StoppedError:
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 (worker 0 reports whatever it is)
            content = pickle.dumps(_as_ours(error, self._worker))
            os.write(errors, len(content).to_bytes(4, "little") + content)
            publish(self._stop, self._worker)
            os._exit(1)

    def _received(self, commands: int) -> MessageT:
        if self._spins:
            poll = select.poll()
            poll.register(commands, select.POLLIN)
            for _ in range(MAX_POLLS):
                if poll.poll(0):
                    break
        message: MessageT = pickle.loads(_read(commands))  # noqa: S301 (our own process wrote it)
        return message


def _no_command(message: object) -> int:
    raise AssertionError(message)


def spins(workers: int) -> int:
    """Return the number of polls for a result before a worker checks the others: 0 unless each has a core."""
    return MAX_SPINS if workers <= len(os.sched_getaffinity(0)) else 0


def _read(pipe: int) -> bytes:
    """Read one message from a pipe."""
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


def _as_ours(error: BaseException, worker: int) -> DeltamarkError:
    """Convert an error of a worker to the error that the caller of the pool sees."""
    if isinstance(error, DeltamarkError):
        return error
    where = "".join(traceback.format_exception(error))[-4000:]
    return DeltamarkError(f"worker {worker} has failed", where, "this is a fault in deltamark: please report it")
