"""Rows in the types of SQL: the values of an answer, and the deltas of a feed as Arrow batches.

The value of a pair of columns `name.num` and `name.den` is the double nearest the exact quotient. A row that comes and
goes in a batch, or goes and comes back, does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pyarrow as pa

from deltamark.dataflow.answer import quotient
from deltamark.dataflow.types import NULL, Schema, Type, doubles, value_of
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta
from deltamark.datagen.positions import Rows, Values
from deltamark.datagen.schema import Column, ColumnKind
from deltamark.harness.engines.base import Row, Value

Stored = int | str | None


@dataclass(frozen=True)
class AnswerColumn:
    """A column of the SELECT list: its name, its stored columns, and the function that converts their values."""

    name: str
    stored: tuple[str, ...]
    convert: Callable[..., Value]


def answer_columns(schema: Schema) -> list[AnswerColumn]:
    """Return the columns of the SELECT list of an answer."""
    columns = []
    for field in schema.fields:
        name, dot, part = field.name.rpartition(".")
        if dot and part == "num":
            den = schema[f"{name}.den"]
            columns.append(AnswerColumn(name, (field.name, f"{name}.den"), partial(_quotient, field.type, den)))
        elif not (dot and part == "den"):
            columns.append(AnswerColumn(field.name, (field.name,), partial(value_of, field.type)))
    return columns


def _quotient(num_type: Type, den_type: Type, num: int, den: int) -> float | None:
    if NULL in (num, den):
        return None
    return quotient(num * 10**den_type.scale, den * 10**num_type.scale)


def decoded(schema: Schema, rows: Sequence[Mapping[str, Stored]]) -> list[Row]:
    """Convert stored rows, given as columns by name, to rows of values."""
    columns = answer_columns(schema)
    return [tuple(column.convert(*(row[name] for name in column.stored)) for column in columns) for row in rows]


def in_order(schema: Schema, order: Sequence[str], rows: list[Row]) -> list[Row]:
    """Sort rows of values by an ORDER BY clause, and ties by the remaining columns in ascending order."""
    names = [column.name for column in answer_columns(schema)]
    ordered = [name.removeprefix("-") for name in order]
    for name in reversed([*order, *(name for name in names if name not in ordered)]):
        at = names.index(name.removeprefix("-"))
        rows = sorted(rows, key=partial(_sort_key, at), reverse=name.startswith("-"))
    return rows


def _sort_key(at: int, row: Row) -> tuple[bool, object]:
    value = row[at]
    return value is None, value.encode() if isinstance(value, str) else value


@dataclass(frozen=True)
class NetRows:
    """The rows that arrive, as indices in the delta, and the positions of those that leave, in order."""

    arriving: Rows
    leaving: Rows


def net_rows(delta: Delta) -> NetRows:
    if isinstance(delta.rows, range):
        everything, nothing = range(len(delta.rows)), range(0)
        return NetRows(everything, nothing) if delta.diff[0] > 0 else NetRows(nothing, delta.rows)
    positions, first, which = np.unique(delta.rows, return_index=True, return_inverse=True)
    weights = np.bincount(which, delta.diff)
    return NetRows(np.sort(first[weights > 0]), as_range(positions[weights < 0]))


def as_range(positions: np.ndarray) -> Rows:
    """Return increasing positions as a range if they are consecutive."""
    if not len(positions) or positions[-1] - positions[0] + 1 > len(positions):
        return positions
    return range(int(positions[0]), int(positions[-1]) + 1)


DUCKDB_TYPES: Mapping[ColumnKind, str] = {
    "int": "BIGINT", "decimal": "DECIMAL({digits}, {scale})", "double": "DOUBLE", "date": "DATE",
    "timestamp": "TIMESTAMP", "code": "VARCHAR", "text": "VARCHAR",
}  # fmt: skip

LEAST_DIGITS = 15
"""The digits of decimals, unless a column has more: engines need not be told how many it has."""


class SqlRows:
    """Converts deltas to batches of the columns of SQL (`l_orderkey`), with decimals, dates and NULL."""

    def __init__(self, dataset: Dataset) -> None:
        self._words = cache(dataset.dictionary)
        self._relations = dataset.relations

    def batch(self, delta: Delta) -> pa.RecordBatch:
        relation = self._relations[delta.relation]
        columns = {
            relation.prefix + name: self._typed(delta.relation, relation.column(name), values)
            for name, values in delta.columns.items()
        }
        return pa.RecordBatch.from_pydict(columns)

    def _typed(self, relation: str, column: Column, values: Values) -> pa.Array:
        absent = _absent(column, values)
        match column.kind:
            case "int" | "timestamp":
                numbers = np.asarray(values, np.int64)
                return pa.array(numbers, None if column.kind == "int" else pa.timestamp("us"), mask=absent)
            case "double":
                return pa.array(doubles(np.asarray(values)), mask=absent)
            case "date":
                days = values if absent is None else np.where(absent, 0, values)
                return pa.array(days, pa.int32(), mask=absent).view(pa.date32())
            case "decimal":
                return _decimals(column, np.asarray(values), absent)
            case "code":
                words = self._words(relation, column.name)
                return pa.DictionaryArray.from_arrays(pa.array(values, pa.int32()), words)
        return pa.array(values)


def named_type(column: Column, names: Mapping[ColumnKind, str]) -> str:
    """Return the name of the type of a column. names: by kind; `{digits}` and `{scale}` are those of a decimal."""
    return names[column.kind].format(digits=max(column.digits, LEAST_DIGITS), scale=column.scale)


def _absent(column: Column, values: Values) -> np.ndarray | None:
    """Return which values of a column of numbers or dates are NULL; None if there are none."""
    if not column.nullable or column.kind == "text":
        return None
    absent: np.ndarray = np.asarray(values) == NULL
    return absent if absent.any() else None


def _decimals(column: Column, words: np.ndarray, absent: np.ndarray | None) -> pa.Array:
    """Widen decimals to 128 bits."""
    wide = np.empty((len(words), 2), dtype=np.int64)
    wide[:, 0] = words
    wide[:, 1] = wide[:, 0] >> 63
    present = None if absent is None else pa.array(~absent).buffers()[1]
    type_ = pa.decimal128(max(column.digits, LEAST_DIGITS), column.scale)
    return pa.Array.from_buffers(type_, len(words), [present, pa.py_buffer(wide)])
