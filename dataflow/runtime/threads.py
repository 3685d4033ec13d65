"""Threads: the workers of a dataflow run at once, each in a thread of its own, and stop together.

Kernels do not hold the lock of Python here. One worker needs no thread: it runs in that of the caller. The threads
of several start when these are opened, and end when they are closed, or with the process. A forked process starts
threads of its own with its first call.

If operators of several workers fail, the error of the first one in the order of a single worker is raised: that of the
first superstep, in it of the first operator of the program, and for it that of the earliest time, at last that of the
first worker. A worker that fails publishes nothing more, and another one stops only behind the step at which it has
failed. So each worker has run the steps before the first failure, with all rows, and that failure depends on no other.
An error that comes from no operator, which is a fault or Ctrl-C, precedes those of operators, and stops all kernels.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

from numba import types

from deltamark.dataflow.interpreter.run import run
from deltamark.dataflow.kernels.core.unlocked import StoppedError, Unlocked, heeding
from deltamark.dataflow.runtime.worker import FAULT, Worker
from deltamark.dataflow.types import FOREVER
from deltamark.errors import DeltamarkError

SPINS = 4000
"""The loads of an awaited word before a worker lets other threads run, if each has a core of its own. Not measured."""

POLL_S = 0.05
"""Seconds after which a wait for a cancelled call begins anew, since Ctrl-C may end it at any step."""

ResultT = TypeVar("ResultT")

_turns = count()
"""The threads of this process that have got a core."""


class _Call(Generic[ResultT]):
    """A call in another thread. Ctrl-C may come before it is known whether the thread begins it."""

    def __init__(self, do: Callable[[], ResultT]) -> None:
        self._do, self._begun, self._running = do, Lock(), Lock()
        self._running.acquire()
        self._has_ended = False
        self.result: ResultT | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        if not self._begun.acquire(blocking=False):
            return  # it was cancelled
        try:
            self.result = self._do()
        except BaseException as error:  # noqa: BLE001 (the caller raises it)
            self.error = error
        finally:
            self._has_ended = True
            self._running.release()

    def wait(self, seconds: float = -1) -> None:
        self._running.acquire(timeout=seconds)

    def cancel(self) -> None:
        """Let the call never begin; if it has begun, wait for its end, however often Ctrl-C is pressed."""
        if self._begun.acquire(blocking=False):
            return
        while not self._has_ended:
            with suppress(KeyboardInterrupt):
                self.wait(POLL_S)


class _Thread:
    """A thread that makes calls one after another. keeps_core: whether it keeps to one core."""

    def __init__(self, *, keeps_core: bool) -> None:
        self._calls: SimpleQueue[_Call[Any] | None] = SimpleQueue()
        self._thread = Thread(target=_make, args=(self._calls, keeps_core), name="deltamark worker", daemon=True)
        self._thread.start()

    def submit(self, call: _Call[ResultT]) -> None:
        self._calls.put(call)

    def end(self) -> None:
        """End the thread after its last call, without a wait."""
        self._calls.put(None)

    def join(self) -> None:
        self._thread.join()


def _make(calls: SimpleQueue[_Call[Any] | None], keeps_core: bool) -> None:  # noqa: FBT001 (an argument of a thread)
    if keeps_core:
        _keep_to_a_core()
    while (call := calls.get()) is not None:
        call.run()
        del call  # its result must not live until the next one


def _keep_to_a_core() -> None:
    """Bind this thread to the next core in turn: the system wakes threads that wait for each other on one core.

    Measured on two cores: two workers took 6.1 ms for a feed, of which one core had all the work, and 3.9 ms if bound.
    """
    cores = sorted(os.sched_getaffinity(0))
    with suppress(OSError):  # a container may forbid it
        os.sched_setaffinity(0, {cores[next(_turns) % len(cores)]})


class Threads:
    """Several threads that run one function at once. count: their number."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._threads: list[_Thread] = []
        self._process = 0
        self._heeded = ctypes.c_int64()
        """The word that all kernels in these threads heed."""

    def run(self, do: Callable[[int], ResultT]) -> list[ResultT]:
        """Call a function with each number below `count`, each in a thread of its own; return the results.

        If one of them fails, or Ctrl-C ends the wait for them, all are stopped.
        """
        self._heeded.value = 0
        self.start()
        calls = [_Call(partial(self._heeding, do, number)) for number in range(self.count)]
        try:
            for thread, each in zip(self._threads, calls, strict=True):
                thread.submit(each)
            for each in calls:
                each.wait()
        except BaseException:
            self.stop()
            for each in calls:
                each.cancel()
            raise
        errors = [each.error for each in calls if each.error is not None]
        if errors:
            raise min(errors, key=lambda error: isinstance(error, StoppedError))
        return [each.result for each in calls]  # type: ignore[misc]  # they have ended without an error

    def start(self) -> None:
        """Start the threads, unless they run in this process."""
        if not self._threads or self._process != os.getpid():
            keeps_core = self.count <= len(os.sched_getaffinity(0))
            self._threads = [_Thread(keeps_core=keeps_core) for _ in range(self.count)]
            self._process = os.getpid()

    def stop(self) -> None:
        """Let all kernels in these threads return."""
        self._heeded.value = 1

    def close(self) -> None:
        """End the threads. Later calls start them again."""
        threads, self._threads = self._threads, []
        if self._process == os.getpid():
            for each in threads:
                each.end()
            for each in threads:
                each.join()

    def __del__(self) -> None:
        if self._process == os.getpid():
            for each in self._threads:
                each.end()

    def _heeding(self, do: Callable[[int], ResultT], number: int) -> ResultT:
        try:
            with heeding(self._heeded):
                return do(number)
        except StoppedError:
            raise
        except BaseException:
            self.stop()
            raise


