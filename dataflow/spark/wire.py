"""The wire format of changes between shards: Arrow batches as bytes, addressed to the shards that own the rows.

A column travels in the least number of bytes per row that its bounds allow, times as differences from the first time of
the batch, and weights only if one of them is not 1. A text travels as its bytes, because each shard numbers texts anew.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from deltamark.dataflow.batch import Batch, Column, merged, trusted
from deltamark.dataflow.spark.messages import Message
from deltamark.dataflow.spark.planning.staged_plan import Edge, fed_width
from deltamark.dataflow.types import Field, Type, narrowest, nullable_texts

TIME, DIFF, FIRST_TIME = "time", "diff", b"since"

HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""2**64 divided by the golden ratio: Fibonacci hashing spreads consecutive keys evenly over the shards."""

RUN_BITS = 4
"""Runs of 2**RUN_BITS consecutive numeric keys have one owner, because they share cache lines of its indexes."""


def messages_for(edge: Edge, changes: Batch, *, shards: int, sender: int = 0) -> Iterator[Message]:
    """Yield the messages that carry non-empty changes from the sender to the shards at the end of an edge."""
    if edge.to == "owner":
        for shard, part in _by_owner(edge, changes, shards):
            yield Message(shard, edge.name, _pack(edge.fields, part))
        return
    here = range(sender, sender + 1)
    receivers = {"first": range(1), "all": range(shards), "here": here, "sink": here}[edge.to]
    content = _pack(edge.fields, changes)
    for shard in receivers:
        yield Message(shard, edge.name, content)


def unpack(fields: Sequence[Field], contents: Sequence[bytes]) -> Batch | None:
    """Read the changes of several messages, merged by time; return None if there are no messages."""
    if not contents:
        return None
    batch = merged([_read(fields, content) for content in contents])
    return trusted(batch.time, batch.diff, batch.columns, nullable=nullable_texts(fields))


def _pack(fields: Sequence[Field], batch: Batch) -> bytes:
    first = int(batch.time[0])
    arrays = {TIME: _narrowed(batch.time - first)}
    if (batch.diff != 1).any():
        arrays[DIFF] = _narrowed(batch.diff)
    for number, field in enumerate(fields):
        values = batch.columns[field.name]
        is_text = isinstance(values, pa.Array)
        arrays[str(number)] = values if is_text else values.astype(_wire_type(field.type), copy=False)
    rows = pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in arrays.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema.with_metadata({FIRST_TIME: str(first).encode()})) as writer:
        writer.write_batch(rows)
    return bytes(sink.getvalue())


def _read(fields: Sequence[Field], content: bytes) -> Batch:
    reader = pa.ipc.open_stream(content)
    rows, first = reader.read_next_batch(), int(reader.schema.metadata[FIRST_TIME])
    columns = {field.name: _column(rows.column(str(number)), field) for number, field in enumerate(fields)}
    has_weights = DIFF in rows.schema.names
    diff = rows.column(DIFF).to_numpy().astype(np.int64) if has_weights else np.ones(rows.num_rows, dtype=np.int64)
    return Batch(rows.column(TIME).to_numpy().astype(np.int64) + first, diff, columns)


def _column(values: pa.Array, field: Field) -> Column:
    return values if field.type.kind == "text" else values.to_numpy().astype(f"i{fed_width(field)}", copy=False)


def _wire_type(type_: Type) -> np.dtype:
    return np.dtype(f"i{8 if type_.nullable else narrowest(type_.low, type_.high)}")


def _narrowed(values: np.ndarray) -> np.ndarray:
    return values.astype(f"i{narrowest(int(values.min()), int(values.max()))}", copy=False)


def _by_owner(edge: Edge, batch: Batch, shards: int) -> Iterator[tuple[int, Batch]]:
    """Yield each shard that owns rows of a batch, with those rows in their order."""
    if shards == 1:
        yield 0, batch
        return
    owners = owners_of([batch.columns[name] for name in edge.by], len(batch.time), shards)
    order = np.argsort(owners, kind="stable")
    ends = np.cumsum(np.bincount(owners, minlength=shards))
    for shard, (first, last) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        if first < last:
            rows = order[first:last]
            columns = {name: values.take(rows) for name, values in batch.columns.items()}
            yield shard, Batch(batch.time[rows], batch.diff[rows], columns)


def owners_of(keys: Sequence[Column], rows: int, shards: int) -> np.ndarray:
    """Hash the columns that partition some rows; return the shard that owns each row."""
    hashes = np.zeros(rows, dtype=np.uint64)
    for values in keys:
        numbers = _text_hashes(values) if isinstance(values, pa.Array) else values.astype(np.int64).view(np.uint64)
        hashes = (hashes ^ (numbers >> np.uint64(RUN_BITS if len(keys) == 1 else 0))) * HASH_FACTOR
        hashes ^= hashes >> np.uint64(32)
    return ((hashes >> np.uint64(33)) * np.uint64(shards) >> np.uint64(31)).astype(np.uint16)


def _text_hashes(texts: pa.Array) -> np.ndarray:
    """Hash each different text once; NULL hashes to 0."""
    encoded = texts.dictionary_encode()
    hashes = [zlib.crc32(text.encode()) << RUN_BITS for text in encoded.dictionary.to_pylist()]
    return np.array([*hashes, 0], dtype=np.uint64)[encoded.indices.fill_null(len(hashes)).to_numpy()]
