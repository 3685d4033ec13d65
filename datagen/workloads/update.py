"""The workload update:K: a load as in `insert`, then K rounds that each change S = max(1, floor(SF*1500)) orders.

A hash draws the orders of each round. A changed order gets another status, and its lines get another quantity, price
and discount: the old versions of the rows leave and the new ones arrive in the same round.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.derived import DerivedRows, ExtendedDataset
from deltamark.datagen.schema import RelationName
from deltamark.datagen.workloads.refresh import orders_in_step
from deltamark.datagen.workloads.steps import Steps
from deltamark.datagen.workloads.versions import Change, Versions, drawn, versions
from deltamark.errors import DeltamarkError

CHANGED_COLUMNS: Mapping[RelationName, tuple[str, ...]] = {
    "orders": ("orderstatus",), "lineitem": ("quantity", "extendedprice", "discount"),
}  # fmt: skip


class OrderUpdates(Steps):
    def __init__(self, dataset: Dataset, steps: int) -> None:
        name = f"update:{steps}"
        self._versions = order_versions(dataset, name, steps)
        super().__init__(name, ExtendedDataset(dataset, derived_orders(self._versions)), steps)

    def changes(self, name: RelationName, step: int) -> list[Change]:
        return self._versions[name].changes(step) if name in self._versions else []


def order_versions(dataset: Dataset, name: str, steps: int) -> Mapping[RelationName, Versions]:
    """Draw the orders of all steps; return their versions and those of their lines."""
    rows, size = dataset.rows("orders"), orders_in_step(dataset)
    if steps * size > rows:
        remedy = f"at this scale at most {name.partition(':')[0]}:{rows // size}"
        raise DeltamarkError("more changes of orders than there are orders", name, remedy)
    orders = [drawn(f"orders in step {step}", rows, size) for step in range(steps)]
    return {
        "orders": versions(orders, dataset.first_derived("orders")),
        "lineitem": versions([dataset.lines_of(each) for each in orders], dataset.first_derived("lineitem")),
    }


def derived_orders(found: Mapping[RelationName, Versions]) -> Mapping[RelationName, DerivedRows]:
    """Return the derived rows of the versions of orders and lines."""
    return {name: each.derived(dict.fromkeys(CHANGED_COLUMNS[name], each.number)) for name, each in found.items()}
