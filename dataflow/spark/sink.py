"""An answer's changes as values that anybody can read (Parquet), and back to what the engine says.

Money is decimal, a date a date, a code its word; what is missing is NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as f

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.types import NULL, Field, Schema, Type, pack_short, unpack_short

TIME, DIFF = "time", "diff"
DIGITS = 19
"""Of 64 bits."""


def names(schema: Schema) -> Iterator[tuple[Field, str]]:
    """Name the columns as they are stored: no two are the same, in capitals or not."""
    taken = {TIME, DIFF}
    for field in schema.fields:
        name = field.name
        while name.lower() in taken:
            name += "'"
        taken.add(name.lower())
        yield field, name


def handed(schema: Schema, changes: Batch) -> pd.DataFrame:
    """Hand changes to Spark: numbers, but texts as texts."""
    columns = {}
    for field, name in names(schema):
        values = changes.columns[field.name]
        columns[name] = _unpacked(values) if field.type.kind == "short" else values
    return pd.DataFrame({TIME: changes.time, DIFF: changes.diff, **columns})


def handed_types(schema: Schema) -> str:
    pairs = [(name, "string" if each.type.kind in ("short", "text") else "bigint") for each, name in names(schema)]
    return ", ".join(f"`{name}` {type_}" for name, type_ in [(TIME, "bigint"), (DIFF, "bigint"), *pairs])


def values(schema: Schema) -> list[Column]:
    """Say how Spark makes values of what it is handed."""
    found = [_value(f.col(f"`{name}`"), each.type).alias(name) for each, name in names(schema)]
    return [f.col(TIME), f.col(DIFF), *found]


def stored(schema: Schema, table: pa.Table) -> Batch:
    """Read changes back, in order of time."""
    order = np.argsort(time := table[TIME].to_numpy(), kind="stable")
    columns = {each.name: _stored(table[name].combine_chunks(), each.type)[order] for each, name in names(schema)}
    return Batch(time[order], table[DIFF].to_numpy()[order], columns)


def _value(column: Column, type_: Type) -> Column:
    if type_.kind in ("short", "text"):
        return column
    return f.when(column != f.lit(NULL), _there(column, type_))


def _there(column: Column, type_: Type) -> Column:
    """Make a value of what is not missing."""
    match type_.kind:
        case "date":
            return f.date_from_unix_date(column.cast("int"))
        case "code":
            return f.element_at(f.array(*(f.lit(word) for word in type_.words)), column.cast("int") + 1)
        case "int" if type_.scale:
            unit = f.lit(f"1e-{type_.scale}").cast(f"decimal({type_.scale},{type_.scale})")
            return (column.cast(f"decimal({DIGITS},0)") * unit).cast(f"decimal({DIGITS + type_.scale},{type_.scale})")
    return column


def _stored(array: pa.Array, type_: Type) -> np.ndarray:
    if type_.kind == "text":
        return array.to_numpy(zero_copy_only=False)
    if type_.kind == "code":
        array = pc.index_in(array, value_set=pa.array(type_.words, pa.string()))
    elif type_.kind == "short":
        coded = array.dictionary_encode()
        packed = pa.array([pack_short(text) for text in coded.dictionary.to_pylist()], pa.int64())
        array = packed.take(coded.indices)
    elif type_.kind == "date":
        array = array.cast(pa.int32())
    elif pa.types.is_decimal(array.type):
        array = _unscaled(array)
    return array.cast(pa.int64()).fill_null(NULL).to_numpy()


def _unscaled(array: pa.Array) -> pa.Array:
    """Take the low words of 128-bit decimals: these have no more digits than 64 bits."""
    words = np.frombuffer(array.buffers()[1], dtype=np.int64)[2 * array.offset : 2 * (array.offset + len(array)) : 2]
    return pa.array(words, mask=array.is_null().to_numpy(zero_copy_only=False))


def _unpacked(packed: np.ndarray) -> Sequence[str | None]:
    once, places = np.unique(packed, return_inverse=True)
    words = np.array([None if each == NULL else unpack_short(each) for each in once.tolist()], dtype=object)
    return words[places].tolist()
