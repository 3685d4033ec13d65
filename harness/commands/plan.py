"""Print what bench would measure with the same settings, how much of it is done, and about how long the rest takes."""

from __future__ import annotations

import argparse
from collections import Counter

from harness import machine, store, telling
from harness.asked import add_sweep as options
from harness.asked import planned
from harness.grid import Task

__all__ = ["options", "run"]


def run(chosen: argparse.Namespace) -> int:
    known = store.read(chosen.results / machine.name(machine.facts())).records
    plan = planned(chosen, known)
    print(telling.plan_line(plan, known))
    for batching, number in Counter(map(_batching, plan.left)).items():
        print(f"  {number:>3} x {batching}")
    return 0


def _batching(task: Task) -> str:
    cell = task.cell
    return f"{cell.workload} {cell.logical}x{cell.physical} -w{cell.workers} {cell.engine}"
