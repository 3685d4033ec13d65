"""An opened data directory: columns as zero-copy views of memory-mapped Arrow files.

Opening a directory checks the size of each file, and also the content if the time stamp is not the recorded one.
`check` compares a column of one file with the manifest's bounds, because engines index arrays by these values without
checking them. Rows are addressed by their position in the relation, in file order. A file contains `chunk_rows` rows, a
power of two.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from deltamark.datagen.manifest import Chunk, Manifest, read_manifest
from deltamark.datagen.positions import Rows, Values, concatenated_ranges, cut, values_at
from deltamark.datagen.schema import FIRST_SCHEMA, NARROW, NULL, Column, Relations
from deltamark.errors import DeltamarkError, is_memory, refused


class Dataset:
    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.directory = directory
        self.manifest = manifest
        self.relations: Relations = manifest.schema
        self.shift = manifest.chunk_rows.bit_length() - 1
        self._batch = cache(self._map_chunk)
        self._checked: set[tuple[str, str, int]] = set()
        self._first = cache(self._first_members)
        self.pieces = cache(self._pieces)
        """The values of a column, one array for each file: pieces(relation, column)."""
        self.narrow_pieces = cache(self._narrow_pieces)
        """The values of a column in as few bytes as its bounds need: copies in memory, made once."""

    @classmethod
    def open(cls, directory: Path) -> Dataset:
        manifest = read_manifest(directory)
        for chunk in manifest.files:
            check_file(directory, chunk)
        return cls(directory, manifest)

    def rows(self, name: str) -> int:
        return self.manifest.relations[name].rows

    def positions(self, name: str) -> int:
        """Return the number after the largest position of a row."""
        return self.rows(name)

    def first_derived(self, name: str) -> int:
        """Return the first position after the files, which derived rows may have."""
        return len(self.manifest.relations[name].chunks) << self.shift

    def numbers(self, name: str, positions: np.ndarray) -> np.ndarray:
        """Return the numbers in the table of a relation of the rows at some positions."""
        rows, first = self.rows(name), self.first_derived(name)
        return np.where(positions < first, positions, positions - first + rows)

    def dictionary(self, name: str, column: str) -> pa.StringArray:
        """Return the sorted values of a dictionary column."""
        return self._batch(name, 0).column(column).dictionary

    def values(self, name: str, column: str, rows: Rows) -> Values:
        """Return the values of some rows, of which there is at least one: a view if they are consecutive in a file."""
        for file in self.files_of(rows):
            self.check(name, column, file)
        return values_at(self.pieces(name, column), self.shift, rows)

    def files_of(self, rows: Rows) -> Iterable[int]:
        """Return the numbers of the files that contain some rows."""
        if isinstance(rows, range):
            return range(rows.start >> self.shift, ((rows.stop - 1) >> self.shift) + 1)
        return np.unique(rows >> self.shift).tolist()

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return some columns of a relation, or all, as an Arrow table over the mapped files."""
        columns = [column.name for column in self.relations[name].columns] if columns is None else columns
        for file in range(len(self.manifest.relations[name].chunks)):
            for column in columns:
                self.check(name, column, file)
        return pa.Table.from_batches(self._batches(name)).select(columns)

    def is_unique(self, name: str, columns: Sequence[str]) -> bool:
        """Return whether no two stored rows of a relation have equal values in some columns."""
        groups = Dataset.table(self, name, columns).group_by(list(columns), use_threads=False).aggregate([])
        return int(groups.num_rows) == self.rows(name)

    def check(self, name: str, column: str, file: int) -> None:
        """Check the values of a column in one file against the manifest, unless that was done before."""
        if (name, column, file) not in self._checked:
            self._check_values(name, self.relations[name].column(column), file, self._batch(name, file))
            self._checked.add((name, column, file))

    def first_members(self, name: str, start: int, stop: int) -> np.ndarray:
        """Return the position of the first row of a relation that belongs to each of the rows start..stop-1 of another.

        The row after the last has the number of rows of the relation.
        """
        return cut(self._first(name), self.shift, start, stop)

    def members_of(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Return the positions of the rows of a relation that belong to some rows of another, row by row."""
        first = self._first(name)
        return concatenated_ranges(*(values_at(first, self.shift, each) for each in (rows, rows + 1)))

    def verify(self, report: Callable[[int, int], None]) -> None:
        """Read every byte again and compare digests; report bytes done."""
        done, total = 0, sum(chunk.bytes for chunk in self.manifest.files)
        for chunk in self.manifest.files:
            _check_digest(self.directory, chunk)
            with suppress(OSError):  # a directory that cannot be written is only slower to open
                os.utime(self.directory / chunk.file, ns=(chunk.mtime_ns, chunk.mtime_ns))
            report(done := done + chunk.bytes, total)

    def _map_chunk(self, name: str, number: int) -> pa.RecordBatch:
        chunk = self.manifest.relations[name].chunks[number]
        return map_batch(self.directory, chunk, self.relations[name].arrow_schema)

    def _batches(self, name: str) -> list[pa.RecordBatch]:
        return [self._batch(name, number) for number in range(len(self.manifest.relations[name].chunks))]

    def _pieces(self, name: str, column: str) -> list[Values]:
        kind = self.relations[name].column(column).kind
        columns = [batch.column(column) for batch in self._batches(name)]
        if kind == "text":
            return columns
        return [(piece.indices if kind == "code" else piece).to_numpy() for piece in columns]

    def _narrow_pieces(self, name: str, column: str) -> list[Values]:
        pieces, of = self.pieces(name, column), self.relations[name].column(column)
        if of.nullable or of.kind not in NARROW:
            return pieces
        files = self.manifest.relations[name]
        low, high = (0, files.dictionaries[column] - 1) if of.kind == "code" else map(int, files.bounds[column])
        dtype = next((each for each in (np.int8, np.int16, np.int32) if _fits(each, low, high)), np.int64)
        stored = [self._narrow(name, of, file, dtype) for file in range(len(files.chunks))]
        return stored + [np.asarray(piece, dtype) for piece in pieces[len(stored) :]]

    def _narrow(self, name: str, column: Column, file: int, dtype: type) -> np.ndarray:
        """Check and convert a column of a file through a mapping of its own, so that no page of it stays in memory."""
        batch = self._map_chunk(name, file)
        self._check_values(name, column, file, batch)
        self._checked.add((name, column.name, file))
        stored = batch.column(column.name)
        return np.asarray((stored.indices if column.kind == "code" else stored).to_numpy(), dtype)

    def _check_values(self, name: str, column: Column, file: int, batch: pa.RecordBatch) -> None:
        stored, files = batch.column(column.name), self.manifest.relations[name]
        path = self.directory / files.chunks[file].file
        if column.kind == "text":
            _check_offsets(stored, column, path)
            return
        low, high = files.bounds[column.name]
        if column.kind == "code":
            size = files.dictionaries[column.name]
            if len(stored.dictionary) != size or not stored.dictionary.equals(self.dictionary(name, column.name)):
                actual = f"the dictionary of {column.name} is not the one of {size} values in the other files"
                raise _damaged(path, actual)
            stored, low, high = stored.indices, 0, size - 1
        values = stored.to_numpy()  # Arrow's min_max would start threads, which need 4.5 MB in each measured process
        if column.nullable:
            values = values[values != NULL]
        if not len(values):
            return
        smallest, largest = values.min().item(), values.max().item()
        if not (low <= smallest <= largest <= high):
            wrong = smallest if smallest < low else largest
            raise _damaged(path, f"{column.name} has the value {wrong}, outside its bounds {low} to {high}")

    def _first_members(self, name: str) -> list[np.ndarray]:
        """Map the positions of the first members of all rows; check that they are in order and within the relation."""
        chunks = self.manifest.members[name]
        pieces = [map_batch(self.directory, chunk, FIRST_SCHEMA).column("first").to_numpy() for chunk in chunks]
        last = 0
        for chunk, first in zip(chunks, pieces, strict=True):
            if first[0] < last or (first[1:] < first[:-1]).any():
                raise _damaged(self.directory / chunk.file, "its positions are not in order")
            last = first[-1]
        if (pieces[0][0], last) != (0, self.rows(name)):
            actual = f"its positions go from {pieces[0][0]} to {last}, not from 0 to {self.rows(name)}"
            raise _damaged(self.directory / chunks[-1].file, actual)
        return pieces


def map_batch(directory: Path, chunk: Chunk, schema: pa.Schema) -> pa.RecordBatch:
    """Map the only record batch of a file; check its schema and its number of rows."""
    path = directory / chunk.file
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        for batch in batches:
            batch.validate()
    except OSError as error:
        raise _unread(path, error) from error
    except pa.ArrowInvalid as error:
        raise _damaged(path, str(error)) from error
    rows = [batch.num_rows for batch in batches]
    if rows != [chunk.rows]:
        raise _damaged(path, f"its batches have {rows} rows, not {[chunk.rows]}")
    if not batches[0].schema.equals(schema):
        raise _damaged(path, f"its columns are {batches[0].schema.to_string(show_schema_metadata=False)}")
    for field, column in zip(schema, batches[0].columns, strict=True):
        if column.null_count and not field.nullable:
            raise _damaged(path, f"{column.null_count} values of {field.name} are missing")
    return batches[0]


def _fits(dtype: type[np.signedinteger[Any]], low: int, high: int) -> bool:
    """Return whether an integer type has all numbers from low to high."""
    return int(np.iinfo(dtype).min) <= low and high <= int(np.iinfo(dtype).max)


def _check_offsets(texts: pa.StringArray, column: Column, path: Path) -> None:
    """Check that the offsets of texts do not decrease and stay within the buffer."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    size = data.size if data else 0
    if ends[0] < 0 or ends[-1] > size or (ends[1:] < ends[:-1]).any():
        raise _damaged(path, f"the offsets of {column.name} decrease or exceed {size} bytes")


def check_file(directory: Path, chunk: Chunk) -> None:
    """Check the size of a file, and its content if the time stamp is not the recorded one."""
    path = directory / chunk.file
    try:
        stat = path.stat()
    except OSError as error:
        raise _unread(path, error) from error
    if stat.st_size != chunk.bytes:
        raise _damaged(path, f"{stat.st_size} bytes, not {chunk.bytes}")
    if stat.st_mtime_ns != chunk.mtime_ns:
        _check_digest(directory, chunk)


def _check_digest(directory: Path, chunk: Chunk) -> None:
    path = directory / chunk.file
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unread(path, error) from error
    if digest != chunk.sha256:
        raise _damaged(path, f"its digest is {digest[:16]}..., not {chunk.sha256[:16]}...")


def _unread(path: Path, error: OSError) -> DeltamarkError:
    """Return the error for a file that cannot be read. Only a missing file, or no regular file, is damaged data."""
    if error.errno in (None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP) and not is_memory(error):
        return _damaged(path, error.strerror or str(error))
    return refused(error, path) or _damaged(path, str(error))


def _damaged(path: Path, actual: str) -> DeltamarkError:
    remedy = f"move {path.parent.parent} away and make the data again"
    return DeltamarkError("a data file is not the one that was made", f"{path}: {actual}", remedy)
