"""Net changes: the sum of all changes of an edge, from which the state of a shard can be rebuilt.

The state of every operator is a function of the sums of its inputs, whatever the order and the times of their changes.
So the log of a batch has, for each edge, rows with weights and without times. If an aggregate only sums the rows of an
edge by key, the log has one row per key: the weight, and for each summed column the exact sum of weight times value, as
a low part of LOW_BITS bits and a high part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamark.dataflow.batch import Batch, Column, trusted
from deltamark.dataflow.spark.planning.staged_plan import SUM, Edge, fed_width
from deltamark.dataflow.spark.wire import owners_of
from deltamark.dataflow.types import Field, nullable_texts
from deltamark.errors import DeltamarkError

WEIGHT, LOW_SUFFIX, HIGH_SUFFIX = "weight", " low", " high"
"""Columns of a table: the weight, the number of each key column, and the number of each sum with both suffixes."""

LOW_BITS = 32
LOW_MASK = (1 << LOW_BITS) - 1

MAX_FAST_WEIGHT = 1 << 30
"""A weight below this limit can be multiplied by either part of a value in 64 bits."""

MAX_PIECE_BYTES = 1 << 23
"""The size of a piece of net changes that is sent to another number of shards. Not measured."""

NUMBERS = ("int", "date", "code")
"""The kinds of columns whose values have bounds."""

NetChanges = Mapping[str, pa.Table]
"""The net changes of each edge."""


def net_changes(edges: Mapping[str, Edge], batches: Mapping[str, Batch]) -> NetChanges:
    """Sum up the changes on each edge."""
    return {name: _net_table(edges[name], batch) for name, batch in batches.items()}


def consolidated(edge: Edge, table: pa.Table) -> pa.Table:
    """Add up equal rows, and remove rows whose weight and sums are zero."""
    if not table.num_rows or not may_shrink(edge, table):
        return table
    keys = [str(number) for number, field in enumerate(edge.fields) if not _is_sum(edge, field)]
    added = [name for name in table.column_names if name not in keys]
    grouped = table.group_by(keys).aggregate([(name, "sum") for name in added]).rename_columns([*keys, *added])
    columns = {name: grouped[name] for name in grouped.column_names}
    is_kept = pc.not_equal(columns[WEIGHT], 0)
    for number in [name.removesuffix(LOW_SUFFIX) for name in added if name.endswith(LOW_SUFFIX)]:
        low, high = columns[number + LOW_SUFFIX].to_numpy(), columns[number + HIGH_SUFFIX].to_numpy()
        low, high = low & LOW_MASK, high + (low >> LOW_BITS)
        columns |= {number + LOW_SUFFIX: pa.chunked_array([low]), number + HIGH_SUFFIX: pa.chunked_array([high])}
        is_kept = pc.or_(is_kept, pa.chunked_array([(low != 0) | (high != 0)]))
    return pa.table({name: columns[name] for name in table.column_names}).filter(is_kept)


def may_shrink(edge: Edge, table: pa.Table) -> bool:
    """Return whether rows may cancel, or add up by key, when net changes are consolidated with others."""
    return edge.is_summed or bool(pc.any(pc.less(table[WEIGHT], 0)).as_py())


def key_range(edge: Edge, table: pa.Table) -> tuple[int, int]:
    """Return the least and the largest number in the key column with the widest bounds; zeros if no key is a number."""
    keys = {number: each.type for number, each in enumerate(edge.fields) if not _is_sum(edge, each)}
    numbers = [number for number, type_ in keys.items() if type_.kind in NUMBERS]
    if not numbers or not table.num_rows:
        return 0, 0
    widest = max(numbers, key=lambda number: keys[number].high - keys[number].low)
    bounds = pc.min_max(table[str(widest)]).as_py()
    return bounds["min"], bounds["max"]


def replay(edges: Mapping[str, Edge], net: NetChanges, time: int) -> dict[str, Batch]:
    """Return changes, all at one time, whose sums are the net changes."""
    return {name: _changes(edges[name], table, time) for name, table in net.items() if table.num_rows}


def dealt(edge: Edge, table: pa.Table, shards: int) -> Iterator[tuple[int, pa.Table]]:
    """Divide net changes that stage 0 has sent among the shards at the end of their edge, in pieces of a small size.

    Rows of which every shard has a copy go to all shards.
    """
    for shard, rows in _divided(edge, table, shards):
        pieces = ceil(rows.nbytes / MAX_PIECE_BYTES)
        size = ceil(rows.num_rows / pieces) if pieces else 0
        for piece in range(pieces):
            yield shard, rows.slice(piece * size, size)


def _divided(edge: Edge, table: pa.Table, shards: int) -> Iterator[tuple[int, pa.Table]]:
    if edge.to != "owner":
        for shard in range(shards if edge.to == "all" else 1):
            yield shard, table
        return
    owners = owners_of([_key(edge, table, name) for name in edge.by], table.num_rows, shards)
    rows = table.take(pa.array(np.argsort(owners, kind="stable")))
    ends = np.cumsum(np.bincount(owners, minlength=shards))
    for shard, (first, last) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        yield shard, rows.slice(first, last - first)


def _key(edge: Edge, table: pa.Table, name: str) -> Column:
    """Return a column that partitions an edge. Rows that are only summed are never partitioned by a sum."""
    numbers = {field.name: number for number, field in enumerate(edge.fields) if not _is_sum(edge, field)}
    values = table[str(numbers[name])]
    return values.combine_chunks() if pa.types.is_string(values.type) else values.to_numpy()


def to_bytes(table: pa.Table) -> bytes:
    """Write a table for the log, compressed: a copy to the state store takes longer than compression."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()