class WorkerThreads:
    """The workers of a dataflow, and the threads in which they run."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers, self._threads = workers, Threads(len(workers))
        self._failures: list[tuple[int, int, int, DeltamarkError]] = []
        """The step, the time, the worker and the error of each failure of an operator."""
        if len(workers) > 1:
            spins, unlocked = _spins(len(workers)), Unlocked(run, types.int64, types.int64)
            for each in workers:
                each.run_kernels, each.wait = unlocked, self._wait
                each.program.write(each.program.spins, spins)
            self._threads.start()

    def run(self, do: Callable[[Worker], ResultT]) -> list[ResultT]:
        """Call a function with every worker, all at once; return the results, or raise the first failure."""
        if len(self._workers) == 1:
            return [do(self._workers[0])]
        try:
            return self._threads.run(lambda number: self._run_one(do, number))
        except StoppedError:
            if not self._failures:
                raise
            raise min(self._failures, key=lambda failure: failure[:3])[3] from None
        finally:
            self._failures = []
            for each in self._workers:
                each.program.write(each.program.stop, 0)

    def close(self) -> None:
        self._threads.close()

    def _run_one(self, do: Callable[[Worker], ResultT], number: int) -> ResultT:
        worker = self._workers[number]
        worker.failed_step = FAULT
        try:
            return do(worker)
        except DeltamarkError as error:
            if worker.failed_step == FAULT:
                raise
            time = FOREVER if error.time is None else error.time
            self._failures.append((worker.failed_step, time, number, error))
            for each in self._workers:
                each.program.write(each.program.stop, 1)
            raise StoppedError from None

    def _wait(self, worker: Worker) -> None:
        """Let other threads run; raise an error if a worker has failed at a step before this one's."""
        if any(step < worker.step for step, *_ in self._failures):
            raise StoppedError
        os.sched_yield()


def _spins(workers: int) -> int:
    """Return the number of loads of an awaited word; 0 unless each worker has a core."""
    return SPINS if workers <= len(os.sched_getaffinity(0)) else 0
