"""The definitions of the workloads, one row at a time."""

from __future__ import annotations

import numpy as np

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.seeded import hashed
from deltamark.datagen.tpch import RELATIONS
from deltamark.datagen.workloads.swap import BLOCK
from deltamark.datagen.workloads.workload import Workload

Change = tuple[int, str, int, int]  # round, relation, row, diff


def written(dataset: Dataset, name: str) -> list[Change]:
    kind, _, size = name.partition(":")
    return DEFINITIONS[kind](dataset, int(size or 0))


def listed(work: Workload) -> list[Change]:
    """List the changes of a workload round by round, as its pieces have them."""
    return [
        (round_, name, int(row), piece.diff)
        for name in RELATIONS
        for round_ in range(work.rounds)
        for piece in work.pieces(name, round_, round_ + 1)
        for row in piece.rows
    ]


def insert(dataset: Dataset, _: int) -> list[Change]:
    return [(row, name, row, 1) for name, rows in sizes(dataset).items() for row in range(rows)]


def window(dataset: Dataset, size: int) -> list[Change]:
    rows = sizes(dataset)
    static = [name for name in RELATIONS if name not in ("orders", "lineitem")]
    changes = [(0, name, row, 1) for name in static for row in range(rows[name])]
    for round_ in range(1, rows["orders"] + 1):
        changes += order(dataset, round_, round_ - 1, 1)
        if round_ >= size + 1:
            changes += order(dataset, round_, round_ - 1 - size, -1)
    return changes


def refresh(dataset: Dataset, held_back: int) -> list[Change]:
    """Define `refresh` for scale factors at which S is 1."""
    loaded = dataset.rows("orders") - held_back
    lines = sum(change[1] == "lineitem" for each in range(loaded) for change in order(dataset, 0, each, 1))
    kept = sizes(dataset) | {"orders": loaded, "lineitem": lines}
    changes = [(row, name, row, 1) for name in RELATIONS for row in range(kept[name])]
    load = max(kept.values())
    for step in range(held_back):
        changes += order(dataset, load + 2 * step, loaded + step, 1) + order(dataset, load + 2 * step + 1, step, -1)
    return changes


def slide(dataset: Dataset, size: int) -> list[Change]:
    changes = []
    for name, rows in sizes(dataset).items():
        for row in range(rows):
            if name in ("nation", "region"):
                changes.append((0, name, row, 1))
            else:
                changes += [(row, name, row, 1), (row + size, name, row, -1)]
    return changes


def late(dataset: Dataset, delay: int) -> list[Change]:
    changes = []
    for name, rows in sizes(dataset).items():
        delays = hashed(f"late {name}", np.arange(rows)) % (delay + 1)
        changes += [(row + by, name, row, 1) for row, by in enumerate(delays.tolist())]
    return changes


def expire(dataset: Dataset, age: int) -> list[Change]:
    rows = sizes(dataset)
    static = [name for name in RELATIONS if name not in ("orders", "lineitem")]
    changes = [(0, name, row, 1) for name in static for row in range(rows[name])]
    dates = column(dataset, "orders", "orderdate").tolist()
    for number, date in enumerate(dates):
        changes += order(dataset, 1 + date - min(dates), number, 1)
        if date + age <= max(dates):
            changes += order(dataset, 1 + date - min(dates) + age, number, -1)
    return changes


def swap(dataset: Dataset, steps: int) -> list[Change]:
    names = [name for name in RELATIONS if name not in ("nation", "region", "lineitem")]
    changes, load = insert(dataset, 0), max(sizes(dataset).values())
    for step in range(steps):
        name = names[step // BLOCK % len(names)]
        rows = swapped_rows(dataset, name)
        row, diff = rows[step % BLOCK // 2 % len(rows)], 1 if step % 2 else -1
        changes += order(dataset, load + step, row, diff) if name == "orders" else [(load + step, name, row, diff)]
    return changes


def swapped_rows(dataset: Dataset, name: str) -> list[int]:
    """Draw rows of a relation, orders with a mean number of lines first."""
    rows, lines = dataset.rows(name), dataset.rows("lineitem")

    def rank(row: int) -> tuple[int, int]:
        own = len(order(dataset, 0, row, 1)) - 1 if name == "orders" else 0
        far = abs(own - round(lines / rows)) if name == "orders" else 0
        return far, int(hashed(f"swap {name}", np.arange(row, row + 1))[0])

    return sorted(range(rows), key=rank)[: BLOCK // 2]


DEFINITIONS = {
    "insert": insert, "window": window, "refresh": refresh, "slide": slide, "late": late, "expire": expire,
    "swap": swap,
}  # fmt: skip

OTHERS = {
    "changes": "tests/datagen/test_file_source.py", "update": "tests/datagen/test_derived_rows.py",
    "churn": "tests/datagen/test_derived_rows.py", "hot": "tests/datagen/test_derived_rows.py",
    "zipf": "tests/datagen/test_skew.py",
}  # fmt: skip
"""The workloads whose definition is not one of single rows, with the tests of their laws."""


def sizes(dataset: Dataset) -> dict[str, int]:
    return {name: dataset.rows(name) for name in RELATIONS}


def order(dataset: Dataset, round_: int, number: int, diff: int) -> list[Change]:
    """Return the changes of an order with its lines."""
    lines = np.flatnonzero(column(dataset, "lineitem") == column(dataset, "orders")[number])
    return [(round_, "orders", number, diff), *((round_, "lineitem", row, diff) for row in lines.tolist())]


def column(dataset: Dataset, name: str, of: str = "orderkey") -> np.ndarray:
    return dataset.values(name, of, range(dataset.rows(name)))
