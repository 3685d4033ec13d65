"""The partition of keys over workers, and the places of keys among those of one worker.

Keys of a wide range are partitioned in blocks of neighbours, which share the cache lines of arrays that are indexed by
key. A group has one block for each worker; the block that a worker owns depends on the group, through
a multiplication with the golden ratio, so that no stride of keys falls to one worker. So the place of a key among those
of its worker is known without a table, and an array indexed by places takes 1/workers of the memory.
"""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Cell, Operator, Vector
from deltamark.dataflow.kernels.core.dispatcher import inline, kernel
from deltamark.dataflow.kernels.core.intrinsics import CHUNK
from deltamark.dataflow.kernels.core.steps import step

BLOCK_BITS, MIN_RANGE = 10, 1 << 14
"""Blocks have 2**BLOCK_BITS keys; ranges of at least MIN_RANGE keys are partitioned in blocks. Rows that arrive by key
stay together in blocks, but large blocks do not divide a slice evenly: 2**11 keys take up to 1.1 times as long."""

LOW_HALF = (1 << 32) - 1
GOLDEN_HALF = 0x9E3779B1
"""The golden ratio as a fraction of 2**32: a product of two halves is computed for several keys at once."""

PRECISION_BITS, MAX_WORKERS, MAX_KEYS = 34, 64, 1 << 32
"""A block is divided by the number of workers as a multiplication with their reciprocal, which is exact up to this."""


class CompactBlock(Operator):
    """Replaces the keys of one worker by their places."""

    size: Cell
    keys: Vector
    low: int
    reciprocal: int
    result: Vector


class ExpandBlock(Operator):
    """Replaces places by the keys of a worker."""

    size: Cell
    places: Vector
    low: int
    workers: int
    worker: Cell
    result: Vector


def reciprocal(workers: int) -> int:
    """Return the number that a block is multiplied with to be divided by the number of workers."""
    return -(-(1 << PRECISION_BITS) // workers)


@inline
def scaled(mixed: int, workers: int) -> int:
    """Map the upper bits of a product to a number below `workers`."""
    return ((mixed >> 33) & 0x7FFFFFFF) * workers >> 31


@inline
def turn_of(group: int, workers: int) -> int:
    """Return by how many places the blocks of a group are rotated: a number below `workers`."""
    return ((group & LOW_HALF) * GOLDEN_HALF & LOW_HALF) * workers >> 32


@inline
def owner_of(key: int, low: int, workers: int, inverse: int) -> int:
    """Return the worker that owns a key."""
    return owner_of_block((key - low) >> BLOCK_BITS, workers, inverse)


@inline
def owner_of_block(block: int, workers: int, inverse: int) -> int:
    """Return the worker that owns a block."""
    group = block * inverse >> PRECISION_BITS
    owner = block - group * workers + turn_of(group, workers)
    return owner - workers if owner >= workers else owner


@kernel
def compact(op: CompactBlock) -> None:
    """Replace keys by places: those of a chunk at once if they lie in one block."""
    keys, low, inverse, result, size = op.keys, op.low, op.reciprocal, op.result, op.size
    for chunk in range(0, size, CHUNK):
        end = min(chunk + CHUNK, size)
        block = common_block(keys, low, chunk, end)
        if block >= 0:
            behind = ((block * inverse >> PRECISION_BITS) - block << BLOCK_BITS) - low
            for at in range(chunk, end):
                result[at] = keys[at] + behind
            continue
        for at in range(chunk, end):
            offset = keys[at] - low
            group = (offset >> BLOCK_BITS) * inverse >> PRECISION_BITS
            result[at] = group << BLOCK_BITS | offset & ((1 << BLOCK_BITS) - 1)


@inline
def common_block(keys: Array, low: int, start: int, stop: int) -> int:
    """Return the block of a range of rows if their keys lie in one, or -1. Rows that arrive by key often do."""
    first = keys[start] - low
    different = (keys[stop - 1] - low) ^ first
    if different >> BLOCK_BITS != 0:
        return -1
    for at in range(start, stop):
        different |= (keys[at] - low) ^ first
    return first >> BLOCK_BITS if different >> BLOCK_BITS == 0 else -1


@kernel
def expand(op: ExpandBlock) -> None:
    """Replace places by keys."""
    places, low, workers, worker, result = op.places, op.low, op.workers, op.worker, op.result
    for at in range(op.size):
        result[at] = key_at(places[at], low, workers, worker)


@kernel
def key_at(place: int, low: int, workers: int, worker: int) -> int:
    """Return the key of a worker's place."""
    group = place >> BLOCK_BITS
    turn = worker - turn_of(group, workers)
    turn = turn + workers if turn < 0 else turn
    return low + ((group * workers + turn) << BLOCK_BITS | place & ((1 << BLOCK_BITS) - 1))


COMPACT, EXPAND = step(compact), step(expand)
