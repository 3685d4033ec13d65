"""Meetings: the operators at which the workers of a program read each other's rows or sums.

Workers are threads that run the same program over the same supersteps. In each superstep a worker writes a message into
memory of its own, and then publishes the number of the superstep; the others wait for this number, and read the message
where it lies. A worker has SLOTS messages, and writes one again when all readers are done with it, so it runs ahead of
slower ones. No lock is needed, since each word has one writer.

A worker that waits for long lets other threads run. A kernel whose wait cannot end, because a worker has failed,
returns WAITING, and its caller decides whether this worker stops.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import NONE, Array, Cell, Operator
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import heed_signals, load_acquire, nap, store_release, yield_core

SLOTS = 4
"""The messages of a worker, of which it may be ahead of its readers. Not measured."""

WRITTEN, READ, LINE = 16, 32, 48
"""The words of `progress` that are used, each in a cache line of its own, and the number of all words."""

MAX_YIELDS, NAP_US = 200, 50
"""The times that a waiting worker yields its core before it sleeps, and the microseconds of its sleep. Not measured."""

DELAY_FACTOR, MAX_DELAY_US = 6364136223846793005, 128
"""The factor of the random numbers by which tests delay workers, and the longest delay."""


class Meeting(Operator):
    """An operator at which workers meet, as the block of one of them."""

    worker: Cell
    workers: int
    superstep: int = 0
    """The number of supersteps at which the workers have met."""
    progress: Array
    """LINE words: the number of supersteps whose messages this worker has written, and read."""
    messages: Array
    """The addresses of the SLOTS messages of this worker."""
    peers: Array = NONE
    """The addresses of `progress` and of `messages` of each worker."""
    spins: Cell
    """The loads of a word that is awaited, before other threads may run."""
    stop: Cell
    """Not 0 once a worker has failed."""
    delays: Cell
    """The state of random delays, of tests only: 0 if there are none."""


@kernel
def may_write(op: Meeting, readers: int) -> bool:
    """Wait until the first `readers` workers are done with the message that the next one replaces."""
    _delay(op)
    number = op.superstep - SLOTS + 1
    for other in range(readers):  # noqa: SIM110 (kernels have no generators)
        if not awaited(op, Array(op.peers[2 * other])[READ:].address, number):
            return False
    return True


@kernel
def publish(op: Meeting) -> None:
    """Publish the message of this superstep."""
    store_release(op.progress[WRITTEN:].address, op.superstep + 1)


@kernel
def may_read(op: Meeting, writers: int) -> bool:
    """Wait until the first `writers` workers have published their messages."""
    _delay(op)
    number = op.superstep + 1
    for other in range(writers):  # noqa: SIM110 (kernels have no generators)
        if not awaited(op, Array(op.peers[2 * other])[WRITTEN:].address, number):
            return False
    return True


@kernel
def complete(op: Meeting) -> None:
    """Release the messages of this superstep."""
    op.superstep += 1
    store_release(op.progress[READ:].address, op.superstep)


@inline
def written_by(op: Meeting, worker: int) -> Array:
    """Return the message of a worker in this superstep."""
    return Array(Array(op.peers[2 * worker + 1])[op.superstep % SLOTS])


@inline
def own_message(op: Meeting) -> Array:
    return Array(op.messages[op.superstep % SLOTS])


@kernel
def awaited(op: Meeting, address: int, number: int) -> bool:
    """Wait until a word that another worker publishes reaches a number; return False if a worker has failed."""
    tries, spins = 0, op.spins
    while load_acquire(address) < number:
        tries += 1
        if tries > spins:
            if op.stop != 0:
                return False
            pause(tries - spins)
    return True


@inline
def pause(tries: int) -> None:
    """Let other threads run between two loads of an awaited word. tries: the number of this pause."""
    heed_signals()
    if tries < MAX_YIELDS:
        yield_core()
    else:
        nap(NAP_US)


@kernel
def _delay(op: Meeting) -> None:
    """Sleep for a random time, at some meetings, if a test wants it."""
    if op.delays == 0:
        return
    drawn = op.delays * DELAY_FACTOR + 1
    op.delays = drawn | 1
    if (drawn >> 40) & 3 == 0:
        nap((drawn >> 45) & (MAX_DELAY_US - 1))
