"""What a shard has been given, as far as its state depends on it: enough to make that state again.

Every operator's state is a function of what its inputs sum up to, whatever the order and the times in which it came.
So the log of a batch is the sum of each edge: rows and their weights, without times. Where rows are only summed by a
key, it is one row a key: their number, and the sums as two numbers each, which are exact however large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamark.dataflow.batch import Batch, Column, trusted
from deltamark.dataflow.spark.planning.edges import SUM, Edge
from deltamark.dataflow.types import TEXT, Field, nullable_texts
from deltamark.errors import DeltamarkError

WEIGHT, LOW_BITS = "weight", 32
MOST_LIGHT = 1 << 30
"""A weight below this times so many bits, or their rest, fits in 64 bits."""

Net = Mapping[str, pa.Table]
"""What came, edge by edge."""


def net(edges: Mapping[str, Edge], batches: Mapping[str, Batch]) -> Net:
    """Sum up what came."""
    return {name: _net(edges[name], batch) for name, batch in batches.items()}


def summed(edge: Edge, table: pa.Table) -> pa.Table:
    """Add up equal rows, and leave out what is nothing."""
    if not table.num_rows or not shrinks(edge, table):
        return table
    keys = [str(number) for number, each in enumerate(edge.fields) if not _is_sum(edge, each)]
    added = [name for name in table.column_names if name not in keys]
    found = table.group_by(keys).aggregate([(name, "sum") for name in added]).rename_columns([*keys, *added])
    columns = {name: found[name] for name in found.column_names}
    there = pc.not_equal(columns[WEIGHT], 0)
    for name in [each.removesuffix(" low") for each in added if each.endswith(" low")]:
        low, high = columns[f"{name} low"].to_numpy(), columns[f"{name} high"].to_numpy()
        low, high = low & ((1 << LOW_BITS) - 1), high + (low >> LOW_BITS)
        columns[f"{name} low"], columns[f"{name} high"] = pa.chunked_array([low]), pa.chunked_array([high])
        there = pc.or_(there, pa.chunked_array([(low != 0) | (high != 0)]))
    return pa.table({name: columns[name] for name in table.column_names}).filter(there)


def shrinks(edge: Edge, table: pa.Table) -> bool:
    """May it become less when it is summed up with others: does anything leave, or add up by a key?"""
    return edge.summed or _leaves(table)


def replayed(edges: Mapping[str, Edge], what: Net, time: int) -> dict[str, Batch]:
    """Return changes that make the state of what came, all at one time."""
    found = {name: _replayed(edges[name], table, time) for name, table in what.items() if table.num_rows}
    return {name: batch for name, batch in found.items() if batch is not None}


def to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()


def _net(edge: Edge, batch: Batch) -> pa.Table:
    if edge.summed and (np.abs(batch.diff) >= MOST_LIGHT).any():
        batch = _consolidated(batch)
    weight = batch.diff
    columns: dict[str, Any] = {WEIGHT: weight}
    for number, each in enumerate(edge.fields):
        values = batch.columns[each.name]
        if not _is_sum(edge, each):
            columns[str(number)] = values
            continue
        columns[f"{number} low"], columns[f"{number} high"] = _products(np.asarray(values, dtype=np.int64), weight)
    return summed(edge, pa.table({name: pa.array(values) for name, values in columns.items()}))


def _consolidated(batch: Batch) -> Batch:
    """Add up the weights of equal rows: what cancels may be too large to be multiplied."""
    names = [*batch.columns]
    table = pa.table({WEIGHT: pa.array(batch.diff), **{name: pa.array(batch.columns[name]) for name in names}})
    found = table.group_by(names).aggregate([(WEIGHT, "sum")]) if names else table
    columns = {name: found[name].combine_chunks() for name in names}
    numbers = {
        name: each if isinstance(batch.columns[name], pa.Array) else each.to_numpy() for name, each in columns.items()
    }
    weight = found[f"{WEIGHT}_sum" if names else WEIGHT].to_numpy()
    return Batch(np.zeros(len(weight), np.int64), weight, numbers)


def _products(values: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Multiply values by weights exactly; return the low bits, and how many times 2**LOW_BITS there are besides."""
    mask = (1 << LOW_BITS) - 1
    low = (values & mask) * weight
    high, low = (values >> LOW_BITS) * weight + (low >> LOW_BITS), low & mask
    for at in np.flatnonzero((weight >= MOST_LIGHT) | (weight <= -MOST_LIGHT)):
        exact = int(values[at]) * int(weight[at])
        if not -(1 << 63) <= exact >> LOW_BITS < 1 << 63:
            raise DeltamarkError("a sum needs more than 64 bits", exact, "narrow the bounds of what is summed")
        low[at], high[at] = exact & mask, exact >> LOW_BITS
    return low, high


def _leaves(table: pa.Table) -> bool:
    return bool(pc.any(pc.less(table[WEIGHT], 0)).as_py())


def _is_sum(edge: Edge, each: Field) -> bool:
    return edge.summed and each.name.startswith(SUM)


def _replayed(edge: Edge, table: pa.Table, time: int) -> Batch | None:
    """Of sums, hand out rows that have them: the low parts once, the high parts 2**32 times, and zeros for the rest."""
    weight = table[WEIGHT].to_numpy()
    sums = [number for number, each in enumerate(edge.fields) if _is_sum(edge, each)]
    copies = 3 if sums else 1
    rows = len(weight)
    columns: dict[str, Column] = {}
    for number, each in enumerate(edge.fields):
        if number in sums:
            low, high = (table[f"{number} {part}"].to_numpy() for part in ("low", "high"))
            columns[each.name] = np.concatenate([low, high, np.zeros(rows, dtype=np.int64)])
        else:
            columns[each.name] = _repeated(table[str(number)], each, copies)
    if not sums:
        diff = np.ascontiguousarray(weight)
    else:
        ones = np.ones(rows, dtype=np.int64)
        diff = np.concatenate([ones, ones << LOW_BITS, weight - 1 - (1 << LOW_BITS)])
    return trusted(np.full(copies * rows, time), diff, columns, nullable=nullable_texts(edge.fields))


def _repeated(column: pa.ChunkedArray, field: Field, copies: int) -> Column:
    parts: Sequence[pa.Array] = column.chunks * copies
    if field.type.kind == TEXT.kind:
        return pa.concat_arrays(parts)
    return np.concatenate([part.to_numpy() for part in parts]).astype(f"i{field.type.width}", copy=False)
