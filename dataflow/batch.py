"""Batches: the changes of a collection as columns, and the addresses at which kernels read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import pyarrow as pa

BYTES = " bytes"
"""Appended to the name of a text column: the array of its bytes."""

MISSING = " missing"
"""Appended to the name of a text column that may be NULL: an array of bytes, 1 for each row without a text."""

TRAILING = 8
"""The bytes behind a text that kernels may load, since they load eight at a time. Their values do not matter."""

Column: TypeAlias = "np.ndarray | pa.StringArray"


class Batch:
    """Changes of a collection: times do not decrease; columns are int64, those of dates and codes int32.

    A text column is an Arrow array (or a sequence of str) in a feed, and an array of str and None in an answer. A
    column that may be NULL is an Arrow array with nulls, or an integer array in which types.NULL stands for them.
    """

    __slots__ = ("columns", "diff", "pointers", "time")

    def __init__(self, time: np.ndarray, diff: np.ndarray, columns: Mapping[str, Column]) -> None:
        self.time, self.diff, self.columns = time, diff, columns
        self.pointers: Pointers | None = None


@dataclass(frozen=True, slots=True)
class Pointers:
    """The addresses of the arrays of a batch, which is not empty; they stay valid, for this keeps the arrays alive."""

    rows: int
    last: int
    time: int
    diff: int
    columns: dict[str, int]
    arrays: tuple[object, ...]
    """Everything that the addresses lie in."""
    sizes: dict[str, int]
    """The bytes of those arrays whose size does not follow from the number of rows."""


def joined(batches: Sequence[Batch]) -> Batch:
    """Append batches of the same columns to one another."""
    time, diff = (np.concatenate(each) for each in ([each.time for each in batches], [each.diff for each in batches]))
    names = batches[0].columns
    return Batch(time, diff, {name: np.concatenate([each.columns[name] for each in batches]) for name in names})


def pointers_to(
    time: np.ndarray, diff: np.ndarray, columns: Mapping[str, Column], known: Mapping[str, int] = MappingProxyType({}),
    nullable: Iterable[str] = (),
) -> Pointers:  # fmt: skip
    """Take the addresses of arrays. known: those of some columns; nullable: the texts that may be NULL."""
    for name in nullable:
        columns = {**columns, **_flagged(name, columns[name])}
    places, sizes, arrays = dict(known), dict[str, int](), [time, diff]
    for name, values in columns.items():
        if isinstance(values, np.ndarray):
            arrays.append(values)
            if name not in known:
                places[name] = address_of(values)
        else:
            texts = readable(values)
            arrays.append(texts)
            places[name], places[f"{name}{BYTES}"], sizes[f"{name}{BYTES}"] = _text_addresses(texts)
    return Pointers(len(time), int(time[-1]), address_of(time), address_of(diff), places, tuple(arrays), sizes)


def trusted(
    time: np.ndarray, diff: np.ndarray, columns: Mapping[str, Column], known: Mapping[str, int] = MappingProxyType({}),
    nullable: Iterable[str] = (),
) -> Batch:  # fmt: skip
    """Make a batch whose order and bounds are known to hold, of contiguous arrays of the right types; not empty.

    known: the addresses of some of the columns; nullable: the texts that may be NULL.
    """
    batch = Batch(time, diff, columns)
    batch.pointers = pointers_to(time, diff, columns, known, nullable)
    return batch


def _flagged(name: str, texts: pa.StringArray) -> dict[str, Column]:
    """Return a text column without nulls, and the array that tells where there were any."""
    missing = texts.is_null().to_numpy(zero_copy_only=False)
    return {name: texts.fill_null(""), f"{name}{MISSING}": np.ascontiguousarray(missing, dtype=np.uint8)}


def address_of(array: np.ndarray) -> int:
    """Return the address of an array's first element, which is valid only as long as the array lives."""
    address: int = array.__array_interface__["data"][0]
    return address


def readable(texts: pa.StringArray) -> pa.StringArray:
    """Return texts behind the last of which there are as many bytes as kernels may read."""
    _, offsets, data = texts.buffers()
    last = int(np.frombuffer(offsets, np.int32)[texts.offset + len(texts)])
    if data is not None and last + TRAILING <= data.size:
        return texts
    content = (data.to_pybytes()[:last] if data is not None else b"") + bytes(TRAILING)
    return pa.StringArray.from_buffers(len(texts), offsets, pa.py_buffer(content), None, 0, texts.offset)


def _text_addresses(values: pa.StringArray) -> tuple[int, int, int]:
    """Return the address of the offsets of texts and of their bytes, and how many bytes there are."""
    _, offsets, data = values.buffers()
    return offsets.address + 4 * values.offset, data.address, data.size
