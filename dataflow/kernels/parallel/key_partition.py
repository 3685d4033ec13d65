"""Dealing keys to workers, and numbering those that a worker owns.

Keys of a wide range are dealt in blocks of neighbours, which share the cache lines of what is indexed by key. Of every
WORKERS blocks in a row, which are a group, each worker has one; which one changes from group to group by
multiplication with the golden ratio, so that no stride of keys falls to one worker. So the place of a key among those
of its worker is known without a table, and what is indexed by it takes 1/WORKERS of the memory.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.memory import inline, kernel, load, store

BLOCK, WIDE = 4, 1 << 14
"""Blocks have 2**BLOCK keys; ranges from WIDE up are dealt in blocks."""

PRECISION, MOST_WORKERS, MOST_KEYS = 34, 64, 1 << 32
"""A block is divided by the number of workers as a multiplication with their reciprocal, which is exact so far."""

SIZE, KEYS, RESULT, LOWEST, WORKERS, RECIPROCAL, WORKER = range(1, 8)
"""COMPACT, EXPAND: KEYS, RESULT, WORKER are cells."""

GOLDEN = -7046029254386353131


def reciprocal(workers: int) -> int:
    return -(-(1 << PRECISION) // workers)


@inline
def scaled(mixed: int, workers: int) -> int:
    """Take the upper bits of a product as a number below `workers`."""
    return ((mixed >> 33) & 0x7FFFFFFF) * workers >> 31


@inline
def owner_of(key: int, low: int, workers: int, inverse: int) -> int:
    block = (key - low) >> BLOCK
    group = block * inverse >> PRECISION
    owner = block - group * workers + scaled(group * GOLDEN, workers)
    return owner - workers if owner >= workers else owner


@kernel
def compact(op: int) -> int:
    """Keys, all of which one worker owns -> their places among all that it owns."""
    size, keys, result = load(load(op, SIZE), 0), load(load(op, KEYS), 0), load(load(op, RESULT), 0)
    low, inverse = load(op, LOWEST), load(op, RECIPROCAL)
    for at in range(size):
        offset = load(keys, at) - low
        group = (offset >> BLOCK) * inverse >> PRECISION
        store(result, at, group << BLOCK | offset & ((1 << BLOCK) - 1))
    return 0


@kernel
def expand(op: int) -> int:
    """Undo `compact`."""
    size, places, result = load(load(op, SIZE), 0), load(load(op, KEYS), 0), load(load(op, RESULT), 0)
    low, workers, worker = load(op, LOWEST), load(op, WORKERS), load(load(op, WORKER), 0)
    for at in range(size):
        store(result, at, key_at(load(places, at), low, workers, worker))
    return 0


@kernel
def key_at(place: int, low: int, workers: int, worker: int) -> int:
    group = place >> BLOCK
    turn = worker - scaled(group * GOLDEN, workers)
    turn = turn + workers if turn < 0 else turn
    return low + ((group * workers + turn) << BLOCK | place & ((1 << BLOCK) - 1))
