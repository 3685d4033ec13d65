"""Dealing: each worker selects the rows that it owns from rows that all workers have, so that nothing moves."""

from __future__ import annotations

from deltamark.dataflow.kernels.core.blocks import Array32, Cell, SizedOperator, Vector, Vectors
from deltamark.dataflow.kernels.core.dispatcher import kernel
from deltamark.dataflow.kernels.core.intrinsics import CHUNK, prefetch_ahead
from deltamark.dataflow.kernels.core.steps import step
from deltamark.dataflow.kernels.parallel.exchange import hash_owners
from deltamark.dataflow.kernels.parallel.key_partition import owner_of


class DealBlock(SizedOperator):
    """Selects the rows that this worker owns."""

    keys: int
    """The number of key columns by which rows are partitioned; 0 if the first worker owns all rows."""
    key_columns: Vectors
    width: int
    """Bytes of a value of the only key column: 8 or 4."""
    low: int
    reciprocal: int
    """Not 0 if the keys from `low` up are partitioned in blocks: see `key_partition`."""
    worker: Cell
    workers: int
    owners: Vector
    """Scratch."""
    out: Vector
    out_size: Cell


@kernel
def deal(op: DealBlock) -> None:
    """Select the rows whose owner is this worker, by loops without branches that process several rows at once."""
    size, worker, workers, out, kept = op.size, op.worker, op.workers, op.out, 0
    inverse, low, values = op.reciprocal, op.low, op.key_columns[0]
    narrow = Array32(values)
    if op.keys == 0:
        kept = size if worker == 0 else 0
        for at in range(kept):
            out[at] = at
    elif inverse == 0:
        hash_owners(op.key_columns, op.keys, workers, op.owners, size)
        owners = op.owners
        for at in range(size):
            out[kept] = at
            kept += owners[at] == worker
    else:
        owners = op.owners
        if op.width == 8:
            for chunk in range(0, size, CHUNK):
                prefetch_ahead(values[chunk:].address, 8)
                for at in range(chunk, min(chunk + CHUNK, size)):
                    owners[at] = owner_of(values[at], low, workers, inverse)
        else:
            for chunk in range(0, size, CHUNK):
                prefetch_ahead(narrow[chunk:].address, 4)
                for at in range(chunk, min(chunk + CHUNK, size)):
                    owners[at] = owner_of(narrow[at], low, workers, inverse)
        for at in range(size):
            out[kept] = at
            kept += owners[at] == worker
    op.out_size = kept


DEAL = step(deal, idle=("size", "out_size"))
