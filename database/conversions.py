"""Conversions of the rows of tables to batches of the engine, which are checked on the way.

The rows of a table have the types of its columns, so the conversion of each column is worked out once: numbers without
NULL are read where Arrow has them, and copied only if they are wider than the engine needs. Their bounds are checked
here, once. The other columns go the general way, which converts them first and then checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from deltamark.database.store import Changed
from deltamark.database.tables import Table
from deltamark.dataflow.batch import Batch, Column, concatenated, trusted
from deltamark.dataflow.runtime.inputs import checked_column
from deltamark.dataflow.sql.arrow_tables import arrow_column
from deltamark.dataflow.types import TIMESTAMPS, Schema, Type, nullable_texts
from deltamark.errors import DeltamarkError

Read: TypeAlias = "Callable[[pa.Array], np.ndarray | None]"
"""The direct way from the values of a column to numbers; None if it has a value that they cannot have."""

WORD_BYTES = 8


class Conversion:
    """The conversion of the rows of a table to batches of its input. columns: those that views read."""

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        self.table, self.columns = table, tuple(columns)
        whole = table.collection.schema
        self._schema = Schema(tuple(whole.field(each) for each in columns), whole.rows)
        self._nullable = nullable_texts(self._schema.fields)
        types = {each.name: (table.schema.field(each.name).type, each.type) for each in self._schema.fields}
        self._direct: dict[str, Read | None] = {name: _direct(*each) for name, each in types.items()}

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
        direct = self._direct[name]
        if direct is not None and not values.null_count:
            array = values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks)
            found = direct(array)
            if found is not None:
                return found
        type_ = self._schema[name]
        return checked_column(f"{self.table.name}.{name}", type_, arrow_column(name, type_, values))


def _direct(arrow: pa.DataType, type_: Type) -> Read | None:
    """Return the direct way to the numbers of a column; None if there is none."""
    if type_.kind == "int" and pa.types.is_decimal128(arrow) and arrow.scale == type_.scale:
        return partial(_decimals, arrow, type_)
    is_integer = type_.kind == "int" and not type_.scale and pa.types.is_integer(arrow)
    is_date = type_.kind == "date" and pa.types.is_date32(arrow)
    is_moment = type_.kind in TIMESTAMPS and pa.types.is_timestamp(arrow) and arrow.unit == "us"
    if is_integer or is_date or is_moment or (type_.kind == "time" and arrow == pa.time64("us")):
        given = np.dtype(arrow.to_pandas_dtype() if is_integer else f"i{arrow.bit_width // 8}")
        limits = np.iinfo(given)
        is_bounded = type_.low <= limits.min and limits.max <= type_.high
        return partial(_integers, arrow, type_, given, is_bounded=is_bounded)
    return None


def _integers(
    arrow: pa.DataType, type_: Type, given: np.dtype, array: pa.Array, *, is_bounded: bool
) -> np.ndarray | None:
    """Read integers where they are. is_bounded: whether the type has all that these bytes can be."""
    if array.type != arrow:
        return None
    size = given.itemsize
    values = np.frombuffer(array.buffers()[1], given, len(array), array.offset * size)
    if not is_bounded and not type_.low <= int(values.min()) <= int(values.max()) <= type_.high:
        return None
    if size == type_.width and given.kind == "i" and values.flags.aligned:
        return values
    return values.astype(f"i{type_.width}")


def _decimals(arrow: pa.DataType, type_: Type, array: pa.Array) -> np.ndarray | None:
    """Read decimals of 128 bits, whose value is in the lower 64."""
    if array.type != arrow:
        return None
    words = np.frombuffer(array.buffers()[1], np.int64, 2 * len(array), 2 * WORD_BYTES * array.offset)
    low, high = words[::2], words[1::2]
    values = low.astype(f"i{type_.width}")
    sign = 8 * type_.width - 1
    if not (np.array_equal(values, low) and np.array_equal(values >> sign, high)):
        return None
    return values if type_.low <= int(values.min()) <= int(values.max()) <= type_.high else None
