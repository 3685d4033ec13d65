"""Conversions of the rows of tables to batches of the engine, which are checked on the way.

Numbers without NULL are read where Arrow has them, and copied only if they are wider than the engine needs. Their
bounds are checked once. The other columns are converted first and then checked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from deltamark.database.store import Changed
from deltamark.database.tables import Table
from deltamark.dataflow.arrow_values import narrow_numbers
from deltamark.dataflow.batch import Batch, Column, concatenated, trusted
from deltamark.dataflow.runtime.inputs import checked_column
from deltamark.dataflow.sql.arrow_tables import arrow_column
from deltamark.dataflow.types import Schema, nullable_texts
from deltamark.errors import DeltamarkError


class Conversion:
    """The conversion of the rows of a table to batches of its input. columns: those that views read."""

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        self.table, self.columns = table, tuple(columns)
        whole = table.collection.schema
        self._schema = Schema(tuple(whole.field(each) for each in columns), whole.rows)
        self._nullable = nullable_texts(self._schema.fields)

    def batch(self, changes: Sequence[Changed], time: int) -> Batch:
        """Return changes as a batch of one time, which a feed trusts; deleted rows come first. They are not empty."""
        ordered = changes if len(changes) == 1 else sorted(changes, key=lambda each: each[1])
        whole = concatenated([self._batch(rows, time, weight) for rows, weight in ordered])
        batch = trusted(whole.time, whole.diff, whole.columns, nullable=self._nullable)
        batch.added = sum(rows.num_rows * weight for rows, weight in changes)
        return batch

    def _batch(self, rows: pa.Table, time: int, weight: int) -> Batch:
        names = rows.column_names
        for name in self.columns:
            if name not in names:
                raise DeltamarkError("a column is missing", f"{self.table.name}.{name}", "give all columns")
        columns = {name: self._column(name, rows.column(names.index(name))) for name in self.columns}
        return Batch(np.full(rows.num_rows, time), np.full(rows.num_rows, weight), columns)

    def _column(self, name: str, values: pa.ChunkedArray) -> Column:
        """Convert the values of a column, and check them."""
        type_ = self._schema[name]
        found = narrow_numbers(values, type_)
        if found is not None:
            return found
        return checked_column(f"{self.table.name}.{name}", type_, arrow_column(name, type_, values))
