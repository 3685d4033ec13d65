"""Batches of changes as columns, and the memory addresses from which kernels read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

BYTES = " bytes"
"""Suffix of the name of a text column's second array, which holds the bytes of its texts."""

MISSING = " missing"
"""Suffix of the name of a nullable text column's third array: one byte a row, 1 if the text is NULL."""

PADDING_BYTES = 8
"""Bytes that must follow the last text: kernels load eight bytes at a time, and ignore what lies beyond a text."""

SHOWN_ROWS = 10
"""Rows that the `repr` of a batch shows."""

Column: TypeAlias = "np.ndarray | pa.StringArray"
Times: TypeAlias = "np.ndarray | Sequence[int]"


class EachBatch(NamedTuple):
    """The number of changes that each of several batches made, and the nanoseconds that it took."""

    changes: np.ndarray
    nanoseconds: np.ndarray


class Batch:
    """Changes of a collection: each row has a time, a signed weight (`diff`) and a value in every column.

    Times do not decrease. Numbers are arrays of integers, decimals are scaled to integers, and conditions are bools, or
    1 and 0, which an answer has. An input reads integers of as few bytes as the bounds of the column need, so a feed
    converts those of other types; an answer has int64. Doubles are float arrays; an answer has the int64 arrays that
    store them, from which `arrow_changes` makes doubles. A text column is an Arrow array or a sequence of str, and in
    an answer an array of str and None. A nullable column is an Arrow array with nulls, or an integer array in which
    `types.NULL` marks the missing values. Lists of ints are converted when they are fed.

    >>> Batch([0, 1], [1, -1], {"shop": [7, 7], "price": [900, 900]})
    Batch of 2 changes
     time  diff  shop  price
        0     1     7    900
        1    -1     7    900
    """

    __slots__ = ("added", "columns", "diff", "pointers", "time")

    def __init__(
        self, time: np.ndarray | Sequence[int], diff: np.ndarray | Sequence[int],
        columns: Mapping[str, Column | Sequence[int] | Sequence[str]],
    ) -> None:  # fmt: skip
        self.time = time if isinstance(time, np.ndarray) else _array(time)
        self.diff = diff if isinstance(diff, np.ndarray) else _array(diff)
        self.columns: Mapping[str, Column] = columns
        self.pointers: Pointers | None = None
        self.added = 0
        """The live rows that a feed counts, if it does not check the batch."""

    def __repr__(self) -> str:
        rows = len(self.time)
        table = [
            [name, *map(str, list(values[:SHOWN_ROWS]))]
            for name, values in {"time": self.time, "diff": self.diff, **self.columns}.items()
        ]
        widths = [max(map(len, column)) for column in table]
        lines = [
            "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
            for row in zip(*table, strict=True)
        ]
        more = [f"and {rows - SHOWN_ROWS} more"] if rows > SHOWN_ROWS else []
        return "\n ".join([f"Batch of {rows} change{'' if rows == 1 else 's'}", *(lines if rows else []), *more])


def _array(values: Sequence[int]) -> np.ndarray:
    """Convert a list or tuple of ints to an array; leave the check of anything else to the feed."""
    if isinstance(values, list | tuple):
        return np.asarray(values) if values else np.empty(0, np.int64)
    return values  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Pointers:
    """The addresses of the arrays of a non-empty batch; `arrays` keeps the memory alive."""

    rows: int
    last: int
    """The last time in the batch."""
    time: int
    diff: int
    columns: dict[str, int]
    arrays: tuple[object, ...]
    sizes: dict[str, int]
    """Bytes of those arrays whose size does not follow from the number of rows."""
    inserts: bool
    """Whether all weights are 1."""


