"""Values in Arrow's types (decimals, dates, strings) as the numbers of the engine."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamark.dataflow.types import NULL, Type, pack_short


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
    elif type_.kind == "date":
        array = array.cast(pa.int32())
    elif pa.types.is_decimal(array.type):
        array = _unscaled(array)
    return array.cast(pa.int64()).fill_null(NULL).to_numpy()


def _unscaled(array: pa.Array) -> pa.Array:
    """Return the low words of 128-bit decimals, which hold every number of 64 bits."""
    words = np.frombuffer(array.buffers()[1], dtype=np.int64)[2 * array.offset : 2 * (array.offset + len(array)) : 2]
    return pa.array(words, mask=array.is_null().to_numpy(zero_copy_only=False))
