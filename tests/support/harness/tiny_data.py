"""Tiny data directories: relations of given sizes in chunks of a few rows, without the generator."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.manifest import Manifest, RelationFiles
from deltamark.datagen.members import write_members
from deltamark.datagen.prebatch import bounds_of, write_arrow
from deltamark.datagen.schema import ARROW_TYPES, SCHEMA_VERSION, Column
from deltamark.datagen.tpch import RELATIONS

WORDS = ["ash", "birch", "cedar"]


def tiny(directory: Path, lines: list[int], others: int, chunk_rows: int = 4) -> Dataset:
    """Make data with len(lines) orders, order i having lines[i] lines, and `others` rows in every other relation."""
    sizes = dict.fromkeys(RELATIONS, others) | {"orders": len(lines), "lineitem": sum(lines)}
    relations = {name: _write(directory, name, _columns(name, sizes[name], lines), chunk_rows) for name in RELATIONS}
    members = write_members(directory, RELATIONS, relations, chunk_rows)
    Manifest(SCHEMA_VERSION, "0.001", "tiny", chunk_rows, RELATIONS, relations, members, {}).write(directory)
    return Dataset.open(directory)


def _columns(name: str, rows: int, lines: list[int]) -> list[pa.Array]:
    arrays = [_values(column, rows) for column in RELATIONS[name].columns]
    if name == "lineitem":
        arrays[0] = pa.array([7 * order for order, count in enumerate(lines) for _ in range(count)], pa.int64())
    if name == "orders":
        arrays[0] = pa.array([7 * order for order in range(rows)], pa.int64())
    return arrays


def _values(column: Column, rows: int) -> pa.Array:
    salt = sum(map(ord, column.name))
    if column.kind == "code":
        codes = pa.array([(salt + row) % len(WORDS) for row in range(rows)], pa.int32())
        return pa.DictionaryArray.from_arrays(codes, pa.array(WORDS), ordered=True)
    if column.kind == "text":
        return pa.array([f"{column.name} {row}" for row in range(rows)], pa.string())
    if column.kind == "date":
        return pa.array([salt + row * row * 5 % 13 for row in range(rows)], pa.int32())
    return pa.array([salt * 1000 + row for row in range(rows)], ARROW_TYPES[column.kind])


def _write(directory: Path, name: str, arrays: list[pa.Array], chunk_rows: int) -> RelationFiles:
    (directory / name).mkdir(parents=True)
    whole = pa.RecordBatch.from_arrays(arrays, schema=RELATIONS[name].arrow_schema)
    starts = range(0, whole.num_rows, chunk_rows)
    batches = [whole.slice(start, chunk_rows) for start in starts]
    chunks = [write_arrow(directory, f"{name}/{number:05}.arrow", batch) for number, batch in enumerate(batches)]
    bounds = {column.name: bounds_of(column, whole.column(column.name)) for column in RELATIONS[name].columns}
    return RelationFiles(tuple(chunks), bounds, dict.fromkeys(RELATIONS[name].codes, len(WORDS)))
