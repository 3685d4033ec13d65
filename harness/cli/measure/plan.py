"""Print the cells that bench would measure with the same settings.

It also prints how many of them are done, and an estimate of the time for the rest.
"""

from __future__ import annotations

import argparse

from deltamark.harness.cli.sweep_options import add_bench as options
from deltamark.harness.cli.sweep_options import suite_of
from deltamark.harness.console.console import say_folded
from deltamark.harness.results import store
from deltamark.harness.suites.reporter import plan_line, plan_lines
from deltamark.harness.system import machine

__all__ = ["options", "run"]


def run(args: argparse.Namespace) -> int:
    suite = suite_of(args)
    plan = suite.plan(store.read(args.results / machine.name(machine.facts())).records, repository=args.repo)
    say_folded("\n".join([plan_line(plan, suite.headline(plan)), *plan_lines(plan)]))
    return 0
