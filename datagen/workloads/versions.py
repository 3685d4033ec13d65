"""Rows that are replaced by their next versions, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deltamark.datagen.derived import DerivedRows
from deltamark.datagen.positions import Rows
from deltamark.datagen.seeded import hashed

Change = tuple[Rows, int]
"""Positions, and 1 if the rows are inserted or -1 if they are retracted."""


@dataclass(frozen=True)
class Versions:
    """The versions of rows of a relation in the order of the steps that insert them.

    stored: the position of the stored row; number: from 1 up; replaced: the position of the version before; first: the
    position of the first of them; ends: their number at the end of each step.
    """

    stored: np.ndarray
    number: np.ndarray
    replaced: np.ndarray
    first: int
    ends: np.ndarray

    def changes(self, step: int) -> list[Change]:
        """Return the retraction of the old versions and the insertion of the new ones."""
        low, high = (int(self.ends[step - 1]) if step else 0), int(self.ends[step])
        return [(self.replaced[low:high], -1), (range(self.first + low, self.first + high), 1)]

    def derived(self, changes: Mapping[str, np.ndarray]) -> DerivedRows:
        """Return the versions as derived rows. changes: how often columns have changed, by name."""
        return DerivedRows(self.stored, changes)


def versions(steps: Sequence[np.ndarray], first: int) -> Versions:
    """Number the versions of rows. steps: the positions of the stored rows, each at most once in a step."""
    stored = np.concatenate(steps)
    order = np.argsort(stored, kind="stable")
    ordered, places = stored[order], np.arange(len(stored))
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    number, replaced = np.empty_like(stored), np.empty_like(stored)
    number[order] = places - np.maximum.accumulate(np.where(begins, places, 0)) + 1
    replaced[order] = np.where(begins, ordered, first + np.concatenate([order[:1], order[:-1]]))
    return Versions(stored, number, replaced, first, np.cumsum([len(step) for step in steps]))


def drawn(purpose: str, rows: int, count: int) -> np.ndarray:
    """Draw the positions of `count` different rows."""
    size = count
    while True:
        found, first = np.unique(hashed(purpose, np.arange(size)) % rows, return_index=True)
        if len(found) >= count:
            return found[np.argsort(first)[:count]]
        size *= 2
