"""Threads: the workers of a dataflow run at once, each in a thread of its own, and stop together.

Kernels do not hold the lock of Python here. The first worker runs in the thread of the caller, so one worker needs no
other thread. The threads of the others start when these are opened, wait in compiled code for calls (see
`interpreter.service`), and end when they are closed, or with the process. A forked process starts threads of its own
with its first call.

If operators of several workers fail, the error of the first one in the order of a single worker is raised: that of the
first superstep, in it of the first operator of the program, and for it that of the earliest time, at last that of the
first worker. A worker that fails publishes nothing more, and another one stops only behind the step at which it has
failed. So each worker has run the steps before the first failure, with all rows, and that failure depends on no other.
An error that comes from no operator, which is a fault or Ctrl-C, precedes those of operators, and stops all kernels.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from threading import Thread
from typing import Any, Generic, TypeVar

from numba import types

from deltamark.dataflow.interpreter.run import run
from deltamark.dataflow.interpreter.service import (
    PYTHON,
    WORDS,
    ServiceBlock,
    await_end,
    call,
    complete_call,
    serve,
)
from deltamark.dataflow.kernels.core.guard import OutOfBoundsError
from deltamark.dataflow.kernels.core.memory import Memory, view
from deltamark.dataflow.kernels.core.unlocked import Heeded, StoppedError, Unlocked
from deltamark.dataflow.kernels.parallel.meeting import LINE
from deltamark.dataflow.runtime.worker import FAULT, OUT_OF_BOUNDS, Worker
from deltamark.dataflow.types import FOREVER
from deltamark.errors import DeltamarkError

SPINS = 4000
"""The loads of an awaited word before a worker lets other threads run, if each has a core of its own. Not measured."""

PATIENCE_NS = 300_000
"""The nanoseconds for which a thread waits for its next call before it sleeps, if it has a core of its own: a small
feed of a client takes less between two calls. Not measured.
"""

ResultT = TypeVar("ResultT")

Do = Callable[[int, int], ResultT]
"""A call of a thread: its number, and the status at which its program has stopped (PYTHON if there was none)."""

_libc = ctypes.CDLL(None)

_turns = count()
"""The threads of this process that have got a core."""


class _Calls(Generic[ResultT]):
    """The calls of several threads, and their results."""

    def __init__(self, threads: int) -> None:
        self.do: Do[ResultT] | None = None
        """The function of the call; None ends a thread."""
        self.results: list[ResultT | None] = [None] * threads
        self.errors: list[BaseException] = []
        self.heeded, self.caller = Heeded(), Heeded(gets_signals=True)
        """The words that the threads heed, and those that their caller heeds."""

    def begin(self, do: Do[ResultT]) -> None:
        self.heeded.begin()
        self.caller.begin()
        self.do = do

    def stop(self) -> None:
        """Let all kernels return, those of the caller too."""
        self.heeded.stop()
        self.caller.stop()

    def make(self, number: int, status: int) -> bool:
        """Make the call of a thread, or go on with it; return whether it was one."""
        do = self.do
        if do is None:
            return False
        try:
            self.results[number] = do(number, status)
        except StoppedError as error:
            self.errors.append(error)
        except BaseException as error:  # noqa: BLE001 (the caller raises it)
            self.errors.append(error)
            self.stop()
        return True

    def take(self) -> list[ResultT]:
        """Return the results of a call that has ended, or raise its error."""
        results, errors = self.results, self.errors
        self.do, self.results, self.errors = None, [None] * len(results), []
        self.caller.raise_error()
        if errors:
            raise min(errors, key=lambda error: isinstance(error, StoppedError))
        return results  # type: ignore[return-value]  # all have ended without an error


class _Thread:
    """A thread that makes the calls with a number. core: the one that it keeps to, or None."""

    def __init__(self, calls: _Calls[Any], number: int, core: int | None) -> None:
        self._memory = Memory()
        size = ServiceBlock.size_in_words
        self._address = self._memory.reserve(size + WORDS)
        patience = 0 if core is None else PATIENCE_NS
        view(self._address, size)[:] = ServiceBlock.words(progress=self._address + 8 * size, patience=patience)
        if _libc.sem_init(ctypes.c_void_p(self._address + 8 * (size + LINE)), 0, 0) != 0:
            raise DeltamarkError("no semaphore", f"thread {number}", "lower the number of workers")
        arguments = calls, number, core, self._address, self._memory
        self._thread = Thread(target=_serve, args=arguments, name="deltamark worker", daemon=True)
        self._thread.start()

    def call(self, program: int) -> None:
        """Begin a call: run a program, and then the function of the calls if it stops, or the function alone if 0."""
        call(self._address, program)

    def wait(self, spins: int) -> None:
        """Wait for the end of the call."""
        unlocked_await_end()(self._address, spins)

    def join(self) -> None:
        self._thread.join()
        self._memory.close()


@cache
def unlocked_serve() -> Unlocked:
    return Unlocked(serve, types.int64)


@cache
def unlocked_await_end() -> Unlocked:
    return Unlocked(await_end, types.int64, types.int64)


def _serve(calls: _Calls[Any], number: int, core: int | None, address: int, _memory: Memory) -> None:
    """Make the calls of a thread until one has no function. _memory: kept as long as the thread."""
    if core is not None:
        _keep_to(core)
    run_calls = unlocked_serve()
    with calls.heeded.heeding():
        while True:
            try:
                status = run_calls(address)
            except StoppedError as error:
                calls.errors.append(error)
                complete_call(address)
                continue
            except OutOfBoundsError:
                status = OUT_OF_BOUNDS
            if calls.make(number, status):
                complete_call(address)
            else:
                return


def _keep_to(core: int) -> None:
    """Bind this thread to a core: the system wakes threads that wait for each other on one core.

    Measured on two cores: two workers took 6.1 ms for a feed, of which one core had all the work, and 3.9 ms if bound.
    """
    with suppress(OSError):  # a container may forbid it
        os.sched_setaffinity(0, {core})


def _cores(threads: int) -> list[int | None]:
    """Return a core for each of some threads besides the caller's, in turn; None if there are too few."""
    cores = sorted(os.sched_getaffinity(0))
    if threads >= len(cores):
        return [None] * threads
    others = [each for each in cores if each != _libc.sched_getcpu()][: len(cores) - 1]
    return [others[next(_turns) % len(others)] for _ in range(threads)]


