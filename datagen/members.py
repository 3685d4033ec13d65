"""Members: the position of the first member of each row of another relation, such as the first line of an order.

The members of a row are consecutive, and come in the order of the rows to which they belong. Both are checked here,
because the workloads in which rows come and go with their members depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from deltamark.datagen.manifest import MAX_INT64, Bounds, Chunk, RelationFiles, folder_of
from deltamark.datagen.prebatch import write_arrow
from deltamark.datagen.schema import FIRST_SCHEMA, Relation, Relations
from deltamark.errors import DeltamarkError


def write_members(
    into: Path, schema: Relations, relations: dict[str, RelationFiles], chunk_rows: int
) -> dict[str, tuple[Chunk, ...]]:
    """Write the positions of the first members in chunks like those of a relation; the last one is their number."""
    written = {}
    for each in schema.values():
        if each.member_of:
            folder = folder_of("members", each.name)
            (into / folder).mkdir(parents=True)
            positions = _first_members(into, each, schema[each.member_of], relations)
            batches = (pa.RecordBatch.from_arrays([pa.array(part)], schema=FIRST_SCHEMA) for part in positions)
            written[each.name] = write_chunks(into, folder, batches, chunk_rows)
    return written


def write_chunks(into: Path, folder: str, batches: Iterator[pa.RecordBatch], chunk_rows: int) -> tuple[Chunk, ...]:
    """Write batches, of which there is at least one, as files of `chunk_rows` rows."""
    chunks: list[Chunk] = []

    def write(rows: pa.Table) -> None:
        name = f"{folder}/{len(chunks):05}.arrow"
        chunks.append(write_arrow(into, name, pa.RecordBatch.from_arrays(
            [column.combine_chunks() for column in rows.columns], schema=rows.schema
        )))  # fmt: skip

    pending = pa.Table.from_batches([next(batches)])
    for batch in batches:
        pending = pa.concat_tables([pending, pa.Table.from_batches([batch])])
        while len(pending) > chunk_rows:
            write(pending[:chunk_rows])
            pending = pending[chunk_rows:]
    while len(pending) > chunk_rows:
        write(pending[:chunk_rows])
        pending = pending[chunk_rows:]
    write(pending)
    return tuple(chunks)


def _first_members(
    into: Path, member: Relation, owner: Relation, relations: dict[str, RelationFiles]
) -> Iterator[np.ndarray]:
    """Yield the positions of the first members of all rows, and then the number of members."""
    bounds = [relations[owner.name].bounds[column] for column in owner.key]
    columns = member.reference_to(owner.name).split()
    runs = _Runs(_keys(into, relations[member.name].chunks, columns, bounds), member, owner)
    position = 0
    for keys in _keys(into, relations[owner.name].chunks, owner.key, bounds):
        ends = position + np.cumsum(runs.of(keys))
        yield np.concatenate([[position], ends[:-1]]) if len(ends) else np.empty(0, np.int64)
        position = int(ends[-1]) if len(ends) else position
    runs.expect_end()
    yield np.array([position])


class _Runs:
    """Runs of members with equal keys of their owners, read file by file. The last run may go on in the next file."""

    def __init__(self, files: Iterator[np.ndarray], member: Relation, owner: Relation) -> None:
        self._files = files
        self._keys = self._sizes = np.empty(0, dtype=np.int64)
        self._said = f"{member.name} and {owner.name}"

    def of(self, owners: np.ndarray) -> np.ndarray:
        """Return the number of members of each of the next owners."""
        while len(self._keys) <= len(owners) and (keys := next(self._files, None)) is not None:
            self._append(keys)
        has_members = np.isin(owners, self._keys)
        found = owners[has_members]
        if not np.array_equal(found, self._keys[: len(found)]):
            raise self._disorder(f"the rows of {self._said} are not in the same order")
        counts = np.zeros(len(owners), dtype=np.int64)
        counts[has_members] = self._sizes[: len(found)]
        self._keys, self._sizes = self._keys[len(found) :], self._sizes[len(found) :]
        return counts

    def expect_end(self) -> None:
        if len(self._keys) or next(self._files, None) is not None:
            raise self._disorder("there are rows that belong to no row, or to one that came before")

    def _append(self, keys: np.ndarray) -> None:
        if not len(keys):
            return
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        runs, sizes = keys[starts], np.diff(np.concatenate([starts, [len(keys)]]))
        if len(self._keys) and self._keys[-1] == runs[0]:
            self._sizes[-1] += sizes[0]
            runs, sizes = runs[1:], sizes[1:]
        self._keys, self._sizes = np.concatenate([self._keys, runs]), np.concatenate([self._sizes, sizes])

    def _disorder(self, actual: str) -> DeltamarkError:
        return DeltamarkError(f"{self._said} do not belong together", actual, "correct the data or its description")


def _keys(
    into: Path, chunks: Sequence[Chunk], columns: Sequence[str], bounds: Sequence[Bounds]
) -> Iterator[np.ndarray]:
    """Yield the keys of the rows of each file, a number for each; with several columns -1 for a key out of bounds."""
    ranges = [(int(low), int(high) - int(low) + 1) for low, high in bounds]
    if len(columns) > 1 and math.prod(size for _, size in ranges) > MAX_INT64:
        raise DeltamarkError("a key with too many possible values", ", ".join(columns), "leave member_of out")
    for chunk in chunks:
        batch = pa.ipc.open_file(pa.memory_map(str(into / chunk.file))).get_batch(0)
        values = [batch.column(column).to_numpy() for column in columns]
        yield values[0] if len(values) == 1 else _combined(values, ranges)


def _combined(values: Sequence[np.ndarray], ranges: Sequence[tuple[int, int]]) -> np.ndarray:
    """Number the keys of several columns. ranges: the least value of each column, and the number of possible ones."""
    keys, known = np.zeros(len(values[0]), np.int64), np.ones(len(values[0]), bool)
    for column, (low, size) in zip(values, ranges, strict=True):
        known &= (column >= low) & (column < low + size)
        keys = keys * size + (column - low)
    return np.where(known, keys, -1)
