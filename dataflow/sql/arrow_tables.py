"""Inputs from the schemas of Arrow and of Parquet files, and batches from their values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from numbers import Integral
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltamark.dataflow.arrow_values import MAX_DECIMAL_DIGITS, arrow_array, narrow_numbers, numbers
from deltamark.dataflow.batch import Batch, Column
from deltamark.dataflow.language.collection import ROWS, Collection, Names, declared
from deltamark.dataflow.sql.tables import MAX_DIGITS, absent_type, sql_type, usual
from deltamark.dataflow.types import EPOCH, LARGEST, NULL, TIMESTAMPS, Field, Schema, Type, integer, microseconds
from deltamark.errors import DeltamarkError, naming, unknown

Bound: TypeAlias = "int | Decimal | dt.date | dt.time"
Bounds = tuple[Bound, Bound]
"""The smallest and the largest value of a column."""

PathLike: TypeAlias = "str | Path"

WEIGHT = integer(-LARGEST, LARGEST)

MEANT = {
    "date": "a date", "timestamp": "a datetime without a time zone", "timestamptz": "a datetime with a time zone",
    "time": "a time",
}  # fmt: skip
"""The bounds of columns that are no numbers."""

TIME, DIFF = "time", "diff"
"""The columns of a table of changes that are no columns of the rows."""

INTEGER_NAMES = {
    pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.int64(): "BIGINT", pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT", pa.uint32(): "UINTEGER", pa.uint64(): "UBIGINT",
}  # fmt: skip
"""The types of SQL for the integers of Arrow."""


def arrow_table(
    name: str, schema: pa.Schema | pa.Table | pa.RecordBatch, rows: int | None = None,
    bounds: Mapping[str, Bounds] = MappingProxyType({}), key: Names = (),
) -> Collection:  # fmt: skip
    """Declare an input with the columns of an Arrow table, of a batch, or of their schema.

    rows: the largest number of live rows; by default, that of the table, or ROWS for a schema. A table that will grow
    needs a larger number. bounds: the smallest and the largest value of some columns; the others have the bounds of
    their types. key: columns in whose values no two live rows agree.

    >>> arrow_table("sales", pa.schema([pa.field("shop", pa.int32(), nullable=False)]), 1000, {"shop": (1, 99)})
    Collection of at most 1000 rows
      shop  integer(1, 99)
    """
    if not isinstance(schema, pa.Schema):
        schema, rows = schema.schema, schema.num_rows if rows is None else rows
    _refuse_repeated(name, schema.names)
    for column in bounds:
        if column not in schema.names:
            raise unknown(f"column of {name}", column, schema.names)
    fields = [_field(f"{name}.{each.name}", each, bounds.get(each.name)) for each in schema]
    return declared(name, fields, ROWS if rows is None else rows, key)


def parquet_table(  # noqa: PLR0913 (as arrow_table, with the choice of columns)
    name: str, paths: PathLike | Sequence[PathLike], rows: int | None = None, columns: Sequence[str] | None = None,
    key: Names = (), *, bounds: Mapping[str, Bounds] = MappingProxyType({}),
) -> Collection:  # fmt: skip
    """Declare an input for the rows of Parquet files, with all columns of the first file or some of them.

    The statistics of the files give the bounds of a column and whether it may be NULL; without statistics, its type
    does. So later rows must be within the bounds of these files. rows: the largest number of live rows; by default,
    that of all rows of the files. key: columns in whose values no two live rows agree. bounds: the smallest and the
    largest value of some columns, in place of those in the statistics.
    """
    files = [footer(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    if not files:
        raise DeltamarkError("a table without files", name, "give at least one Parquet file")
    first = files[0].schema.to_arrow_schema()
    _refuse_repeated(name, first.names)
    for column in columns or ():
        if column not in first.names:
            raise unknown(f"column of {name}", column, first.names)
    chosen = [each for each in first if columns is None or each.name in columns]
    for file in files[1:]:
        _refuse_other_columns(name, chosen, file.schema.to_arrow_schema())
    fields, stated = [], dict(bounds)
    for each in chosen:
        _sql_name(f"{name}.{each.name}", each.type)
        found = _Statistics([chunk for file in files for chunk in _chunks(file, each.name)])
        fields.append(each.with_nullable(found.may_be_null and each.nullable))
        has_bounds = not (_is_text(each.type) or pa.types.is_boolean(each.type) or pa.types.is_floating(each.type))
        if found.bounds and has_bounds:
            stated.setdefault(each.name, found.bounds)
    count = sum(file.num_rows for file in files) if rows is None else rows
    return arrow_table(name, pa.schema(fields), count, stated, key)


def arrow_batch(data: pa.Table | pa.RecordBatch, schema: Schema, time: int | np.ndarray, diff: int | str = 1) -> Batch:
    """Convert Arrow's values to a batch of an input: decimals, dates, integers, strings, dictionaries and nulls.

    time: the logical time of all rows or of each row. diff: the weight of all rows, or the name of the column that has
    the weight of each row. Other columns that the schema lacks are ignored.

    >>> rows = pa.table({"price": pa.array([Decimal("9.50"), None]), "weight": [1, -1]})
    >>> sales = source("sales", {"price": integer(0, 9999, scale=2).or_null()}, rows=1000)
    >>> arrow_batch(rows, sales.schema, time=0, diff="weight").columns["price"].tolist() == [950, NULL]
    True
    """
    if isinstance(diff, str) and diff not in data.schema.names:
        raise unknown("column of weights", diff, data.schema.names)
    _refuse_repeated("rows", data.schema.names)
    diffs = arrow_column(diff, WEIGHT, data[diff]) if isinstance(diff, str) else np.full(data.num_rows, diff)
    times = np.full(data.num_rows, time) if isinstance(time, int) else time
    names = [name for name in schema.names if name in data.schema.names]
    return Batch(times, diffs, {name: arrow_column(name, schema[name], data[name]) for name in names})


def arrow_changes(changes: Batch, schema: Schema) -> pa.Table:
    """Convert changes to a table of Arrow, with the columns `time`, `diff` and those of the schema, as values.

    Decimals, dates, words, conditions and NULL are values of Arrow's types, from which `arrow_batch` makes equal
    changes. The two columns of an exact quotient stay two.

    >>> arrow_changes(Batch([0], [1], {"price": [950]}), source("sales", {"price": integer(0, 9999, scale=2)}).schema)
    pyarrow.Table
    time: int64
    diff: int64
    price: decimal128(38, 2)
    ----
    time: [[0]]
    diff: [[1]]
    price: [[9.50]]
    """
    names = [TIME, DIFF, *schema.names]
    _refuse_repeated("changes", names)
    columns = [arrow_array(changes.columns[name], schema[name]) for name in schema.names]
    return pa.table([pa.array(changes.time), pa.array(changes.diff), *columns], names=names)


def _field(where: str, field: pa.Field, bounds: Bounds | None) -> Field:
    """Return the column of an input for one of Arrow. where: names the table and the column."""
    name = _sql_name(where, field.type)
    type_ = usual(sql_type(where, name))
    if bounds is not None:
        type_ = _bounded(where, type_, bounds)
    return Field(field.name, type_.or_null() if field.nullable else type_, name)


def _bounded(where: str, whole: Type, bounds: Bounds) -> Type:
    if whole.kind in ("text", "bool", "double"):
        raise DeltamarkError("bounds of a text, a BOOLEAN or a DOUBLE", where, "give bounds of numbers and dates")
    if not isinstance(bounds, tuple | list) or len(bounds) != len(("low", "high")):
        raise DeltamarkError("not the bounds of a column", f"{where}: {bounds!r}", "give (smallest, largest)")
    low, high = (_stored(where, whole, each) for each in bounds)
    if low > high:
        actual = f"{where}: {bounds[0]} to {bounds[1]}"
        raise DeltamarkError("bounds that no value is between", actual, "exchange them")
    return replace(whole, low=low, high=high)


def _stored(where: str, type_: Type, bound: Bound) -> int:
    """Return the number that a column stores for a bound."""
    if type_.kind == "date":
        if isinstance(bound, dt.date) and not isinstance(bound, dt.datetime):
            return (bound - EPOCH).days
    elif type_.kind in TIMESTAMPS:
        if isinstance(bound, dt.datetime) and (bound.tzinfo is not None) == (type_.kind == "timestamptz"):
            return microseconds(bound)
    elif type_.kind == "time":
        if isinstance(bound, dt.time):
            return microseconds(dt.datetime.combine(EPOCH, bound))
    elif isinstance(bound, Decimal | Integral):
        number = bound if isinstance(bound, Decimal) else Decimal(int(bound))
        if number.is_finite() and abs(number) > LARGEST // 10**type_.scale:
            remedy = "give narrower bounds, or leave the column out"
            raise DeltamarkError("a value may not fit in 64 bits", f"{where}: {bound}", remedy)
        if number.is_finite() and (scaled := number.scaleb(type_.scale)) == int(scaled):
            return int(scaled)
    digits = f" with at most {type_.scale} digits behind the point" if type_.scale else ""
    wanted = MEANT.get(type_.kind, f"a {'Decimal' if digits else 'whole number'}{digits}")
    remedy = f"give {wanted}"
    raise DeltamarkError("not a bound of the column", f"{where}: {bound!r}", remedy)


def _sql_name(where: str, type_: pa.DataType) -> str:
    """Return the type of SQL that has the values of a type of Arrow."""
    if _is_text(type_):
        return "VARCHAR"
    if pa.types.is_boolean(type_):
        return "BOOLEAN"
    if pa.types.is_integer(type_):
        return INTEGER_NAMES[type_]
    if pa.types.is_decimal(type_) and 0 <= type_.scale <= min(type_.precision, MAX_DIGITS):
        return f"DECIMAL({type_.precision},{type_.scale})"
    if pa.types.is_date(type_):
        return "DATE"
    if pa.types.is_timestamp(type_):
        return "TIMESTAMP WITH TIME ZONE" if type_.tz else "TIMESTAMP"
    if pa.types.is_time(type_):
        return "TIME"
    if pa.types.is_float64(type_) or pa.types.is_float32(type_):
        return "DOUBLE" if pa.types.is_float64(type_) else "FLOAT"
    raise absent_type(where, str(type_))


def _is_text(type_: pa.DataType) -> bool:
    kind = type_.value_type if pa.types.is_dictionary(type_) else type_
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def footer(path: PathLike) -> pq.FileMetaData:
    """Return the metadata of a Parquet file: its schema, row groups and statistics."""
    try:
        with naming(path):
            return pq.read_metadata(path)
    except pa.ArrowException as error:
        actual = f"{path}: {str(error).splitlines()[0]}"
        raise DeltamarkError("not a Parquet file", actual, "give files that Arrow can read") from None


def _refuse_repeated(table: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise DeltamarkError("several columns with the same name", f"{table}.{name}", "rename all but one")


def _refuse_other_columns(name: str, fields: Sequence[pa.Field], schema: pa.Schema) -> None:
    for field in fields:
        found = schema.field(field.name).type if field.name in schema.names else "missing"
        if found != field.type:
            actual = f"{name}.{field.name}: {field.type} and {found}"
            raise DeltamarkError("files with different columns", actual, "cast them to the same types")


def _chunks(file: pq.FileMetaData, column: str) -> Iterator[pq.Statistics | None]:
    """Yield the statistics of a column in each row group."""
    for number in range(file.num_row_groups):
        group = file.row_group(number)
        for at in range(group.num_columns):
            if group.column(at).path_in_schema == column:
                yield group.column(at).statistics


class _Statistics:
    """The bounds of a column over several row groups, and whether it may be NULL."""

    def __init__(self, chunks: Sequence[pq.Statistics | None]) -> None:
        self.may_be_null = any(each is None or not each.has_null_count or each.null_count for each in chunks)
        present = [each for each in chunks if each is None or each.num_values]
        self.bounds: Bounds | None = None
        if present and all(each is not None and each.has_min_max for each in present):
            with suppress(OverflowError):  # a date that Python does not have
                self.bounds = min(each.min for each in present if each), max(each.max for each in present if each)


def arrow_column(name: str, type_: Type, values: pa.Array | pa.ChunkedArray) -> Column:
    """Convert the values of a column; refuse those that the type of the column does not have."""
    narrow = narrow_numbers(values, type_)
    if narrow is not None:
        return narrow
    try:
        array = pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) and values.chunks else values
        array = _cast(array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array, type_)
    except (pa.ArrowException, TypeError) as error:
        actual = f"{name}: {str(error).splitlines()[0]}"
        raise DeltamarkError("values that a column cannot have", actual, f"feed values of the type {type_}") from None
    if array.null_count and not type_.nullable:
        actual = f"{name}: {array.null_count} of them"
        raise DeltamarkError("missing values", actual, "declare the column as nullable")
    if type_.kind == "text":
        return array
    stored = numbers(array, type_)
    if np.count_nonzero(stored == NULL) != array.null_count:
        remedy = "declare wider bounds, more words, or TEXT"
        raise DeltamarkError("a value outside its bounds", f"{name}: not of the type {type_}", remedy)
    return stored


def _cast(array: pa.Array, type_: Type) -> pa.Array:
    """Cast values to the Arrow type from which `numbers` reads a column; raise an error for one that would change."""
    if type_.kind in ("text", "code", "short"):
        if not _is_text(array.type) and not pa.types.is_null(array.type):
            raise TypeError(f"{array.type}")
        return array.cast(pa.string())
    if type_.kind == "date" and (pa.types.is_date(array.type) or pa.types.is_null(array.type)):
        return array.cast(pa.date32())
    is_number = pa.types.is_integer(array.type) or pa.types.is_decimal(array.type) or pa.types.is_null(array.type)
    if type_.kind == "bool" and (pa.types.is_boolean(array.type) or pa.types.is_null(array.type)):
        return array.cast(pa.bool_())
    if type_.kind == "time" and (pa.types.is_time(array.type) or pa.types.is_null(array.type)):
        return array.cast(pa.time64("us"))
    if type_.kind in TIMESTAMPS and (pa.types.is_timestamp(array.type) or pa.types.is_null(array.type)):
        if pa.types.is_timestamp(array.type) and (array.type.tz is not None) != (type_.kind == "timestamptz"):
            raise TypeError(f"{array.type}")
        return array.cast(pa.timestamp("us", "UTC" if type_.kind == "timestamptz" else None))
    if type_.kind == "double" and (pa.types.is_floating(array.type) or pa.types.is_null(array.type)):
        return array.cast(pa.float64())
    if type_.kind != "int" or not is_number:
        raise TypeError(f"{array.type}")
    if not type_.scale and not pa.types.is_decimal(array.type):
        return array.cast(pa.int64())
    return array.cast(pa.decimal128(MAX_DECIMAL_DIGITS, type_.scale))