class Threads:
    """Several threads that run one function at once, the caller's among them. count: their number."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._calls = _Calls[Any](count)
        self._threads: list[_Thread] = []
        self._process = 0

    def run(self, do: Callable[[int], ResultT]) -> list[ResultT]:
        """Call a function with each number below `count`, each in a thread of its own; return the results.

        If one of them fails, or Ctrl-C ends the wait for them, all are stopped.
        """
        return self.run_programs([0] * self.count, lambda number, _status: do(number))

    def run_programs(self, programs: Sequence[int], do: Do[ResultT]) -> list[ResultT]:
        """Run a program in each thread, and call a function where it stops, or at once where there is none (0).

        The program of the caller's thread is run by the function, which gets PYTHON as the status.
        """
        self.start()
        calls, threads, spins = self._calls, self._threads, spins_of(self.count)
        calls.begin(do)
        try:
            for thread, program in zip(threads, programs[1:], strict=True):
                thread.call(program)
            with calls.caller.heeding():
                calls.make(0, PYTHON)
                if calls.caller.has_raised:
                    calls.stop()
                for thread in threads:
                    thread.wait(spins)
        except StoppedError:
            if calls.caller.has_raised:
                calls.stop()
            self._settle()
        except BaseException:
            calls.stop()
            self._settle()
            raise
        return calls.take()

    def start(self) -> None:
        """Start the threads, unless they run in this process."""
        if self._process != os.getpid():
            self._calls = _Calls(self.count)
            cores = _cores(self.count - 1)
            self._threads, self._process = [], os.getpid()
            try:
                for number, core in enumerate(cores, 1):
                    self._threads.append(_Thread(self._calls, number, core))
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """End the threads. Later calls start them again."""
        for each in self._end():
            each.join()

    def __del__(self) -> None:
        self._end()

    def _end(self) -> list[_Thread]:
        """Let the threads end, without a wait; return them."""
        threads, self._threads = self._threads, []
        if self._process != os.getpid():
            return []
        self._process = 0
        for each in threads:
            each.call(0)
        return threads

    def _settle(self) -> None:
        """Wait for the end of all calls, however often Ctrl-C is pressed."""
        deaf = Heeded()
        for each in self._threads:
            has_ended = False
            while not has_ended:
                with suppress(KeyboardInterrupt), deaf.heeding():
                    each.wait(SPINS)
                    has_ended = True


class WorkerThreads:
    """The workers of a dataflow, and the threads in which they run."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._workers, self._threads = workers, Threads(len(workers))
        self._failures: list[tuple[int, int, int, DeltamarkError]] = []
        """The step, the time, the worker and the error of each failure of an operator."""
        if len(workers) > 1:
            spins, unlocked = spins_of(len(workers)), Unlocked(run, types.int64, types.int64)
            for each in workers:
                each.run_kernels, each.wait = unlocked, self._wait
                each.program.write(each.program.spins, spins)
            self._threads.start()

    def run(self, do: Callable[[Worker], ResultT]) -> list[ResultT]:
        """Call a function with every worker, all at once; return the results, or raise the first failure."""
        if len(self._workers) == 1:
            return [do(self._workers[0])]
        with self._first_failure():
            return self._threads.run(lambda number: self._run_one(do, number))

    def execute(self) -> None:
        """Run the program of every worker, all at once, over the batches that are bound; or raise the first failure."""
        if len(self._workers) == 1:
            self._workers[0].execute_program()
            return
        programs = [each.begin_program() for each in self._workers]
        with self._first_failure():
            self._threads.run_programs(programs, self._go_on)

    def close(self) -> None:
        self._threads.close()

    @contextmanager
    def _first_failure(self) -> Iterator[None]:
        """Raise the first failure of an operator for an error that comes from failures alone."""
        try:
            yield
        except StoppedError:
            if not self._failures:
                raise
            raise min(self._failures, key=lambda failure: failure[:3])[3] from None
        finally:
            self._failures = []
            for each in self._workers:
                each.program.write(each.program.stop, 0)

    def _go_on(self, number: int, status: int) -> None:
        """Run the program of a worker from where compiled code has stopped."""
        self._run_one(lambda worker: worker.execute_program() if status == PYTHON else worker.go_on(status), number)

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


def spins_of(threads: int) -> int:
    """Return the number of loads of an awaited word; 0 unless each thread has a core."""
    return SPINS if threads <= len(os.sched_getaffinity(0)) else 0
