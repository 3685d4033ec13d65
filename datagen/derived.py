"""Derived rows: later versions of stored rows, which are computed and lie in no file.

Their positions begin at the first multiple of the rows of a file after the stored rows, so they are read like those of
further files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.positions import Values, joined, values_at
from deltamark.datagen.schema import NULL, Column
from deltamark.datagen.seeded import hashed


@dataclass(frozen=True)
class DerivedRows:
    """Versions of stored rows: the position of each stored row, and how often its columns have changed.

    A column that is not listed has the value of the stored row.
    """

    stored: np.ndarray
    changes: Mapping[str, np.ndarray]


class ExtendedDataset(Dataset):
    """A data directory with derived rows."""

    def __init__(self, dataset: Dataset, derived: Mapping[str, DerivedRows]) -> None:
        super().__init__(dataset.directory, dataset.manifest)
        self._derived = derived

    def positions(self, name: str) -> int:
        derived = self._derived.get(name)
        return self.first_derived(name) + len(derived.stored) if derived else super().positions(name)

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        stored = super().table(name, columns)
        if name not in self._derived:
            return stored
        arrays = [self._array(name, self.relations[name].column(column)) for column in stored.column_names]
        return pa.concat_tables([stored, pa.Table.from_arrays(arrays, schema=stored.schema)])

    def _array(self, name: str, column: Column) -> pa.Array:
        values = joined(self.pieces(name, column.name)[len(self.manifest.relations[name].chunks) :])
        if column.kind == "code":
            return pa.DictionaryArray.from_arrays(pa.array(values), self.dictionary(name, column.name), ordered=True)
        return values if column.kind == "text" else pa.array(values)

    def check(self, name: str, column: str, file: int) -> None:
        if file < len(self.manifest.relations[name].chunks):
            super().check(name, column, file)

    def _pieces(self, name: str, column: str) -> list[Values]:
        stored = super()._pieces(name, column)
        if name not in self._derived:
            return stored
        values, rows = self._values(name, self.relations[name].column(column), stored), self.manifest.chunk_rows
        return [*stored, *(values[start : start + rows] for start in range(0, len(values), rows))]

    def _values(self, name: str, column: Column, stored: list[Values]) -> Values:
        """Compute the values of a column of all derived rows."""
        derived = self._derived[name]
        for file in self.files_of(derived.stored):
            self.check(name, column.name, file)
        values = values_at(stored, self.shift, derived.stored)
        if column.name not in derived.changes:
            return values
        assert isinstance(values, np.ndarray)
        return self._changed(name, column, values)

    def _changed(self, name: str, column: Column, values: np.ndarray) -> np.ndarray:
        """Move values forward within the bounds of their column, each by a step of its row for every change."""
        derived, files = self._derived[name], self.manifest.relations[name]
        low, high = (
            (0, files.dictionaries[column.name] - 1) if column.kind == "code" else map(int, files.bounds[column.name])
        )
        size = high - low + 1
        steps = 1 + hashed(f"{name} {column.name}", derived.stored) % max(size - 1, 1)
        changed = (low + (values - low + derived.changes[column.name] * steps) % size).astype(values.dtype)
        return np.where(values == NULL, NULL, changed) if column.nullable else changed
