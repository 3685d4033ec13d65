"""Values in Arrow's types (decimals, dates, strings, conditions) as the numbers of the engine, and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamark.dataflow.types import NULL, Type, doubles, pack_short, stored_doubles, value_of

ARROW_TYPES = {
    "bool": pa.bool_(), "date": pa.date32(), "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"),
    "time": pa.time64("us"), "interval": pa.duration("us"),
}  # fmt: skip
"""The types of Arrow for stored numbers of other kinds."""

MAX_DECIMAL_DIGITS = 38
"""The decimal digits of 128 bits."""


def numbers(array: pa.Array, type_: Type) -> np.ndarray:
    """Convert values of a type to numbers; texts stay as they are."""
    if type_.kind == "text":
        return array.to_numpy(zero_copy_only=False)
    if type_.kind == "code":
        array = pc.index_in(array, value_set=pa.array(type_.words, pa.string()))
    elif type_.kind == "short":
        encoded = array.dictionary_encode()
        packed = pa.array([pack_short(text) for text in encoded.dictionary.to_pylist()], pa.int64())
        array = packed.take(encoded.indices)
    elif type_.kind == "double":
        found: np.ndarray = stored_doubles(array.fill_null(0).to_numpy(zero_copy_only=False))
        return np.where(array.is_null().to_numpy(zero_copy_only=False), NULL, found)
    elif type_.kind == "date":
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz))
    elif pa.types.is_decimal(array.type):
        array = _unscaled(array)
    return array.cast(pa.int64()).fill_null(NULL).to_numpy()


def arrow_array(stored: pa.Array | np.ndarray, type_: Type) -> pa.Array:
    """Convert the numbers or texts of a column to values, as the inverse of `numbers`."""
    if type_.kind == "text":
        return pa.array(stored, pa.string())
    array = pa.array(np.asarray(stored, dtype=np.int64), mask=np.asarray(stored) == NULL)
    if type_.kind == "double":
        numbers_ = np.asarray(stored, dtype=np.int64)
        return pa.array(doubles(numbers_), mask=numbers_ == NULL)
    if type_.kind in ("code", "short"):
        encoded = array.dictionary_encode()
        words = [value_of(type_, number) for number in encoded.dictionary.to_pylist()]
        return pa.array(words, pa.string()).take(encoded.indices)
    if type_.kind == "int":
        return _scaled(array, type_.scale) if type_.scale else array
    if type_.kind == "date":
        array = array.cast(pa.int32())
    return array.cast(ARROW_TYPES[type_.kind])


def _scaled(array: pa.Array, scale: int) -> pa.Array:
    """Return 128-bit decimals with the unscaled values of an array."""
    whole = array.cast(pa.decimal128(MAX_DECIMAL_DIGITS))
    return pa.Array.from_buffers(pa.decimal128(MAX_DECIMAL_DIGITS, scale), len(whole), whole.buffers())


def _unscaled(array: pa.Array) -> pa.Array:
    """Return the low words of 128-bit decimals. One that needs more than 64 bits becomes NULL."""
    words = np.frombuffer(array.buffers()[1], dtype=np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    low, high = words[::2], words[1::2]
    missing = array.is_null().to_numpy(zero_copy_only=False)
    return pa.array(np.where(high == low >> 63, low, NULL), mask=missing)
