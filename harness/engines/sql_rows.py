"""Deltas as Arrow batches in the types of the TPC-H specification, for engines that do not know our storage format."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta
from deltamark.datagen.positions import Values
from deltamark.datagen.schema import RELATIONS, Column, ColumnKind, RelationName

ARROW_NAMES: dict[ColumnKind, str] = {
    "int": "int64", "decimal": "decimal", "date": "date32", "code": "string", "text": "string",
}  # fmt: skip
"""The types as external engines read them. A code may be a dictionary of strings; a decimal has two places."""

DECIMAL = pa.decimal128(15, 2)


class SqlRows:
    """Converts deltas to batches of the columns of the specification (`l_orderkey`), with decimals and dates."""

    def __init__(self, dataset: Dataset) -> None:
        self._words = cache(dataset.dictionary)

    def batch(self, delta: Delta) -> pa.RecordBatch:
        relation = RELATIONS[delta.relation]
        columns = {
            relation.prefix + name: self._typed(delta.relation, relation.column(name), values)
            for name, values in delta.columns.items()
        }
        return pa.RecordBatch.from_pydict(columns)

    def _typed(self, relation: RelationName, column: Column, values: Values) -> pa.Array:
        match column.kind:
            case "date":
                return pa.array(values, pa.int32()).view(pa.date32())
            case "decimal":
                return _decimals(np.asarray(values))
            case "code":
                words = self._words(relation, column.name)
                return pa.DictionaryArray.from_arrays(pa.array(values, pa.int32()), words)
        return pa.array(values)


def _decimals(hundredths: np.ndarray) -> pa.Array:
    """Widen 64-bit hundredths to 128 bits."""
    wide = np.empty((len(hundredths), 2), dtype=np.int64)
    wide[:, 0], wide[:, 1] = hundredths, hundredths >> 63
    return pa.Array.from_buffers(DECIMAL, len(hundredths), [None, pa.py_buffer(wide)])
