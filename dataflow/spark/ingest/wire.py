"""Changes on their way between shards: Arrow batches as bytes, and the deal of rows to the shards that own them.

A number travels in as few bytes as its bounds allow, a time as what has passed since the first in its batch, a weight
only where not all are 1. A text travels as its bytes: its number is another at every shard.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from deltamark.dataflow.batch import Batch, Column, merged, trusted
from deltamark.dataflow.spark.planning.edges import Edge
from deltamark.dataflow.types import Field, Type, nullable_texts

TIME, DIFF, SINCE = "time", "diff", b"since"
GOLDEN, NEIGHBOURS = np.uint64(0x9E3779B97F4A7C15), 4
"""Of keys that are one number, 2**NEIGHBOURS in a row go to one shard: they share cache lines of what is indexed."""

WIDTHS = tuple((np.dtype(f"i{width}"), 1 << (8 * width - 1)) for width in (1, 2, 4))


def pack(fields: Sequence[Field], batch: Batch) -> bytes:
    """Write changes."""
    since = int(batch.time[0])
    arrays = {TIME: _narrow(batch.time - since)}
    if (batch.diff != 1).any():
        arrays[DIFF] = _narrow(batch.diff)
    for number, each in enumerate(fields):
        values = batch.columns[each.name]
        arrays[str(number)] = values if isinstance(values, pa.Array) else values.astype(_stored(each.type), copy=False)
    found = pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in arrays.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found.schema.with_metadata({SINCE: str(since).encode()})) as writer:
        writer.write_batch(found)
    return bytes(sink.getvalue())


def unpack(fields: Sequence[Field], messages: Sequence[bytes]) -> Batch | None:
    """Read the changes of several messages, in the order of their times; None if there are no messages."""
    if not messages:
        return None
    batch = merged([_read(fields, each) for each in messages])
    return trusted(batch.time, batch.diff, batch.columns, nullable=nullable_texts(fields))


def deal(edge: Edge, batch: Batch, shards: int) -> Iterator[tuple[int, Batch]]:
    """Yield the rows of each shard that owns some."""
    if shards == 1:
        yield 0, batch
        return
    owners = _owners(edge, batch, shards)
    order = np.argsort(owners, kind="stable")
    ends = np.cumsum(np.bincount(owners, minlength=shards))
    for shard, (first, last) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        if first < last:
            yield shard, taken(batch, order[first:last])


def taken(batch: Batch, rows: np.ndarray) -> Batch:
    return Batch(batch.time[rows], batch.diff[rows], {name: each.take(rows) for name, each in batch.columns.items()})


def _owners(edge: Edge, batch: Batch, shards: int) -> np.ndarray:
    hashed = np.zeros(len(batch.time), dtype=np.uint64)
    for name in edge.by:
        values = batch.columns[name]
        numbers = _text_hashes(values) if isinstance(values, pa.Array) else values.astype(np.int64).view(np.uint64)
        hashed = (hashed ^ (numbers >> np.uint64(NEIGHBOURS if len(edge.by) == 1 else 0))) * GOLDEN
        hashed ^= hashed >> np.uint64(32)
    return ((hashed >> np.uint64(33)) * np.uint64(shards) >> np.uint64(31)).astype(np.uint16)


def _text_hashes(texts: pa.Array) -> np.ndarray:
    coded = texts.dictionary_encode()
    once = [zlib.crc32(text.encode()) << NEIGHBOURS for text in coded.dictionary.to_pylist()]
    return np.array([*once, 0], dtype=np.uint64)[coded.indices.fill_null(len(once)).to_numpy()]


def _narrow(values: np.ndarray) -> np.ndarray:
    low, high = int(values.min()), int(values.max())
    return values.astype(_fitting(low, high), copy=False)


def _fitting(low: int, high: int) -> np.dtype:
    return next((dtype for dtype, end in WIDTHS if -end <= low and high < end), np.dtype(np.int64))


def _stored(type_: Type) -> np.dtype:
    return np.dtype(np.int64) if type_.nullable or type_.kind == "short" else _fitting(type_.low, type_.high)


def _read(fields: Sequence[Field], message: bytes) -> Batch:
    reader = pa.ipc.open_stream(message)
    rows, since = reader.read_next_batch(), int(reader.schema.metadata[SINCE])
    columns = {each.name: _column(rows.column(str(number)), each.type) for number, each in enumerate(fields)}
    return Batch(rows.column(TIME).to_numpy().astype(np.int64) + since, _diffs(rows), columns)


def _diffs(batch: pa.RecordBatch) -> np.ndarray:
    if DIFF not in batch.schema.names:
        return np.ones(batch.num_rows, dtype=np.int64)
    return batch.column(DIFF).to_numpy().astype(np.int64)


def _column(values: pa.Array, type_: Type) -> Column:
    return values if type_.kind == "text" else values.to_numpy().astype(f"i{type_.width}", copy=False)
