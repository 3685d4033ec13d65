"""Print what bench would measure with the same settings, how much of it is done, and about how long the rest takes."""

from __future__ import annotations

import argparse
from collections import Counter

from harness import grid, machine, store, telling
from harness.asked import add_sweep as options
from harness.asked import asked, origin
from harness.commands.data import ensure
from harness.sweep import Plan, standing

__all__ = ["options", "run"]


def run(chosen: argparse.Namespace) -> int:
    dataset = ensure(chosen)
    directory = chosen.results / machine.name(machine.facts())
    known = store.read(directory).records
    plan = Plan(
        grid.tasks(asked(chosen)), standing(known, chosen.runs, chosen.timeout), origin(dataset.directory),
        chosen.runs, chosen.timeout,
    )  # fmt: skip
    print(telling.plan_line(plan, known))
    left = Counter(_batching(task) for task in plan.left)
    for batching, number in left.items():
        print(f"  {number:>3} x {batching}")
    return 0


def _batching(task: grid.Task) -> str:
    cell = task.cell
    return f"{cell.workload} {cell.logical}x{cell.physical} -w{cell.workers} {cell.engine}"
