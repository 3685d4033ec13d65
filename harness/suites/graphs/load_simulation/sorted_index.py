"""Indexes of rows whose values are numbered, asked for many at once: arrays in, arrays out.

Numbers of values are dense and in the order of the values, so that key columns are found one after another: what is
known of the first ones has a number, and that and the next column make a pair that is searched.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SEED = 0x9E3779B97F4A7C15
ODD = np.uint64(0xD6E8FEB86659FD93)
HALF = np.uint64(32)


class SortedIndex:
    """Rows by some columns, the keys, and in the order of another one, the value; no two are equal."""

    def __init__(self, keys: Sequence[np.ndarray], values: np.ndarray, weights: np.ndarray, base: int) -> None:
        self._base = base
        self._pairs: list[np.ndarray] = []
        ids, size = (keys[0], base) if keys else (np.zeros(len(values), np.int64), 1)
        for column in keys[1:]:
            known, ids = np.unique(ids * base + column, return_inverse=True)
            self._pairs.append(known)
            size = len(known)
        order = np.lexsort([values, ids])
        self._starts = np.zeros(size + 1, np.int64)
        np.cumsum(np.bincount(ids, minlength=size), out=self._starts[1:])
        self._rows = (ids * base + values)[order]
        self.keys = [each[order] for each in keys]
        self.values, self.weights = values[order], weights[order]

    def __len__(self) -> int:
        return len(self.values)

    def firsts(self) -> np.ndarray:
        """Return the place of the first row of each key."""
        return self._starts[:-1][np.diff(self._starts) > 0]

    def words(self) -> np.ndarray:
        """Return a word for the key of each row."""
        return words(self.keys, len(self))

    def find(self, keys: Sequence[np.ndarray], size: int) -> np.ndarray:
        """Number keys; -1 where there is no such row."""
        if not keys:
            return np.zeros(size, np.int64)
        ids = keys[0]
        for known, column in zip(self._pairs, keys[1:], strict=True):
            ids = _places(known, np.where(ids < 0, -1, ids * self._base + column))
        return ids

    def ranges(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return where the rows of keys are, from and to."""
        return self._starts[ids], np.where(ids < 0, self._starts[ids], self._starts[ids + 1])

    def places(self, ids: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return where rows of keys have these values; -1 where they do not."""
        return _places(self._rows, np.where(ids < 0, -1, ids * self._base + values))


def _places(known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    if not len(known):
        return np.full(len(wanted), -1)
    place = np.searchsorted(known, wanted)
    place[place == len(known)] = 0
    return np.where(known[place] == wanted, place, -1)


def words(columns: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Hash rows of columns to words of 64 bits."""
    found = np.full(size, SEED, np.uint64)
    for column in columns:
        found = mixed(found, column)
    return found


def mixed(word: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Hash words and one more column."""
    found = (word ^ more.astype(np.uint64)) * ODD
    found = (found ^ found >> HALF) * ODD
    return found ^ found >> HALF
