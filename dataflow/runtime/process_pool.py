"""A pool of processes on this machine that all run the same commands.

This process is worker 0. The others are forked from it, and live until the pool is closed, one of them fails, or
worker 0 ends. Commands are sent through pipes; results come back through a board of words in shared memory. A process
that waits for another regularly checks that all are alive, so no process waits for a dead one.

If operators of several workers fail, the error of the first one in the order of a single worker is raised: that of the
first superstep, in it of the first operator of the program, and for it that of the earliest time, at last that of the
first worker. A worker that fails sends nothing more, and the others stop only behind the steps at which one has failed.
So each worker has run the steps before the first failure, with all rows, and that failure depends on no other. An error
that comes from no operator, which is a fault, precedes those of operators.

Forking is safe although other threads may run: a child runs nothing but the commands, in one thread.

The ends of child processes: a child ends with its parent, and its own end is described in words.
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
from typing import Generic, NoReturn, TypeVar

from deltamark.dataflow.kernels.core.blocks import Block
from deltamark.dataflow.kernels.parallel.exchange import LINE, awaited, publish
from deltamark.dataflow.runtime.worker import Worker
from deltamark.dataflow.types import FOREVER
from deltamark.errors import DeltamarkError

DEATH_SIGNAL = 1
"""The option of `prctl` by which a process gets a signal when its parent ends."""

SUBREAPER = 36
"""The option of `prctl` by which a process becomes the parent of the orphans among its descendants."""

_libc = ctypes.CDLL(None, use_errno=True)


def end_with(parent: int) -> None:
    """Let the system kill this process, which `parent` has just forked, when `parent` ends."""
    _libc.prctl(DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Let the system make this process, also after an `exec`, the parent of its descendants whose parents end."""
    _libc.prctl(SUBREAPER, 1)


def described_end(pid: int) -> str:
    """Wait for the end of a child process, and describe it by a signal or an exit code. The child is not reaped."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert ended
    if ended.si_code == os.CLD_EXITED:
        return f"ended with exit code {ended.si_status}"
    return f"ended by {signal_name(ended.si_status)}"


def signal_name(number: int) -> str:
    """Return the name of a signal. Most of the real-time signals have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class BoardLine(Block):
    """A worker's line on the board, which lies in shared memory and has one line for each."""

    finished: int = 0
    """The number of commands that the worker has run."""
    result: int = 0
    """The result of the last one."""
    ended: int = 0
    """Whether it has failed or stopped."""
    step: int = 0
    time: int = 0
    """The step and the time of its failure."""


FAULT = -1
"""The step of an error that comes from no operator."""

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
    """Raised in a worker when another one has failed at an earlier step."""


@dataclass
class ForkedWorker:
    """The process and the pipes of another worker, at worker 0."""

    pid: int
    commands: int
    errors: int


class ProcessPool(Generic[MessageT]):
    """The workers of a dataflow, each a process; `run` runs a command in all of them. own: that of this process."""

    def __init__(self, workers: int, own: Worker) -> None:
        self.workers = workers
        self._own, self._program = own, own.compiled.program
        own.wait = self.wait
        self._command: Callable[[MessageT], int] = _no_command
        self._worker = self._sent = self._checks = 0
        self._closed = False
        self._process = os.getpid()
        self._children: dict[int, ForkedWorker] = {}
        self._spins = spins(workers)
        self._board = self._program.memory.share(LINE * workers)

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
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """Raise an error if the workers have ended, or if they belong to the process that has forked this one."""
        if self._closed:
            raise DeltamarkError("the workers have ended", "they were closed, or one has failed", "make a new dataflow")
        if os.getpid() != self._process:
            actual = f"opened by process {self._process}, used by {os.getpid()}"
            raise DeltamarkError("the workers of another process", actual, "make a new dataflow in this process")

    def _run(self, message: MessageT) -> list[int]:
        content = pickle.dumps(message) if self._children else b""
        self._sent += 1
        self._checks = 0
        for worker, child in self._children.items():
            try:
                os.write(child.commands, len(content).to_bytes(4, "little") + content)
            except BrokenPipeError:
                self._give_up(worker)
        own = self._run_own(message)
        for worker in self._children:
            finished = _address(self._line(worker), "finished")
            while not awaited(finished, self._sent, self._spins) and not self._ends(worker):
                self._pause()
        if self._has_stopped:
            _, _, worker = self._first_failure()
            raise own if worker == 0 and own is not None else self._reported(worker) from None
        return [self._line(worker).result for worker in range(self.workers)]

    def _run_own(self, message: MessageT) -> Exception | None:
        """Run the command in this process; return its error."""
        try:
            self._line(0).result = self._command(message)
        except StoppedError:
            return None
        except Exception as error:  # noqa: BLE001 (it is raised once it is the first one)
            self._fail(error)
            return error
        return None

    def wait(self) -> None:
        """Let other processes run; raise an error if a worker has died, or has failed at a step before this one's."""
        if self._has_stopped and self._first_failure()[0] < self._own.step:
            raise StoppedError
        self._pause()

    def _pause(self) -> None:
        """Let other processes run, and check that no worker has died."""
        for worker, child in self._children.items():
            has_exited = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            if has_exited and not self._line(worker).ended:
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

    def _line(self, worker: int) -> BoardLine:
        return BoardLine(self._board + 8 * LINE * worker)

    @property
    def _has_stopped(self) -> bool:
        """Whether a worker has failed."""
        return self._program.read(self._program.stop) != 0

    def _first_failure(self) -> tuple[int, int, int]:
        """Return the step, the time and the worker of the first failure so far."""
        lines = ((worker, self._line(worker)) for worker in range(self.workers))
        return min((line.step, line.time, worker) for worker, line in lines if line.ended)

    def _ends(self, worker: int) -> bool:
        """Return whether a worker has failed or stopped, or a fault has occurred, which is the first failure."""
        return self._has_stopped and (self._line(worker).ended != 0 or self._first_failure()[0] == FAULT)

    def _fail(self, error: BaseException) -> None:
        """Publish the step and the time of this worker's failure."""
        step = self._own.failed_step
        time = error.time if isinstance(error, DeltamarkError) else None
        self._end(step, FOREVER if time is None else time)
        publish(self._program.stop, 1)

    def _end(self, step: int, time: int) -> None:
        line = self._line(self._worker)
        line.step, line.time = step, time
        publish(_address(line, "ended"), 1)

    def _reported(self, worker: int) -> DeltamarkError:
        """Return the error that a worker has sent."""
        error: DeltamarkError = pickle.loads(_read(self._children[worker].errors))  # noqa: S301 (our own process wrote it)
        return error

    def _give_up(self, worker: int) -> NoReturn:
        """Raise the error for a worker that has died."""
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
        line = self._line(self._worker)
        try:
            prepare(self._worker)
            while True:
                self._checks = 0
                result = self._command(self._received(commands))
                self._sent += 1
                line.result = result
                publish(_address(line, "finished"), self._sent)
        except StoppedError:
            self._end(FOREVER, FOREVER)
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 (worker 0 reports whatever it is)
            content = pickle.dumps(_as_ours(error, self._worker))
            os.write(errors, len(content).to_bytes(4, "little") + content)
            self._fail(error)
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


def _address(line: BoardLine, name: str) -> int:
    """Return the address of a word that a worker publishes for others."""
    return line.address + BoardLine.fields[name].offset


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
