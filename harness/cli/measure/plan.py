"""Print the cells that bench would measure.

It also prints how many of them are done, and an estimate of the time for the rest.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from deltamark.harness import suites
from deltamark.harness.cli.sweep_options import add_bench as options
from deltamark.harness.cli.sweep_options import planned
from deltamark.harness.console import sweep_lines
from deltamark.harness.console.suite_lines import plan_line, plan_lines
from deltamark.harness.measure.grid import Task
from deltamark.harness.results import machine, store

__all__ = ["options", "run"]


def run(chosen: argparse.Namespace) -> int:
    suites.check_settings(chosen, chosen.usual)
    directory = chosen.results / machine.name(machine.facts())
    lines = _tpch(chosen, directory) if chosen.suite == suites.TPCH else _suite(chosen, directory)
    print("\n".join(lines))
    return 0


def _tpch(chosen: argparse.Namespace, directory: Path) -> list[str]:
    known = store.read(directory).records
    plan = planned(chosen, known)
    batchings = Counter(map(_batching, plan.left)).items()
    return [sweep_lines.plan_line(plan, known), *(f"  {number:>3} x {batching}" for batching, number in batchings)]


def _suite(chosen: argparse.Namespace, directory: Path) -> list[str]:
    plan = suites.planned(chosen, store.findings(directory))
    return [plan_line(plan), *plan_lines(plan)]


def _batching(task: Task) -> str:
    cell = task.cell
    return f"{cell.workload} {cell.logical}x{cell.physical} -w{cell.workers} {cell.engine}"
