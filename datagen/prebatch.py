"""Pre-batching as Spark jobs: Parquet parts are converted to Arrow files of CHUNK_ROWS rows, in file order.

The rows of a chunk follow from the Parquet footers alone, so no shuffle is needed: a task reads the row groups that its
chunk overlaps, column by column, and no row becomes a Python object. The first job collects the distinct values of the
dictionary columns; the second writes the chunks, with one sorted dictionary for each column.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltamark.datagen.manifest import Bounds, Chunk, RelationFiles
from deltamark.datagen.schema import NULL, Column, Relation
from deltamark.datagen.source import Parts
from deltamark.datagen.spark.session import run_tasks
from deltamark.errors import DeltamarkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class ParquetSlice:
    """Consecutive rows of a Parquet file: `rows` rows from row `skip` of the first of the row groups `groups`."""

    path: str
    groups: tuple[int, int]
    skip: int
    rows: int


@dataclass(frozen=True)
class CodesTask:
    """A Parquet file whose distinct values of dictionary columns are to be collected."""

    relation: Relation
    path: Path


@dataclass(frozen=True)
class ChunkTask:
    """A chunk to be written below the directory `into`. codes: the dictionaries of the relation, by column."""

    relation: Relation
    number: int
    slices: Sequence[ParquetSlice]
    codes: dict[str, list[str]]
    into: Path

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.slices)

    @property
    def file(self) -> str:
        return f"{self.relation.name}/{self.number:05}.arrow"


@dataclass(frozen=True)
class WrittenChunk:
    """A chunk of a relation, and the bounds of its columns."""

    relation: str
    chunk: Chunk
    bounds: dict[str, Bounds]


def prebatch(
    spark: SparkSession, parts: Parts, into: Path, chunk_rows: int, report: Callable[[int, int], None]
) -> dict[str, RelationFiles]:
    """Write the chunks of every relation below `into`; report the rows done."""
    relations = parts.relations
    codes = _dictionaries(spark, parts)
    tasks: list[ChunkTask] = []
    for name, paths in parts.files.items():
        (into / name).mkdir(parents=True)
        chunks = enumerate(chunk_slices(paths, chunk_rows))
        tasks += [ChunkTask(relations[name], number, slices, codes[name], into) for number, slices in chunks]
    tasks.sort(key=lambda task: -task.rows * len(task.relation.columns))  # the long ones first
    total = sum(task.rows for task in tasks)

    def poll() -> None:
        report(sum(task.rows for task in tasks if (into / task.file).exists()), total)

    written = run_tasks(spark, write_chunk, tasks, poll)
    report(total, total)
    return {
        name: _gather(relations[name], [each for each in written if each.relation == name], codes[name])
        for name in relations
    }


def chunk_slices(paths: Sequence[Path], chunk_rows: int) -> Iterator[list[ParquetSlice]]:
    """Cut the rows of Parquet files, as one sequence, into chunks by the footers alone."""
    chunk: list[ParquetSlice] = []
    room = chunk_rows
    for path in paths:
        metadata = pq.read_metadata(path)
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        at = 0
        while at < metadata.num_rows:
            rows = min(room, metadata.num_rows - at)
            first = int(np.searchsorted(starts, at, side="right")) - 1
            last = int(np.searchsorted(starts, at + rows, side="left"))
            chunk.append(ParquetSlice(str(path), (first, last), at - int(starts[first]), rows))
            at += rows
            room -= rows
            if room == 0:
                yield chunk
                chunk, room = [], chunk_rows
    if chunk:
        yield chunk
    elif room == chunk_rows and not any(pq.read_metadata(path).num_rows for path in paths):
        yield [ParquetSlice(str(paths[0]), (0, 0), 0, 0)]


def _dictionaries(spark: SparkSession, parts: Parts) -> dict[str, dict[str, list[str]]]:
    relations = parts.relations
    tasks = [
        CodesTask(relations[name], path) for name in relations if relations[name].codes for path in parts.files[name]
    ]
    codes: dict[str, dict[str, set[str]]] = {
        name: {column: set() for column in relations[name].codes} for name in relations
    }
    for task, values in zip(tasks, run_tasks(spark, distinct_codes, tasks), strict=True):
        for column, distinct in values.items():
            codes[task.relation.name][column].update(distinct)
    # sorted() compares code points, which is the order of UTF-8 bytes
    return {name: {column: sorted(values) for column, values in columns.items()} for name, columns in codes.items()}


def distinct_codes(task: CodesTask) -> dict[str, list[str]]:
    """Return the distinct values of each dictionary column of one Parquet file."""
    relation = task.relation
    names = [relation.prefix + column for column in relation.codes]
    file = pq.ParquetFile(task.path, read_dictionary=names)
    codes: dict[str, set[str]] = {column: set() for column in relation.codes}
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=names, use_threads=False)
        for column, name in zip(relation.codes, names, strict=True):
            for piece in table.column(name).chunks:
                codes[column].update(piece.dictionary.to_pylist())
    return {column: list(values) for column, values in codes.items()}


def write_chunk(task: ChunkTask) -> WrittenChunk:
    """Convert one chunk and write its Arrow file."""
    relation = task.relation
    arrays, bounds = [], {}
    for column in relation.columns:
        arrays.append(_stored(column, _read(relation, column, task.slices), task.codes.get(column.name)))
        bounds[column.name] = bounds_of(column, arrays[-1])
    batch = pa.RecordBatch.from_arrays(arrays, schema=relation.arrow_schema)
    return WrittenChunk(relation.name, write_arrow(task.into, task.file, batch), bounds)


def write_arrow(into: Path, name: str, batch: pa.RecordBatch) -> Chunk:
    """Write an Arrow file of one batch, and publish it by a rename."""
    target = into / name
    making = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    with pa.OSFile(str(making), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with making.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    making.replace(target)
    stat = target.stat()
    return Chunk(name, batch.num_rows, stat.st_size, stat.st_mtime_ns, digest)


def _read(relation: Relation, column: Column, slices: Sequence[ParquetSlice]) -> pa.ChunkedArray:
    name = relation.prefix + column.name
    pieces = []
    for part in slices:
        file = pq.ParquetFile(part.path, read_dictionary=[name] if column.kind == "code" else None)
        table = file.read_row_groups(range(*part.groups), columns=[name], use_threads=False)
        pieces += table.column(0).slice(part.skip, part.rows).chunks
    return pa.chunked_array(pieces, table.schema.field(0).type)


def _stored(column: Column, read: pa.ChunkedArray, values: list[str] | None) -> pa.Array:
    if read.null_count and not column.nullable:
        raise DeltamarkError(
            f"NULL in {column.name}, which may have none", read.null_count, "correct the source of the rows"
        )
    match column.kind:
        case "int":
            return _whole(column, read.cast(pa.int64()))
        case "decimal" | "double":
            stored = stored_doubles if column.kind == "double" else partial(_words, column)
            return pa.array(np.concatenate([np.empty(0, np.int64), *map(stored, read.chunks)]))
        case "timestamp":
            return _whole(column, read.cast(pa.timestamp("us")).cast(pa.int64()))
        case "date":
            days = read.cast(pa.date32()).cast(pa.int32())
            return _whole(column, days.cast(pa.int64())) if column.nullable else days.combine_chunks()
        case "code":
            pool = pa.array(values, pa.string())
            indices = np.concatenate([_recoded(piece, pool) for piece in read.chunks])
            return pa.DictionaryArray.from_arrays(pa.array(indices), pool, ordered=True)
        case "text":
            return read.cast(pa.string()).combine_chunks()


def _whole(column: Column, read: pa.ChunkedArray) -> pa.Array:
    if pc.min(read).as_py() == NULL:
        raise DeltamarkError(f"a value of {column.name} that stands for NULL", NULL, "correct the source of the rows")
    return (read.fill_null(NULL) if read.null_count else read).combine_chunks()


def _words(column: Column, piece: pa.Array) -> np.ndarray:
    """Return the low words of 128-bit decimals: with up to 18 digits, the high words contain only the sign."""
    if piece.type != (expected := pa.decimal128(column.digits, column.scale)):
        raise DeltamarkError(f"not {expected}", f"{column.name} is {piece.type}", "the generator is not the pinned one")
    words = np.frombuffer(piece.buffers()[1], dtype=np.int64)
    low = words[2 * piece.offset : 2 * (piece.offset + len(piece)) : 2]
    return np.where(piece.is_null().to_numpy(zero_copy_only=False), NULL, low) if piece.null_count else low


def stored_doubles(piece: pa.Array) -> np.ndarray:
    """Return the integers that store doubles in their order, as the engine has them (`dataflow/types.py`)."""
    values = piece.cast(pa.float64()).to_numpy(zero_copy_only=False)
    bits = np.where(values == 0, 0.0, np.where(np.isnan(values), np.nan, values)).view(np.int64)
    stored = np.where(np.isnan(values), 0x7FF8 << 48, np.where(bits < 0, ~(bits & (2**63 - 1)), bits))
    return np.where(piece.is_null().to_numpy(zero_copy_only=False), NULL, stored) if piece.null_count else stored


def _recoded(piece: pa.DictionaryArray, pool: pa.Array) -> np.ndarray:
    translated = pc.index_in(piece.dictionary.cast(pa.string()), value_set=pool)
    return translated.to_numpy()[piece.indices.to_numpy()].astype(np.int32)


def bounds_of(column: Column, array: pa.Array) -> Bounds:
    """Return the smallest and the largest value of a column; zeros or empty texts if it has none."""
    if column.kind == "code":
        codes = array.indices.to_numpy()
        return array.dictionary[int(codes.min())].as_py(), array.dictionary[int(codes.max())].as_py()
    if column.kind == "text":
        bounds = pc.min_max(array).as_py()
        return bounds["min"] or "", bounds["max"] or ""
    values = array.to_numpy()
    if column.nullable:
        values = values[values != NULL]
    return (int(values.min()), int(values.max())) if len(values) else (0, 0)


def _gather(relation: Relation, written: Sequence[WrittenChunk], codes: dict[str, list[str]]) -> RelationFiles:
    chunks = sorted((each.chunk for each in written), key=lambda chunk: chunk.file)
    names = [column.name for column in relation.columns]
    bounds = {column: merged([each.bounds[column] for each in written]) for column in names}
    return RelationFiles(tuple(chunks), bounds, {column: len(values) for column, values in codes.items()})


def merged(bounds: Sequence[Bounds]) -> Bounds:
    """Return the bounds of the values of several files."""
    lows, highs = zip(*bounds, strict=True)
    return min(lows), max(highs)
