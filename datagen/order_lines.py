"""Where each order's lines lie: the position in lineitem of every order's first line.

An order's lines are consecutive and the orders come in file order; both are checked here, because the workloads
that retract orders rest on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from deltamark.datagen.manifest import ORDER_LINES, Chunk, RelationFiles
from deltamark.datagen.prebatch import write_arrow
from deltamark.datagen.schema import ORDER_LINES_SCHEMA, RelationName
from deltamark.errors import DeltamarkError


def write_order_lines(into: Path, relations: dict[RelationName, RelationFiles], chunk_rows: int) -> tuple[Chunk, ...]:
    """Write first[0..orders], with first[orders] the number of lines, in chunks as a relation's."""
    (into / ORDER_LINES).mkdir()
    chunks: list[Chunk] = []
    pending = np.empty(0, dtype=np.int64)
    for more in _first_lines(into, relations):
        pending = np.concatenate([pending, more])
        while len(pending) >= chunk_rows:
            chunks.append(_write(into, len(chunks), pending[:chunk_rows]))
            pending = pending[chunk_rows:]
    if len(pending):
        chunks.append(_write(into, len(chunks), pending))
    return tuple(chunks)


def _write(into: Path, number: int, first: np.ndarray) -> Chunk:
    batch = pa.RecordBatch.from_arrays([pa.array(first)], schema=ORDER_LINES_SCHEMA)
    return write_arrow(into, f"{ORDER_LINES}/{number:05}.arrow", batch)


def _first_lines(into: Path, relations: dict[RelationName, RelationFiles]) -> Iterator[np.ndarray]:
    """Yield the positions at which the order key of lineitem changes, one lineitem file at a time, then the end."""
    orders = _OrderKeys(into, relations["orders"].chunks)
    position, previous = 0, None
    for chunk in relations["lineitem"].chunks:
        keys = _order_keys(into, chunk)
        starts = np.flatnonzero(np.concatenate([[previous is None or keys[0] != previous], keys[1:] != keys[:-1]]))
        orders.expect(keys[starts])
        yield position + starts
        position, previous = position + len(keys), keys[-1]
    orders.expect_end()
    yield np.array([position])


class _OrderKeys:
    """The order keys of the relation orders in file order, taken a piece at a time."""

    def __init__(self, into: Path, chunks: tuple[Chunk, ...]) -> None:
        self._more = (_order_keys(into, chunk) for chunk in chunks)
        self._keys = np.empty(0, dtype=np.int64)

    def expect(self, keys: np.ndarray) -> None:
        while len(self._keys) < len(keys) and (more := next(self._more, None)) is not None:
            self._keys = np.concatenate([self._keys, more])
        mine, self._keys = self._keys[: len(keys)], self._keys[len(keys) :]
        if not np.array_equal(mine, keys):
            raise _disorder("the lines are not those of the orders, in their order")

    def expect_end(self) -> None:
        if len(self._keys) or next(self._more, None) is not None:
            raise _disorder("there are orders without lines")


def _disorder(actual: str) -> DeltamarkError:
    return DeltamarkError("orders and lineitem do not belong together", actual, "the generator is not the pinned one")


def _order_keys(into: Path, chunk: Chunk) -> np.ndarray:
    batch = pa.ipc.open_file(pa.memory_map(str(into / chunk.file))).get_batch(0)
    return batch.column("orderkey").to_numpy()
