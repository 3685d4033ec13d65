"""Service: a thread waits for calls in compiled code, and runs programs between them without Python.

To wake a thread takes as long as a small feed. So a thread waits for its next call in a loop for as long as a caller
needs to prepare the next feed. After that it sleeps until its caller posts a semaphore. All this needs no lock of
Python, which would take 50 to 100 us to hand over. Python is needed if a table must grow, if an operator fails, and for
calls of functions of Python.
"""

from __future__ import annotations

from deltamark.dataflow.interpreter.run import run
from deltamark.dataflow.kernels.core.blocks import Array, Block
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import (
    SEMAPHORE_WORDS,
    exchange_if,
    load_acquire,
    nanoseconds,
    post,
    sleep_until_posted,
    store_release,
)
from deltamark.dataflow.kernels.parallel.meeting import LINE, READ, WRITTEN, pause
from deltamark.dataflow.kernels.status import DONE

IDLE, CALLED, ASLEEP = range(3)
"""The state of a thread: it waits in the loop, has a call, or sleeps until its caller wakes it."""

PYTHON = -1
"""The result of `serve` if the thread shall call a function of Python."""

LOADS_PER_TIME = 64
"""The loads of the state between two readings of the clock, which takes about as long. Not measured."""

WORDS = LINE + SEMAPHORE_WORDS
"""The words of the state and of the number of calls that have ended, each in a cache line of its own, and of the
semaphore."""


class ServiceBlock(Block):
    """A thread, and its call. Its caller writes all fields but the words."""

    progress: Array
    """The state, the number of calls that have ended, and the semaphore."""
    calls: int = 0
    program: int = 0
    """The program that is called, or 0 for a function of Python."""
    patience: int
    """The nanoseconds for which the thread waits in the loop."""


@inline
def _state(service: ServiceBlock) -> int:
    return service.progress[READ:].address


@inline
def _ended(service: ServiceBlock) -> int:
    return service.progress[WRITTEN:].address


@inline
def _semaphore(service: ServiceBlock) -> int:
    return service.progress[LINE:].address


@kernel
def call(address: int, program: int) -> int:
    """Call a thread, and wake it if it sleeps."""
    service = ServiceBlock(address)
    service.program = program
    service.calls += 1
    if not exchange_if(_state(service), IDLE, CALLED):
        store_release(_state(service), CALLED)
        post(_semaphore(service))
    return DONE


@kernel
def serve(address: int) -> int:
    """Run the programs that are called one after another; return why Python is needed: PYTHON, or a status."""
    service = ServiceBlock(address)
    while True:
        _wait(service)
        if service.program == 0:
            return PYTHON
        status = run(service.program, -1)
        if status != DONE:
            return status
        complete_call(address)


@kernel
def _wait(service: ServiceBlock) -> None:
    """Wait for a call."""
    loads, end = 0, 0
    while load_acquire(_state(service)) != CALLED:
        loads += 1
        if loads & (LOADS_PER_TIME - 1) == 0 or service.patience == 0:
            now = nanoseconds()
            if end == 0:
                end = now + service.patience
            if now >= end and (load_acquire(_state(service)) == ASLEEP or exchange_if(_state(service), IDLE, ASLEEP)):
                sleep_until_posted(_semaphore(service))


@kernel
def complete_call(address: int) -> None:
    """End the call of a thread, which waits for the next one."""
    service = ServiceBlock(address)
    store_release(_state(service), IDLE)
    store_release(_ended(service), load_acquire(_ended(service)) + 1)


@kernel
def await_end(address: int, spins: int) -> int:
    """Wait for the end of all calls of a thread. spins: the loads before other threads may run."""
    service, tries = ServiceBlock(address), 0
    while load_acquire(_ended(service)) < service.calls:
        tries += 1
        if tries > spins:
            pause(tries - spins)
    return DONE
