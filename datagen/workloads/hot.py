"""The workload hot:N: a load as in `insert`, then N rounds in which busy customers and parts leave and come back.

One in 1,000 customers, rounded down but at least one, is a group; the customers with most orders are the first group.
Parts are grouped likewise by their lines. Of every four rounds, the first takes the next group of customers away, with
their orders and the lines of these; the second takes the next group of parts away, with their rows of partsupp and
lines. The third brings these customers back with their orders and lines, except the lines of the absent parts. The
fourth brings these parts back with their rows of partsupp and all their lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.schema import RelationName
from deltamark.datagen.workloads.references import group_of, members, referred, through
from deltamark.datagen.workloads.steps import Steps, rows_in_step
from deltamark.datagen.workloads.versions import Change
from deltamark.errors import DeltamarkError

PHASES = 4


class Hot(Steps):
    def __init__(self, dataset: Dataset, steps: int) -> None:
        super().__init__(f"hot:{steps}", dataset, steps)
        groups = min(dataset.rows(name) // rows_in_step(dataset, name) for name in ("customer", "part"))
        if steps > groups * PHASES:
            remedy = f"at this scale at most hot:{groups * PHASES}"
            raise DeltamarkError("more rounds than groups of customers and parts", self.name, remedy)
        self._groups = -(-steps // PHASES)

    def changes(self, name: RelationName, step: int) -> list[Change]:
        group, phase = divmod(step, PHASES)
        diff = -1 if phase < 2 else 1
        if name == "lineitem":
            return [(self._lines(group, phase), diff)]
        moving = self._customers if phase % 2 == 0 else self._parts
        return [(moving[name][group], diff)] if name in moving else []

    def _lines(self, group: int, phase: int) -> np.ndarray:
        """Return the lines that leave or come back: those of which the other group is present."""
        of_customers, of_parts = self._customer_lines(group), self._parts["lineitem"][group]
        match phase:
            case 0:
                return of_customers
            case 1:
                return np.setdiff1d(of_parts, of_customers)
            case 2:
                return np.setdiff1d(of_customers, of_parts)
        return of_parts

    def _customer_lines(self, group: int) -> np.ndarray:
        return self.dataset.lines_of(self._customers["orders"][group])

    @cached_property
    def _customers(self) -> Mapping[RelationName, list[np.ndarray]]:
        """The members of each group of customers, and their orders."""
        customer_of = referred(self.dataset, "orders", "customer", "custkey")
        groups = self._busiest("customer", customer_of)
        of_orders = through(groups, customer_of)
        return {"customer": members(groups, self._groups), "orders": members(of_orders, self._groups)}

    @cached_property
    def _parts(self) -> Mapping[RelationName, list[np.ndarray]]:
        """The members of each group of parts, their rows of partsupp, and their lines."""
        part_of = referred(self.dataset, "lineitem", "part", "partkey")
        groups = self._busiest("part", part_of)
        of_partsupp = through(groups, referred(self.dataset, "partsupp", "part", "partkey"))
        return {
            "part": members(groups, self._groups), "partsupp": members(of_partsupp, self._groups),
            "lineitem": members(through(groups, part_of), self._groups),
        }  # fmt: skip

    def _busiest(self, name: RelationName, references: np.ndarray) -> np.ndarray:
        """Return the group of each row: those with most references first; -1 for the rows of no group."""
        rows, size = self.dataset.rows(name), rows_in_step(self.dataset, name)
        counts = np.bincount(references[references >= 0], minlength=rows)
        return group_of(np.argsort(-counts, kind="stable")[: self._groups * size], size, rows)
