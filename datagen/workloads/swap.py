"""The workload swap:K: single rows leave and come back, as many at every scale factor."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import Relations
from deltamark.datagen.seeded import hashed
from deltamark.datagen.workloads.steps import Change, Steps
from deltamark.datagen.workloads.workload import WorkloadKind

ROWS = 100
"""The rows of a relation that leave and come back one after another. With fewer of them, their mean work differs more
from one scale factor to the next."""

BLOCK = 2 * ROWS
"""The rounds in which these rows leave and come back, before the next relation follows."""


class Swap(Steps):
    """swap:K: each block of rounds belongs to a relation. Every second round takes a row away, which comes back in the
    next one. A hash draws the rows, ROWS for each relation; one with fewer begins again. The rows of events move with
    their members, so those are drawn first that have as many members as the mean. Rows of fixed relations stay. After
    the last relation the first one follows, with the same rows.
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
        return {name: self._draw(name) for name in self._names}

    def _draw(self, name: str) -> np.ndarray:
        """Draw rows of a relation, those first whose members are nearest to the mean in number."""
        rows = self.dataset.rows(name)
        moving = [each for each, owner in self.dataset.relations.moving.items() if owner == name != each]
        members = [np.diff(self.dataset.first_members(each, 0, rows + 1)) for each in moving]
        sizes = np.sum(members, axis=0) if members and rows else np.zeros(rows, np.int64)
        far = np.abs(sizes - round(sizes.mean())) if rows else sizes
        return np.lexsort((hashed(f"swap {name}", np.arange(rows)), far))[:ROWS]


def swapped(relations: Relations) -> list[str]:
    """Return the relations whose rows leave by themselves: neither those that stay nor the members of events."""
    members = {name for name, owner in relations.moving.items() if name != owner}
    return [each.name for each in relations.values() if "fixed" not in each.roles and each.name not in members]


def _all_fixed(relations: Relations) -> str:
    return "" if swapped(relations) else "all relations are fixed"


KINDS = (
    WorkloadKind(
        name="swap", letter="K", open=Swap, small="500", lacks=_all_fixed,
        meaning="loads all rows, then single rows leave and come back in K rounds",
    ),
)  # fmt: skip
