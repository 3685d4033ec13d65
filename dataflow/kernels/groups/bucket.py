"""Bucket: the number of the bucket of each row, by a hash of some of its columns."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Arrays, Cell, Operator, Vector, Vectors
from deltamark.dataflow.kernels.core.intrinsics import kernel


class BucketBlock(Operator):
    """A vector of numbers of buckets, which count from 0."""

    size: Cell
    columns: int
    inputs: Vectors
    slice_columns: Arrays
    """Scratch: the arrays of `inputs` during a slice."""
    buckets: int
    """The number of buckets."""
    out: Vector


@kernel
def bucket(op: BucketBlock) -> None:
    """Compute the buckets of the rows of the slice."""
    size, out, buckets, columns = op.size, op.out, op.buckets, op.slice_columns
    for column in range(op.columns):
        columns[column] = op.inputs[column]
    hash_columns(size, op.columns, columns, out)
    for at in range(size):
        out[at] = out[at] * buckets >> 31


@kernel
def hash_columns(size: int, count: int, columns: Arrays, hashes: Array) -> None:
    """Hash rows to 31 bits."""
    for at in range(size):
        hashes[at] = 0
    for column in range(count):
        source = columns[column]
        for at in range(size):
            mixed = (hashes[at] ^ source[at]) * -7046029254386353131
            hashes[at] = mixed ^ (mixed >> 32)
    for at in range(size):
        hashes[at] &= 0x7FFFFFFF
