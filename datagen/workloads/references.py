"""References between relations: the rows to which others refer, and the rows of groups."""

from __future__ import annotations

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import RelationName


def referred(dataset: Dataset, name: RelationName, to: RelationName, key: str) -> np.ndarray:
    """Return the position of the row to which each row of a relation refers by a key, or -1."""
    low, high = map(int, dataset.manifest.relations[to].bounds[key])
    at = np.full(high - low + 2, -1)  # the last entry is that of keys out of the bounds
    at[_column(dataset, to, key) - low] = np.arange(dataset.rows(to))
    keys = _column(dataset, name, key) - low
    return at[np.where((keys < 0) | (keys > high - low), high - low + 1, keys)]


def members(groups: np.ndarray, count: int) -> list[np.ndarray]:
    """Return the positions of the members of each group. groups: the group of each position, or -1."""
    grouped = np.flatnonzero(groups >= 0)
    of = groups[grouped]
    return np.split(grouped[np.argsort(of, kind="stable")], np.cumsum(np.bincount(of, minlength=count))[:-1])


def group_of(rows: np.ndarray, size: int, positions: int) -> np.ndarray:
    """Put each `size` of some rows into a group; return the group of each position, or -1."""
    groups = np.full(positions, -1)
    groups[rows] = np.arange(len(rows)) // size
    return groups


def through(groups: np.ndarray, references: np.ndarray) -> np.ndarray:
    """Return the groups of the rows that are referred to, or -1."""
    return np.where(references >= 0, groups[references], -1)


def _column(dataset: Dataset, name: RelationName, column: str) -> np.ndarray:
    values = dataset.values(name, column, range(dataset.rows(name)))
    assert isinstance(values, np.ndarray)
    return values
