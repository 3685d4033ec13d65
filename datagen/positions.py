"""Values at positions of a column that is stored in pieces, each with 1 << shift rows except the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

Values: TypeAlias = "np.ndarray | pa.StringArray"
"""The values of a column: an Arrow array for text, a numpy array otherwise (of int32 indices for codes)."""

Rows: TypeAlias = "range | np.ndarray"
"""Positions of rows: consecutive ones as a range, others in any order as an array."""


def array_of(rows: Rows) -> np.ndarray:
    """Return positions as an array, which numpy would make of a range number by number."""
    return np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows


def index_of(rows: Rows) -> slice | np.ndarray:
    """Return positions as an index of an array."""
    return slice(rows.start, rows.stop) if isinstance(rows, range) else rows


def values_at(pieces: Sequence[Values], shift: int, rows: Rows) -> Values:
    """Return the values at some positions: a view if they are consecutive in one piece, otherwise a copy."""
    return cut(pieces, shift, rows.start, rows.stop) if isinstance(rows, range) else _gathered(pieces, shift, rows)


def cut(pieces: Sequence[Values], shift: int, start: int, stop: int) -> Values:
    """Return the values at the positions start..stop-1."""
    first, last = start >> shift, (stop - 1) >> shift
    base = first << shift
    if last <= first:
        return pieces[first][start - base : stop - base]
    return joined(
        [pieces[piece][max(start - (piece << shift), 0) : stop - (piece << shift)] for piece in range(first, last + 1)]
    )


def _gathered(pieces: Sequence[Values], shift: int, rows: np.ndarray) -> Values:
    if not len(rows):
        return pieces[0][:0]
    numbers = rows >> shift
    within = rows & ((1 << shift) - 1)
    if (numbers == numbers[0]).all():
        return pieces[numbers[0]].take(within)
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    parts = [pieces[number].take(at) for number, at in zip(found, np.split(within[order], starts[1:]), strict=True)]
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return joined(parts).take(back)


def joined(parts: Sequence[Values]) -> Values:
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else pa.concat_arrays(parts)


def concatenated_ranges(starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """Return the positions starts[0]..stops[0]-1, starts[1]..stops[1]-1, and so on."""
    sizes = stops - starts
    return np.repeat(stops - np.cumsum(sizes), sizes) + np.arange(sizes.sum())
