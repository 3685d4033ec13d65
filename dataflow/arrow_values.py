"""Values in Arrow's types (decimals, dates, strings, conditions) as the numbers of the engine, and back."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamark.dataflow.types import NULL, TIMESTAMPS, Type, doubles, pack_short, stored_doubles, value_of

ARROW_TYPES = {
    "bool": pa.bool_(), "date": pa.date32(), "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"),
    "time": pa.time64("us"), "interval": pa.duration("us"),
}  # fmt: skip
"""The types of Arrow for stored numbers of other kinds."""

MAX_DECIMAL_DIGITS = 38
"""The decimal digits of 128 bits."""

Read: TypeAlias = "Callable[[pa.Array], np.ndarray | None]"
"""A way from values without NULL to numbers; it returns None for values that are outside the bounds of a column."""


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


def narrow_numbers(values: pa.Array | pa.ChunkedArray, type_: Type) -> np.ndarray | None:
    """Read numbers, dates or times where Arrow has them, in as few bytes as their type needs, and check their bounds.

    Return None if the values have to be converted in another way, if one is NULL, or if one is outside the bounds.
    """
    if values.null_count or not len(values):
        return None
    read = _reader(values.type, type_)
    if read is None:
        return None
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks)
    return read(values)


@lru_cache(maxsize=1024)
def _reader(arrow: pa.DataType, type_: Type) -> Read | None:
    """Return the way to read values of a type of Arrow where they are, or None."""
    if type_.kind == "int" and pa.types.is_decimal128(arrow) and arrow.scale == type_.scale:
        return partial(_low_words, type_)
    is_integer = type_.kind == "int" and not type_.scale and pa.types.is_integer(arrow)
    is_date = type_.kind == "date" and pa.types.is_date32(arrow)
    is_moment = type_.kind in TIMESTAMPS and pa.types.is_timestamp(arrow) and arrow.unit == "us"
    if is_moment and (arrow.tz is not None) != (type_.kind == "timestamptz"):
        return None
    if not (is_integer or is_date or is_moment or (type_.kind == "time" and arrow == pa.time64("us"))):
        return None
    given = np.dtype(arrow.to_pandas_dtype() if is_integer else f"i{arrow.bit_width // 8}")
    limits = np.iinfo(given)
    return partial(_fixed_words, type_, given, is_bounded=type_.low <= limits.min and limits.max <= type_.high)


def _fixed_words(type_: Type, given: np.dtype, array: pa.Array, *, is_bounded: bool) -> np.ndarray | None:
    """Read integers. is_bounded: whether the column may have all that these bytes can be."""
    size = given.itemsize
    values = np.frombuffer(array.buffers()[1], given, len(array), array.offset * size)
    if not is_bounded and not type_.low <= int(values.min()) <= int(values.max()) <= type_.high:
        return None
    if size == type_.width and given.kind == "i" and values.flags.aligned:
        return values
    return values.astype(f"i{type_.width}")


def _low_words(type_: Type, array: pa.Array) -> np.ndarray | None:
    """Read decimals of 128 bits whose value is in the lower 64."""
    words = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    low, high = words[::2], words[1::2]
    values = low.astype(f"i{type_.width}")
    sign = 8 * type_.width - 1
    if not (np.array_equal(values, low) and np.array_equal(values >> sign, high)):
        return None
    return values if type_.low <= int(values.min()) <= int(values.max()) <= type_.high else None


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
