"""Suites beside that of TPC-H. A suite lists its cells; each cell is measured in a process of its own, and has rows of
figures (harness/results/finding.py), of which harness/tables makes the tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from deltamark.errors import DeltamarkError
from deltamark.harness.measure.sweep import Effort
from deltamark.harness.results import machine
from deltamark.harness.results.finding import Finding, Task
from deltamark.harness.results.record import Origin
from deltamark.harness.suites.graphs import suite as graph
from deltamark.harness.suites.loops import suite as loops
from deltamark.harness.suites.run import Plan
from deltamark.harness.suites.sharing import suite as shared

TPCH = "tpch"
EVERYWHERE = ("suite", "data", "master", "results", "runs", "timeout", "debug")


@dataclass(frozen=True)
class Suite:
    """make: the data that its cells are of; tasks: the cells, whether that is there or not."""

    make: Callable[[argparse.Namespace], object]
    tasks: Callable[[argparse.Namespace], list[Task]]
    settings: tuple[str, ...]
    """What can be said of it, beside what can be said of every suite."""


SUITES: Mapping[str, Suite] = {
    "graph": Suite(graph.make, graph.tasks, ("scale", "hub", "vertices", "batches")),
    "loops": Suite(loops.make, loops.tasks, ("nodes", "edges", "roots", "changes", "batches")),
    "shared": Suite(shared.make, shared.tasks, ("sf", "queries", "logical", "physical", "fuel")),
}
OWN = {name for suite in SUITES.values() for name in suite.settings} - {"sf", "queries", "logical", "physical"}
"""What cannot be said of TPC-H."""


def planned(chosen: argparse.Namespace, known: Sequence[Finding], session: str = "") -> Plan:
    """Return what is to be measured of a suite, and what of that is known."""
    origin = Origin("", machine.code("suites"), machine.versions(), machine.commit(), session)
    effort = Effort(chosen.runs, chosen.timeout)
    return Plan.of(chosen.suite, SUITES[chosen.suite].tasks(chosen), known, origin, effort)


def check_settings(chosen: argparse.Namespace, usual: Mapping[str, object]) -> None:
    """Refuse what says nothing to the chosen suite of the benchmark."""
    suite = SUITES.get(chosen.suite)
    only({*EVERYWHERE, *suite.settings} if suite else {*usual} - OWN, chosen, usual)


def only(known: Iterable[str], chosen: argparse.Namespace, usual: Mapping[str, object]) -> None:
    """Refuse settings that are none of those known, and say other things than usual."""
    for name, value in usual.items():
        if name not in known and vars(chosen)[name] != value:
            settings = ", ".join(sorted(each.upper() for each in known))
            raise DeltamarkError(f"no setting of the suite {chosen.suite}", name.upper(), f"it has {settings}")
