"""The columns of external engines: their types in the protocol, and Arrow tables as changes in stored form."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from deltamark.dataflow.arrow_values import numbers
from deltamark.dataflow.batch import Batch
from deltamark.dataflow.types import Schema, Type
from deltamark.datagen.schema import ColumnKind, relation
from deltamark.harness.check.decode import answer_columns
from deltamark.harness.engines.external.messages import Columns

TIME, DIFF = "time", "diff"

INPUT_TYPES: dict[ColumnKind, str] = {
    "int": "int64", "decimal": "decimal(2)", "date": "date32", "code": "string", "text": "string",
}  # fmt: skip
"""The types of the columns of relations."""


def input_columns(name: str, columns: tuple[str, ...]) -> Columns:
    """Return the columns of a relation as its rows have them."""
    table = relation(name)
    return [(table.prefix + column, INPUT_TYPES[table.column(column).kind]) for column in columns]


def stored_columns(schema: Schema) -> Columns:
    """Return the columns of exact changes."""
    return [(field.name, _type_name(field.type)) for field in schema.fields]


def selected_columns(schema: Schema) -> Columns:
    """Return the columns of the SELECT list."""
    return [
        (column.name, "double" if len(column.stored) > 1 else _type_name(schema[column.stored[0]]))
        for column in answer_columns(schema)
    ]


def _type_name(type_: Type) -> str:
    match type_.kind:
        case "int":
            return f"decimal({type_.scale})" if type_.scale else "int64"
        case "date":
            return "date32"
    return "string"


def named_as(table: pa.Table, names: list[str]) -> pa.Table:
    """Give the columns of a file these names; raise a ValueError if there are more or fewer."""
    if table.num_columns != len(names):
        raise ValueError(f"the file has the columns {', '.join(table.column_names)}, not {', '.join(names)}")
    return table.rename_columns(names)


def changes_in(schema: Schema, table: pa.Table, after: int, until: int) -> Batch:
    """Convert exact changes to stored form, in the order of time; raise a ValueError for impossible ones.

    after, until: the changes have later times than `after`, and none later than `until`.
    """
    time, diff = _whole_numbers(table, TIME), _whole_numbers(table, DIFF)
    if len(time) and not after < (low := time.min()) <= (high := time.max()) <= until:
        raise ValueError(f"changes at times {low} to {high}, but the batches have times {after + 1} to {until}")
    if not diff.all():
        raise ValueError("a change with diff 0")
    order = np.argsort(time, kind="stable")
    columns = {}
    for (name, type_name), field in zip(stored_columns(schema), schema.fields, strict=True):
        array = table[name].combine_chunks()
        if not _has_type(array.type, type_name):
            raise ValueError(f"column {name} is {array.type}, not {type_name}")
        if array.null_count and not field.type.nullable:
            raise ValueError(f"column {name} has NULL")
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        columns[name] = numbers(array, field.type)[order]
    return Batch(time[order], diff[order], columns)


def _whole_numbers(table: pa.Table, name: str) -> np.ndarray:
    column = table[name]
    if column.type != pa.int64() or column.null_count:
        raise ValueError(f"column {name} is {column.type} with {column.null_count} NULL, not int64 without")
    return column.to_numpy()


def _has_type(actual: pa.DataType, name: str) -> bool:
    match name:
        case "int64":
            return bool(actual == pa.int64())
        case "date32":
            return bool(actual == pa.date32())
        case "string":
            value = actual.value_type if pa.types.is_dictionary(actual) else actual
            return bool(value == pa.string())
    return bool(pa.types.is_decimal128(actual) and name == f"decimal({actual.scale})")
