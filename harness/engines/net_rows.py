"""The net changes of a relation in a batch: a row that comes and goes, or goes and comes back, does not change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deltamark.datagen.feed import Delta
from deltamark.datagen.positions import Rows


@dataclass(frozen=True)
class NetRows:
    """The rows that arrive, as indices in the delta, and the positions of those that leave, in order."""

    arriving: Rows
    leaving: Rows


def net_rows(delta: Delta) -> NetRows:
    if isinstance(delta.rows, range):
        everything, nothing = range(len(delta.rows)), range(0)
        return NetRows(everything, nothing) if delta.diff[0] > 0 else NetRows(nothing, delta.rows)
    positions, first, which = np.unique(delta.rows, return_index=True, return_inverse=True)
    weights = np.bincount(which, delta.diff)
    return NetRows(np.sort(first[weights > 0]), as_range(positions[weights < 0]))


def as_range(positions: np.ndarray) -> Rows:
    """Return increasing positions as a range if they are consecutive."""
    if not len(positions) or positions[-1] - positions[0] + 1 > len(positions):
        return positions
    return range(int(positions[0]), int(positions[-1]) + 1)
