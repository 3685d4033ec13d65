"""Service: a thread waits for calls in compiled code, and runs programs between them without Python.

To wake a thread, and to hand over the lock of Python, takes 50 to 100 us, while a small feed takes as long. So a thread
waits for its next call in a loop, without the lock, and for as long as a caller needs to prepare the next feed. After
that it sleeps. A program runs at once. Python is needed if a table must grow, if an operator fails, and for calls of
functions of Python.
"""

from __future__ import annotations

from deltamark.dataflow.interpreter.run import run
from deltamark.dataflow.kernels.core.blocks import Array, Block
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import exchange_if, load_acquire, nanoseconds, store_release
from deltamark.dataflow.kernels.parallel.meeting import LINE, READ, WRITTEN, pause
from deltamark.dataflow.kernels.status import DONE

IDLE, CALLED, ASLEEP = range(3)
"""The state of a thread: it waits in the loop, has a call, or sleeps until its caller wakes it."""

SLEEPS, PYTHON = -1, -2
"""The results of `serve` if the thread shall sleep, or shall call a function of Python."""

LOADS_PER_TIME = 64
"""The loads of the state between two readings of the clock, which takes about as long. Not measured."""

WORDS = LINE
"""The words of the state and of the number of calls that have ended, each in a cache line of its own."""


class ServiceBlock(Block):
    """A thread, and its call. Its caller writes all fields but the words."""

    progress: Array
    """The state, and the number of calls that have ended."""
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


@kernel
def call(address: int, program: int) -> bool:
    """Call a thread; return whether it sleeps, so that it must be woken."""
    service = ServiceBlock(address)
    service.program = program
    service.calls += 1
    if exchange_if(_state(service), IDLE, CALLED):
        return False
    store_release(_state(service), CALLED)
    return True


@kernel
def serve(address: int) -> int:
    """Run the programs that are called one after another; return why Python is needed: SLEEPS, PYTHON, or a status."""
    service = ServiceBlock(address)
    while True:
        if not _wait(service):
            return SLEEPS
        if service.program == 0:
            return PYTHON
        status = run(service.program, -1)
        if status != DONE:
            return status
        complete_call(address)


@kernel
def _wait(service: ServiceBlock) -> bool:
    """Wait for a call; return whether there is one."""
    loads, end = 0, 0
    while load_acquire(_state(service)) != CALLED:
        loads += 1
        if loads & (LOADS_PER_TIME - 1) == 0 or service.patience == 0:
            now = nanoseconds()
            if end == 0:
                end = now + service.patience
            if now >= end and exchange_if(_state(service), IDLE, ASLEEP):
                return False
    return True


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
