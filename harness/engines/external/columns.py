"""The columns of external engines: their types in the protocol, and Arrow tables as changes in stored form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import closing

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamark.dataflow.arrow_values import ARROW_TYPES, numbers
from deltamark.dataflow.batch import Batch
from deltamark.dataflow.types import LARGEST, NULL, Schema, Type
from deltamark.datagen.schema import ColumnKind, Relation
from deltamark.harness.engines.answers import DUCKDB_TYPES, answer_columns, named_type
from deltamark.harness.engines.external.messages import Columns

TIME, DIFF = "time", "diff"

INPUT_TYPES: Mapping[ColumnKind, str] = {
    "int": "int64", "decimal": "decimal({scale})", "double": "double", "date": "date32", "timestamp": "timestamp",
    "code": "string", "text": "string",
}  # fmt: skip
"""The types of the columns of relations."""

NOT_SENT = ("double", "timestamp")
"""The types that no input of a program has so far."""


def input_columns(relation: Relation, columns: tuple[str, ...]) -> Columns:
    """Return the columns of a relation as its rows have them."""
    return [(relation.prefix + name, named_type(relation.column(name), INPUT_TYPES)) for name in columns]


def stored_columns(schema: Schema) -> Columns:
    """Return the columns of exact changes."""
    return [(field.name, _type_name(field.type)) for field in schema.fields]


def selected_columns(schema: Schema) -> Columns:
    """Return the columns of the SELECT list."""
    return [
        (column.name, "double" if len(column.stored) > 1 else _type_name(schema[column.stored[0]]))
        for column in answer_columns(schema)
    ]


def described_columns(sql: str, relations: Iterable[Relation]) -> Columns:
    """Return the columns that DuckDB names for a text of SQL."""
    with closing(duckdb.connect()) as connection:
        for each in relations:
            columns = ", ".join(
                f'"{each.prefix}{column.name}" {named_type(column, DUCKDB_TYPES)}' for column in each.columns
            )
            connection.execute(f'CREATE TABLE "{each.name}" ({columns})')
        return columns_in(connection, sql)


def columns_in(connection: duckdb.DuckDBPyConnection, sql: str) -> Columns:
    """Return the columns that DuckDB names for a text of SQL over the tables of a connection."""
    return [(name, _described(type_)) for name, type_, *_ in connection.execute(f"DESCRIBE {sql}").fetchall()]


def _described(type_: str) -> str:
    """Return the type of the protocol for a type of DuckDB."""
    if decimal := re.fullmatch(r"DECIMAL\(\d+,(\d+)\)", type_):
        return f"decimal({decimal[1]})"
    names = {
        "DATE": "date32", "VARCHAR": "string", "BOOLEAN": "bool", "DOUBLE": "double", "FLOAT": "double",
        "TIMESTAMP": "timestamp", "TIMESTAMP WITH TIME ZONE": "timestamptz", "TIME": "time", "INTERVAL": "interval",
    }  # fmt: skip
    return names.get(type_, "int64")


def _type_name(type_: Type) -> str:
    match type_.kind:
        case "int":
            return f"decimal({type_.scale})" if type_.scale else "int64"
        case "date":
            return "date32"
        case "code" | "short" | "text":
            return "string"
    return type_.kind


def answer_in(table: pa.Table, columns: Columns) -> pa.Table:
    """Return the rows of a file with the names of the columns; raise a ValueError for others than the columns have."""
    if table.num_columns != len(columns):
        names = ", ".join(name for name, _ in columns)
        raise ValueError(f"the file has the columns {', '.join(table.column_names)}, not {names}")
    values = [_values(name, type_, each) for (name, type_), each in zip(columns, table.columns, strict=True)]
    return pa.table(values, [name for name, _ in columns])


def changes_in(table: pa.Table, columns: Columns, after: int, until: int) -> pa.Table:
    """Return the changes of a file with their times and weights; raise a ValueError for impossible ones.

    after, until: the changes have later times than `after`, and none later than `until`.
    """
    table = answer_in(table, [(TIME, "int64"), (DIFF, "int64"), *columns])
    time, diff = _times_and_diffs(table)
    if len(time) and (time.min() <= after or time.max() > until):
        times = f"{time.min()} to {time.max()}, but the batches have times {after + 1} to {until}"
        raise ValueError(f"changes at times {times}")
    if not diff.all():
        raise ValueError("a change with diff 0")
    return table


def stored_in(changes: pa.Table, schema: Schema) -> Batch:
    """Convert exact changes to stored form, in the order of time; raise a ValueError for values that are not exact."""
    time, diff = _times_and_diffs(changes)
    order = np.argsort(time, kind="stable")
    columns = {}
    for (name, type_name), field, column in zip(
        stored_columns(schema), schema.fields, changes.columns[2:], strict=True
    ):
        array = column.combine_chunks()
        if not _is_exactly(array.type, type_name):
            raise ValueError(f"column {name} is {array.type}, not {type_name}")
        if array.null_count and not field.type.nullable:
            raise ValueError(f"column {name} has NULL")
        columns[name] = _stored(name, array, field.type)[order]
    return Batch(time[order], diff[order], columns)


def _stored(name: str, array: pa.Array, type_: Type) -> np.ndarray:
    """Return values in stored form, in which a value that its column cannot have would become NULL."""
    wrong = f"column {name} has a value that does not fit into {type_}"
    if pa.types.is_decimal(array.type):
        ends = pc.min_max(array).as_py().values()
        if any(each is not None and abs(each.scaleb(type_.scale)) > LARGEST for each in ends):
            raise ValueError(wrong)
    values = numbers(array, type_)
    if type_.kind != "text" and np.count_nonzero(values == NULL) != array.null_count:
        raise ValueError(wrong)
    return values


def _values(name: str, type_name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of a column, without a dictionary; raise a ValueError if those of the type cannot be such."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not _may_be(column.type, type_name):
        raise ValueError(f"column {name} is {column.type}, not {type_name}")
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        try:
            pc.min_max(column).as_py()
        except OverflowError as error:
            raise ValueError(f"column {name} has a date outside the years 1 to 9999") from error
    return column


def _times_and_diffs(changes: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return the first two columns, whose names an answer may have, too."""
    for name, column in zip((TIME, DIFF), changes.columns, strict=False):
        if column.type != pa.int64() or column.null_count:
            raise ValueError(f"column {name} is {column.type} with {column.null_count} NULL, not int64 without")
    return changes.column(0).to_numpy(), changes.column(1).to_numpy()


def _may_be(actual: pa.DataType, name: str) -> bool:
    """Return whether an engine without exact changes may have an Arrow type for a type of the protocol."""
    types = pa.types
    if types.is_null(actual):
        return True
    match name:
        case "date32" | "timestamp" | "timestamptz":
            return bool(types.is_date(actual) or types.is_timestamp(actual))
        case "time":
            return bool(types.is_time(actual))
        case "interval":
            return bool(types.is_duration(actual))
        case "string":
            return bool(types.is_string(actual) or types.is_large_string(actual) or types.is_string_view(actual))
    return any(each(actual) for each in (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean))


def _is_exactly(actual: pa.DataType, name: str) -> bool:
    match name:
        case "int64":
            return bool(actual == pa.int64())
        case "date32":
            return bool(actual == pa.date32())
        case "string":
            return bool(actual == pa.string())
        case "bool" | "timestamp" | "timestamptz" | "time" | "interval":
            return bool(actual == ARROW_TYPES[name])
    return bool(pa.types.is_decimal128(actual) and name == f"decimal({actual.scale})")
