"""Workloads in the rounds of the data: `changes`, and, if rows only arrive, `insert` and `slide:N`."""

from __future__ import annotations

import numpy as np

from deltamark.datagen.dataset import Dataset, map_batch
from deltamark.datagen.schema import CHANGES_SCHEMA
from deltamark.datagen.workloads.workload import ChangedRows, Workload, refusal
from deltamark.errors import DeltamarkError


class Changes(Workload):
    """Rows arrive and leave as the files say.

    slides: the rounds after which each row leaves, if none does by the files; the rows of fixed relations stay.
    """

    name = "changes"

    def __init__(self, dataset: Dataset, name: str = name, slides: int = 0) -> None:
        self.name = name
        self.dataset = dataset
        if not dataset.manifest.changes:
            raise refusal(self.name, "the data comes without changes")
        given = {name: self._read(name) for name in dataset.manifest.changes}
        self.retracts = any((diffs < 0).any() for _, diffs, _ in given.values())
        """Whether any row leaves by the files."""
        fixed = {each.name for each in dataset.relations.having("fixed")}
        self._changes = {
            name: _leaving(*each, slides) if slides and name not in fixed else each for name, each in given.items()
        }
        self.rounds = 1 + max((int(rounds[-1]) for *_, rounds in self._changes.values() if len(rounds)), default=0)

    def most_live(self, name: str) -> int:
        _, diffs, rounds = self._changes[name]
        ends = np.append(rounds[1:] != rounds[:-1], True) if len(rounds) else np.empty(0, bool)
        return int(np.cumsum(diffs)[ends].max(initial=0))

    def key(self, name: str) -> tuple[str, ...]:
        """Return the key of a relation. Files in which a key is live twice are refused when the data is made."""
        return self.dataset.relations[name].key if self.retracts else super().key(name)

    def pieces(self, name: str, start: int, stop: int) -> list[ChangedRows]:
        rows, diffs, rounds = self._changes[name]
        low, high = np.searchsorted(rounds, (start, stop)).tolist()
        if low == high:
            return []
        cuts = low + 1 + np.flatnonzero(diffs[low + 1 : high] != diffs[low : high - 1])
        return [
            ChangedRows(rows[first:last], int(diffs[first]), start, rounds[first:last])
            for first, last in zip([low, *cuts.tolist()], [*cuts.tolist(), high], strict=True)
        ]

    def _read(self, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        chunks = self.dataset.manifest.changes[name]
        batches = [map_batch(self.dataset.directory, chunk, CHANGES_SCHEMA) for chunk in chunks]
        rows, diffs, rounds = (
            np.concatenate([batch.column(column).to_numpy() for batch in batches]) for column in CHANGES_SCHEMA.names
        )
        in_order = (rounds[1:] >= rounds[:-1]).all() and rounds.min(initial=0) >= 0
        known = ((rows >= 0) & (rows < self.dataset.rows(name))).all() and (np.abs(diffs) == 1).all()
        if not (in_order and known):
            raise DeltamarkError("changes that are out of order or of no row", name, "make the data again")
        return rows, diffs, rounds


def _leaving(
    rows: np.ndarray, diffs: np.ndarray, rounds: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Add the retraction of each row some rounds after its insertion; in a round, rows leave before others arrive."""
    rounds = np.concatenate([rounds + size, rounds])
    order = np.argsort(rounds, kind="stable")
    return np.tile(rows, 2)[order], np.concatenate([-diffs, diffs])[order], rounds[order]
