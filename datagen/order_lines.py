"""The position in lineitem of every order's first line.

The lines of an order are consecutive, and the orders come in file order. Both are checked here, because the workloads
that retract orders depend on them.
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
    """Write the positions of all first lines, and last the number of lines, in chunks like those of a relation."""
    (into / ORDER_LINES).mkdir()
    chunks: list[Chunk] = []
    pending = np.empty(0, dtype=np.int64)
    for positions in _first_lines(into, relations):
        pending = np.concatenate([pending, positions])
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
    """Yield the positions at which the order key of lineitem changes, file by file, and then the number of lines."""
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
    """The order keys of the relation orders in file order, read file by file."""

    def __init__(self, into: Path, chunks: tuple[Chunk, ...]) -> None:
        self._files = (_order_keys(into, chunk) for chunk in chunks)
        self._keys = np.empty(0, dtype=np.int64)

    def expect(self, keys: np.ndarray) -> None:
        while len(self._keys) < len(keys) and (keys_of_file := next(self._files, None)) is not None:
            self._keys = np.concatenate([self._keys, keys_of_file])
        expected, self._keys = self._keys[: len(keys)], self._keys[len(keys) :]
        if not np.array_equal(expected, keys):
            raise _disorder("the lines are not those of the orders, in their order")

    def expect_end(self) -> None:
        if len(self._keys) or next(self._files, None) is not None:
            raise _disorder("there are orders without lines")


def _disorder(actual: str) -> DeltamarkError:
    return DeltamarkError("orders and lineitem do not belong together", actual, "the generator is not the pinned one")


def _order_keys(into: Path, chunk: Chunk) -> np.ndarray:
    batch = pa.ipc.open_file(pa.memory_map(str(into / chunk.file))).get_batch(0)
    return batch.column("orderkey").to_numpy()
