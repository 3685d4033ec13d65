"""The workload swap:K: single rows leave and come back, as many at every scale factor."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import Relations
from deltamark.datagen.workloads.steps import Change, Steps, drawn
from deltamark.datagen.workloads.workload import WorkloadKind

ROWS = 20
"""The rows of a relation that leave and come back one after another. Not tuned."""

BLOCK = 2 * ROWS
"""The rounds in which these rows leave and come back, before the next relation follows."""


class Swap(Steps):
    """swap:K: each block of rounds belongs to a relation. Every second round takes a row away, which comes back in the
    next one. A hash draws the rows, ROWS for each relation; one with fewer begins again. The rows of events move with
    their members. Rows of fixed relations stay. After the last relation the first one follows, with the same rows.
    """

    def __init__(self, dataset: Dataset, steps: int) -> None:
        super().__init__(f"swap:{steps}", dataset, steps)
        self._names = swapped(dataset.relations)

    def changes(self, name: str, step: int) -> list[Change]:
        block, place = divmod(step, BLOCK)
        moving = self._names[block % len(self._names)]
        rows = self._drawn[moving]
        if moving not in (name, self.dataset.relations.moving.get(name)) or not len(rows):
            return []
        row = rows[[place // 2 % len(rows)]]
        return [(row if name == moving else self.dataset.members_of(name, row), 1 if place % 2 else -1)]

    @cached_property
    def _drawn(self) -> dict[str, np.ndarray]:
        sizes = {name: self.dataset.rows(name) for name in self._names}
        empty = np.empty(0, np.int64)
        return {name: drawn(f"swap {name}", of, min(of, ROWS)) if of else empty for name, of in sizes.items()}


def swapped(relations: Relations) -> list[str]:
    """Return the relations whose rows leave by themselves: neither those that stay nor the members of events."""
    members = {name for name, owner in relations.moving.items() if name != owner}
    return [each.name for each in relations.values() if "fixed" not in each.roles and each.name not in members]


def _all_fixed(relations: Relations) -> str:
    return "" if swapped(relations) else "all relations are fixed"


KINDS = (
    WorkloadKind(
        name="swap", letter="K", open=Swap, small="250", lacks=_all_fixed,
        meaning="loads all rows, then single rows leave and come back in K rounds",
    ),
)  # fmt: skip
