"""Sorted indexes of rows of dense codes, with look-ups of many keys at once: arrays in, arrays out.

Codes are in the order of the values. A key of several columns is found column by column: the number of the prefix so
far and the next column form a pair, which is searched.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SEED = 0x9E3779B97F4A7C15
ODD = np.uint64(0xD6E8FEB86659FD93)
HALF = np.uint64(32)


class SortedIndex:
    """Distinct rows, sorted by the key columns and then by the value column."""

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
        """Return the position of the first row of each key."""
        return self._starts[:-1][np.diff(self._starts) > 0]

    def words(self) -> np.ndarray:
        """Return the hash of the key of each row."""
        return words(self.keys, len(self))

    def find(self, keys: Sequence[np.ndarray], size: int) -> np.ndarray:
        """Return the numbers of keys; -1 for absent keys."""
        if not keys:
            return np.zeros(size, np.int64)
        ids = keys[0]
        for known, column in zip(self._pairs, keys[1:], strict=True):
            ids = _places(known, np.where(ids < 0, -1, ids * self._base + column))
        return ids

    def ranges(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first position and the end of the rows of keys."""
        return self._starts[ids], np.where(ids < 0, self._starts[ids], self._starts[ids + 1])

    def places(self, ids: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the positions of rows with these keys and values; -1 for absent rows."""
        return _places(self._rows, np.where(ids < 0, -1, ids * self._base + values))


def _places(known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    if not len(known):
        return np.full(len(wanted), -1)
    place = np.searchsorted(known, wanted)
    place[place == len(known)] = 0
    return np.where(known[place] == wanted, place, -1)


def words(columns: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Hash rows to 64-bit words."""
    found = np.full(size, SEED, np.uint64)
    for column in columns:
        found = mixed(found, column)
    return found


def mixed(word: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Combine hashes with one more column."""
    found = (word ^ more.astype(np.uint64)) * ODD
    found = (found ^ found >> HALF) * ODD
    return found ^ found >> HALF
