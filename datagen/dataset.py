"""An opened data directory: columns as zero-copy views of memory-mapped Arrow files.

Opening checks each file's size, and its content where its time stamp is not the recorded one. Rows are addressed by
their position in the relation, in file order; a file holds `chunk_rows` of them, a power of two.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from datagen.manifest import Chunk, Manifest, read_manifest
from datagen.schema import RelationName, relation
from deltamark import DeltamarkError

Values: TypeAlias = "np.ndarray | pa.StringArray"
"""A column's values: numpy for all kinds but text (for codes their int32 indices)."""


class Dataset:
    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.directory = directory
        self.manifest = manifest
        self.shift = manifest.chunk_rows.bit_length() - 1
        self._batch = cache(self._map_file)
        self.pieces = cache(self._pieces)
        """pieces(relation, column): the column's values, an array a file."""

    @classmethod
    def open(cls, directory: Path) -> Dataset:
        manifest = read_manifest(directory)
        for chunk in manifest.files:
            _check(directory, chunk)
        return cls(directory, manifest)

    def rows(self, name: RelationName) -> int:
        return self.manifest.relations[name].rows

    def dictionary(self, name: RelationName, column: str) -> pa.StringArray:
        """Return the sorted values of a dictionary column."""
        file = self.manifest.relations[name].chunks[0].file
        return self._batch(file).column(column).dictionary

    def slice(self, name: RelationName, column: str, start: int, stop: int) -> Values:
        """Return the values of consecutive rows: a view, or a copy across the border of two files."""
        return cut(self.pieces(name, column), self.shift, start, stop)

    def table(self, name: RelationName) -> pa.Table:
        """Return a relation as an Arrow table over the mapped files."""
        chunks = self.manifest.relations[name].chunks
        return pa.Table.from_batches([self._batch(chunk.file) for chunk in chunks])

    def first_lines(self, start: int, stop: int) -> np.ndarray:
        """Return where the first lines of orders start..stop-1 lie; order `rows("orders")` is the end of all."""
        return cut(self._first, self.shift, start, stop)

    def verify(self, report: Callable[[int, int], None]) -> None:
        """Read every byte again and compare digests; report bytes done."""
        done, total = 0, sum(chunk.bytes for chunk in self.manifest.files)
        for chunk in self.manifest.files:
            _check_digest(self.directory, chunk)
            os.utime(self.directory / chunk.file, ns=(chunk.mtime_ns, chunk.mtime_ns))
            report(done := done + chunk.bytes, total)

    def _map_file(self, file: str) -> pa.RecordBatch:
        try:
            return pa.ipc.open_file(pa.memory_map(str(self.directory / file))).get_batch(0)
        except (OSError, pa.ArrowInvalid) as error:
            raise _damaged(self.directory / file, str(error)) from error

    def _pieces(self, name: RelationName, column: str) -> list[Values]:
        kind = relation(name).column(column).kind
        columns = [self._batch(chunk.file).column(column) for chunk in self.manifest.relations[name].chunks]
        if kind == "text":
            return columns
        return [(piece.indices if kind == "code" else piece).to_numpy() for piece in columns]

    @cached_property
    def _first(self) -> list[np.ndarray]:
        return [self._batch(chunk.file).column("first").to_numpy() for chunk in self.manifest.order_lines]


def cut(pieces: list[Any], shift: int, start: int, stop: int) -> Any:
    """Return positions start..stop-1 of a column that is stored in pieces of 1 << shift rows."""
    first, last = start >> shift, (stop - 1) >> shift
    base = first << shift
    if last <= first:
        return pieces[first][start - base : stop - base]
    parts = [
        pieces[piece][max(start - (piece << shift), 0) : stop - (piece << shift)] for piece in range(first, last + 1)
    ]
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else pa.concat_arrays(parts)


def _check(directory: Path, chunk: Chunk) -> None:
    path = directory / chunk.file
    try:
        stat = path.stat()
    except OSError as error:
        raise _damaged(path, str(error.strerror)) from error
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
        raise _damaged(path, str(error.strerror)) from error
    if digest != chunk.sha256:
        raise _damaged(path, f"its digest is {digest[:16]}..., not {chunk.sha256[:16]}...")


def _damaged(path: Path, actual: str) -> DeltamarkError:
    remedy = f"move {path.parent.parent} away and run make data again"
    return DeltamarkError("a data file is not the one that was made", f"{path}: {actual}", remedy)
