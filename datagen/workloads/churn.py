"""The workload churn:K: a load as in `insert`, then K rounds in which every relation changes.

In each round one in 1,000 customers moves to another nation, one in 1,000 parts changes its brand, type or price in
turn, one nation changes its region, and orders change with their lines as in `update`. One in 1,000 suppliers leaves
with its rows of partsupp, and comes back in the next round. In every second round, from the first, one region leaves;
it comes back in the next round. The numbers are rounded down, but are at least 1.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.derived import DerivedRows, ExtendedDataset
from deltamark.datagen.schema import RelationName
from deltamark.datagen.seeded import hashed
from deltamark.datagen.workloads.references import group_of, members, referred, through
from deltamark.datagen.workloads.steps import Steps, rows_in_step
from deltamark.datagen.workloads.update import derived_orders, order_versions
from deltamark.datagen.workloads.versions import Change, Versions, drawn, versions

CHANGED: tuple[RelationName, ...] = ("customer", "nation", "part")
PART_COLUMNS = ("brand", "type", "retailprice")


class Churn(Steps):
    def __init__(self, dataset: Dataset, steps: int) -> None:
        name = f"churn:{steps}"
        orders = order_versions(dataset, name, steps)
        others = {each: _versions(dataset, each, steps) for each in CHANGED}
        self._versions = {**orders, **others}
        self._absent = {**_absent_suppliers(dataset, steps), "region": _absent_regions(dataset, steps)}
        derived = {**derived_orders(orders), **_derived(others)}
        super().__init__(name, ExtendedDataset(dataset, derived), steps)

    def changes(self, name: RelationName, step: int) -> list[Change]:
        if name in self._versions:
            return self._versions[name].changes(step)
        absent = self._absent[name]
        back = [(absent[step - 1], 1)] if step else []
        return [*back, (absent[step], -1)]


def _versions(dataset: Dataset, name: RelationName, steps: int) -> Versions:
    rows, size = dataset.rows(name), rows_in_step(dataset, name)
    found = [drawn(f"{name} in step {step}", rows, size) for step in range(steps)]
    return versions(found, dataset.first_derived(name))


def _derived(found: Mapping[RelationName, Versions]) -> Mapping[RelationName, DerivedRows]:
    customer, nation, part = (found[name] for name in CHANGED)
    turns = {  # version v of row p changes column (v + p) % 3
        column: (part.number + part.stored - at) // 3 - (part.stored - at) // 3
        for at, column in enumerate(PART_COLUMNS)
    }
    return {
        "customer": customer.derived({"nationkey": customer.number}),
        "nation": nation.derived({"regionkey": nation.number}), "part": part.derived(turns),
    }  # fmt: skip


def _absent_suppliers(dataset: Dataset, steps: int) -> Mapping[RelationName, list[np.ndarray]]:
    """Return the suppliers that are absent after each step, and their rows of partsupp."""
    rows, size = dataset.rows("supplier"), rows_in_step(dataset, "supplier")
    count = rows // size
    order = np.argsort(hashed("suppliers", np.arange(rows)), kind="stable")
    groups = group_of(order[: count * size], size, rows)
    of_supplier = members(groups, count)
    of_partsupp = members(through(groups, referred(dataset, "partsupp", "supplier", "suppkey")), count)
    return {
        "supplier": [of_supplier[step % count] for step in range(steps)],
        "partsupp": [of_partsupp[step % count] for step in range(steps)],
    }


def _absent_regions(dataset: Dataset, steps: int) -> list[np.ndarray]:
    """Return the region that is absent after each step: none after every second one."""
    found = [drawn(f"region in step {step}", dataset.rows("region"), 1) for step in range(steps)]
    return [each[step % 2 :] for step, each in enumerate(found)]
