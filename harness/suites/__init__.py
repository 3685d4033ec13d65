"""Suites beside that of TPC-H. A suite lists its cells; each cell is measured in this process, and has rows of figures
(harness/finding.py), of which harness/tables makes the tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from deltamark import DeltamarkError
from harness import machine
from harness.finding import Finding, Task
from harness.record import Origin
from harness.suites import graph, shared
from harness.suites.run import Plan

TPCH = "tpch"
EVERYWHERE = ("suite", "data", "master", "results", "runs", "debug")


@dataclass(frozen=True)
class Suite:
    tasks: Callable[[argparse.Namespace], list[Task]]
    settings: tuple[str, ...]
    """What can be said of it, beside what can be said of every suite."""


SUITES: Mapping[str, Suite] = {
    "graph": Suite(graph.tasks, ("scale", "hub", "vertices", "batches")),
    "shared": Suite(shared.tasks, ("sf", "queries", "logical", "physical", "fuel")),
}
OWN = {name for suite in SUITES.values() for name in suite.settings} - {"sf", "queries", "logical", "physical"}
"""What cannot be said of TPC-H."""


def planned(chosen: argparse.Namespace, known: Sequence[Finding], session: str) -> Plan:
    """Return what is to be measured of a suite, and what of that is known."""
    origin = Origin("", machine.code("suites"), machine.versions(), machine.commit(), session)
    return Plan.of(chosen.suite, SUITES[chosen.suite].tasks(chosen), known, origin, chosen.runs)


def check_settings(chosen: argparse.Namespace, usual: Mapping[str, object]) -> None:
    """Refuse what says nothing to the chosen suite."""
    suite = SUITES.get(chosen.suite)
    known = {*EVERYWHERE, *suite.settings} if suite else {*usual} - OWN
    for name, value in usual.items():
        if name not in known and vars(chosen)[name] != value:
            settings = ", ".join(sorted(each.upper() for each in known))
            raise DeltamarkError(f"no setting of the suite {chosen.suite}", name.upper(), f"it has {settings}")
