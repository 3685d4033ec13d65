"""Bucket: the number of the bucket of each row, by a hash of some of its columns."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array, Arrays, SizedOperator, Vector, Vectors
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.hashing.hash_set import MAX_HASH
from deltamark.dataflow.kernels.hashing.mixing import mix


class BucketBlock(SizedOperator):
    """A vector of numbers of buckets, which count from 0."""

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
    """Compute the hash of each row."""
    for at in range(size):
        hashes[at] = 0
    for column in range(count):
        source = columns[column]
        for at in range(size):
            hashes[at] = mix(hashes[at], source[at])
    for at in range(size):
        hashes[at] &= MAX_HASH


BUCKETS = step(bucket)
