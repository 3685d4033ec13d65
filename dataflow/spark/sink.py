"""The changes of an answer as Parquet files, with values that other programs can read.

Decimals, dates, conditions, words of codes and texts are stored as such, and missing values as NULL. Spark makes these
values from the numbers of the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as f

from deltamark.dataflow.arrow_values import numbers
from deltamark.dataflow.batch import Batch
from deltamark.dataflow.batch import Column as Values
from deltamark.dataflow.spark.planning.staged_plan import ANSWER, query_of
from deltamark.dataflow.types import NULL, Field, Schema, Type, value_of

QUERY, TIME, DIFF = "query", "time", "diff"
TEXT_KINDS = ("short", "text")
WRITTEN_KINDS = (*TEXT_KINDS, "double")
"""The kinds of values that are handed to Spark as texts: a frame of pandas cannot tell NaN from NULL."""

MAX_DIGITS = 19
"""The decimal digits of a 64-bit number."""


def to_spark(schema: Schema, changes: Batch) -> pd.DataFrame:
    """Return changes as a frame that is handed to Spark: texts as texts, doubles as written, and others as numbers."""
    columns = {}
    for field, name in _named(schema):
        values = changes.columns[field.name]
        columns[name] = _written(values, field.type) if field.type.kind in ("short", "double") else _objects(values)
    return pd.DataFrame({TIME: changes.time, DIFF: changes.diff, **columns})


def spark_schema(schema: Schema) -> str:
    """Return Spark's schema of the frames that `to_spark` makes."""
    pairs = [(name, _sent_type(field)) for field, name in _named(schema)]
    return ", ".join(f"`{name}` {type_}" for name, type_ in [(TIME, "bigint"), (DIFF, "bigint"), *pairs])


def value_columns(schema: Schema) -> list[Column]:
    """Return the expressions by which Spark converts such a frame to the stored values."""
    columns = [_value(f.col(f"`{name}`"), field.type).alias(name) for field, name in _named(schema)]
    return [f.col(TIME), f.col(DIFF), *columns]


def sent_frame(answers: Mapping[str, Schema], edge: str, changes: Batch) -> pd.DataFrame:
    """Return the changes of an answer as a frame that is handed to Spark. One of several has the columns of all."""
    if ANSWER in answers:
        return to_spark(answers[ANSWER], changes)
    own = to_spark(answers[edge], changes)
    columns: dict[str, object] = {QUERY: query_of(edge), TIME: own[TIME], DIFF: own[DIFF]}
    for other, schema in answers.items():
        for _, name in _named(schema):
            columns[f"{other} {name}"] = own[name] if other == edge else None
    return pd.DataFrame(columns)


def sent_schema(answers: Mapping[str, Schema]) -> str:
    """Return Spark's schema of the frames that `sent_frame` makes."""
    if ANSWER in answers:
        return spark_schema(answers[ANSWER])
    pairs = [(f"{edge} {name}", _sent_type(field)) for edge in answers for field, name in _named(answers[edge])]
    all_pairs = [(QUERY, "string"), (TIME, "bigint"), (DIFF, "bigint"), *pairs]
    return ", ".join(f"`{name}` {type_}" for name, type_ in all_pairs)


def stored_columns(answers: Mapping[str, Schema]) -> list[Column]:
    """Return the expressions that convert such a frame: the values of one of several answers are in a struct."""
    if ANSWER in answers:
        return value_columns(answers[ANSWER])
    structs = []
    for edge, schema in answers.items():
        values = [_value(f.col(f"`{edge} {name}`"), field.type).alias(name) for field, name in _named(schema)]
        structs.append(f.when(f.col(QUERY) == query_of(edge), f.struct(*values)).alias(query_of(edge)))
    return [f.col(QUERY), f.col(TIME), f.col(DIFF), *structs]


def from_stored(schema: Schema, table: pa.Table) -> Batch:
    """Convert stored values back to changes, in the order of time."""
    time = table[TIME].to_numpy()
    order = np.argsort(time, kind="stable")
    columns = {each.name: numbers(table[name].combine_chunks(), each.type)[order] for each, name in _named(schema)}
    return Batch(time[order], table[DIFF].to_numpy()[order], columns)


def _named(schema: Schema) -> Iterator[tuple[Field, str]]:
    """Yield each field with the name of its stored column; Spark's names must differ in more than their case."""
    taken = {TIME, DIFF}
    for field in schema.fields:
        name = field.name
        while name.lower() in taken:
            name += "'"
        taken.add(name.lower())
        yield field, name


def _value(column: Column, type_: Type) -> Column:
    if type_.kind in TEXT_KINDS:
        return column
    if type_.kind == "double":
        return column.cast("double")
    return f.when(column != f.lit(NULL), _present_value(column, type_))


def _present_value(column: Column, type_: Type) -> Column:
    match type_.kind:
        case "timestamp" | "timestamptz":
            return f.timestamp_micros(column)
        case "bool":
            return column.cast("boolean")
        case "date":
            return f.date_from_unix_date(column.cast("int"))
        case "code":
            return f.element_at(f.array(*(f.lit(word) for word in type_.words)), column.cast("int") + 1)
        case "int" if type_.scale:
            unit = f.lit(f"1e-{type_.scale}").cast(f"decimal({type_.scale},{type_.scale})")
            digits = MAX_DIGITS + type_.scale
            return (column.cast(f"decimal({MAX_DIGITS},0)") * unit).cast(f"decimal({digits},{type_.scale})")
    return column


def _written(stored: np.ndarray, type_: Type) -> Sequence[str | None]:
    """Write each different short text or double once."""
    different, positions = np.unique(stored, return_inverse=True)
    texts = [None if number == NULL else str(value_of(type_, number)) for number in different.tolist()]
    return np.array(texts, dtype=object)[positions].tolist()


def _objects(values: Values) -> np.ndarray:
    """Return numbers with 64 bits, and texts as objects: an answer that has passed through stages has others."""
    if not isinstance(values, np.ndarray):
        return values.to_numpy(zero_copy_only=False)
    return values if values.dtype == object else values.astype(np.int64, copy=False)


def _sent_type(field: Field) -> str:
    return "string" if field.type.kind in WRITTEN_KINDS else "bigint"