def concatenated(batches: Sequence[Batch]) -> Batch:
    """Return one batch with the changes of several that have the same columns, one after another.

    >>> concatenated([Batch([0], [1], {"shop": [7]}), Batch([1], [1], {"shop": [8]})])
    Batch of 2 changes
     time  diff  shop
        0     1     7
        1     1     8
    """
    if len(batches) == 1:
        return batches[0]
    return Batch(
        np.concatenate([each.time for each in batches]),
        np.concatenate([each.diff for each in batches]),
        {name: _concatenated([each.columns[name] for each in batches]) for name in batches[0].columns},
    )


def _concatenated(parts: Sequence[Column]) -> Column:
    if all(isinstance(each, pa.Array) for each in parts):
        return pa.concat_arrays(parts)
    return np.concatenate(parts)


def merged(batches: Sequence[Batch]) -> Batch:
    """Return the changes of several batches in the order of their times; changes of one time keep their order."""
    if len(batches) == 1:
        return batches[0]
    batch = concatenated(batches)
    if not (np.diff(batch.time) < 0).any():
        return batch
    order = np.argsort(batch.time, kind="stable")
    return Batch(batch.time[order], batch.diff[order], {name: each.take(order) for name, each in batch.columns.items()})


def pointers_to(
    time: np.ndarray, diff: np.ndarray, columns: Mapping[str, Column], known: Mapping[str, int] = MappingProxyType({}),
    nullable: Iterable[str] = (),
) -> Pointers:  # fmt: skip
    """Return the addresses of arrays. known: addresses of some columns; nullable: text columns that may be NULL."""
    for name in nullable:
        columns = {**columns, **_flagged(name, columns[name])}
    addresses, sizes, arrays = dict(known), dict[str, int](), [time, diff]
    for name, values in columns.items():
        if isinstance(values, np.ndarray):
            arrays.append(values)
            if name not in known:
                addresses[name] = address_of(values)
        else:
            texts = _padded(values)
            arrays.append(texts)
            addresses[name], addresses[f"{name}{BYTES}"], sizes[f"{name}{BYTES}"] = _text_addresses(texts)
    inserts = bool(diff[0] == 1 and (diff == 1).all())
    return Pointers(
        len(time), int(time[-1]), address_of(time), address_of(diff), addresses, tuple(arrays), sizes, inserts
    )


def trusted(
    time: np.ndarray, diff: np.ndarray, columns: Mapping[str, Column], known: Mapping[str, int] = MappingProxyType({}),
    nullable: Iterable[str] = (),
) -> Batch:  # fmt: skip
    """Return a batch that a feed does not check: its arrays are contiguous, of the right types, ordered, within bounds.

    It must not be empty. known: addresses of some columns; nullable: text columns that may be NULL.
    """
    batch = Batch(time, diff, columns)
    batch.pointers = pointers_to(time, diff, columns, known, nullable)
    return batch


def _flagged(name: str, texts: pa.StringArray) -> dict[str, Column]:
    """Return a text column without nulls, and the array that flags its missing texts."""
    missing = texts.is_null().to_numpy(zero_copy_only=False)
    return {name: texts.fill_null(""), f"{name}{MISSING}": np.ascontiguousarray(missing, dtype=np.uint8)}


def address_of(array: np.ndarray) -> int:
    """Return the address of an array's first element; it is valid while the array lives."""
    address: int = array.__array_interface__["data"][0]
    return address


def _padded(texts: pa.StringArray) -> pa.StringArray:
    """Return equal texts whose bytes are followed by PADDING_BYTES more. No other bytes are copied."""
    _, offsets, data = texts.buffers()
    own = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    first, last = int(own[0]), int(own[-1])
    if data is not None and last + PADDING_BYTES <= data.size:
        return texts
    content = (data[first:last].to_pybytes() if data is not None else b"") + bytes(PADDING_BYTES)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(own - own[0]), pa.py_buffer(content))


def _text_addresses(values: pa.StringArray) -> tuple[int, int, int]:
    """Return the address of the offsets of texts, the address of their bytes, and the number of these bytes."""
    _, offsets, data = values.buffers()
    return offsets.address + 4 * values.offset, data.address, data.size