def _is_sum(edge: Edge, field: Field) -> bool:
    return edge.is_summed and field.name.startswith(SUM)


def _net_table(edge: Edge, batch: Batch) -> pa.Table:
    if edge.is_summed and (np.abs(batch.diff) >= MAX_FAST_WEIGHT).any():
        batch = _with_equal_rows_added(batch)
    columns: dict[str, Column] = {WEIGHT: batch.diff}
    for number, field in enumerate(edge.fields):
        values = batch.columns[field.name]
        if _is_sum(edge, field):
            low, high = _products(np.asarray(values, dtype=np.int64), batch.diff)
            columns |= {f"{number}{LOW_SUFFIX}": low, f"{number}{HIGH_SUFFIX}": high}
        else:
            columns[str(number)] = values
    return consolidated(edge, pa.table({name: pa.array(values) for name, values in columns.items()}))


def _with_equal_rows_added(batch: Batch) -> Batch:
    """Add up the weights of equal rows first, as weights that cancel may be too large to be multiplied by a value."""
    names = [*batch.columns]
    table = pa.table({WEIGHT: pa.array(batch.diff), **{name: pa.array(batch.columns[name]) for name in names}})
    if names:
        table = table.group_by(names).aggregate([(WEIGHT, "sum")]).rename_columns([*names, WEIGHT])
    arrays = {name: table[name].combine_chunks() for name in names}
    columns = {
        name: array if isinstance(batch.columns[name], pa.Array) else array.to_numpy() for name, array in arrays.items()
    }
    weights = table[WEIGHT].to_numpy()
    return Batch(np.zeros(len(weights), np.int64), weights, columns)


def _products(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Multiply values by weights exactly; return the low and the high parts of the products."""
    low = (values & LOW_MASK) * weights
    high, low = (values >> LOW_BITS) * weights + (low >> LOW_BITS), low & LOW_MASK
    for row in np.flatnonzero((weights >= MAX_FAST_WEIGHT) | (weights <= -MAX_FAST_WEIGHT)):
        exact = int(values[row]) * int(weights[row])
        if not -(1 << 63) <= exact >> LOW_BITS < 1 << 63:
            raise DeltamarkError("a sum needs more than 64 bits", exact, "narrow the bounds of the summed column")
        low[row], high[row] = exact & LOW_MASK, exact >> LOW_BITS
    return low, high


def _changes(edge: Edge, table: pa.Table, time: int) -> Batch:
    """Return changes that add up to net changes.

    A sum cannot be fed as such, because rows carry values. So a row of an edge with sums becomes three: the low parts
    with weight 1, the high parts with weight 2**LOW_BITS, and zeros with the rest of the weight.
    """
    weights = np.ascontiguousarray(table[WEIGHT].to_numpy())
    has_sums = any(_is_sum(edge, field) for field in edge.fields)
    copies = 3 if has_sums else 1
    if has_sums:
        ones = np.ones_like(weights)
        weights = np.concatenate([ones, ones << LOW_BITS, weights - 1 - (1 << LOW_BITS)])
    columns: dict[str, Column] = {}
    for number, field in enumerate(edge.fields):
        if _is_sum(edge, field):
            low, high = (table[f"{number}{suffix}"].to_numpy() for suffix in (LOW_SUFFIX, HIGH_SUFFIX))
            columns[field.name] = np.concatenate([low, high, np.zeros_like(low)])
        else:
            columns[field.name] = _repeated(table[str(number)], field, copies)
    return trusted(np.full(len(weights), time), weights, columns, nullable=nullable_texts(edge.fields))


def _repeated(column: pa.ChunkedArray, field: Field, copies: int) -> Column:
    parts = column.chunks * copies
    if field.type.kind == "text":
        return pa.concat_arrays(parts)
    return np.concatenate([part.to_numpy() for part in parts]).astype(f"i{fed_width(field)}", copy=False)
