"""The suite of loops: distances over a random graph, from scratch, attached to an index of its edges, and maintained.

All of it is one cell, since what is maintained is what was attached. Its answers are compared with numpy's.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial

import numpy as np

from deltamark.harness.results.finding import Figures, Finding, Task
from deltamark.harness.suites.loops.reach import measure, random_graph
from deltamark.harness.suites.run import WrongError

DISTANCES, NUMPY = "distances", "numpy"


def make(chosen: argparse.Namespace) -> None:
    """Do nothing: a random graph is drawn where it is measured."""


def tasks(chosen: argparse.Namespace) -> list[Task]:
    """List the cell of the suite."""
    of = f"{chosen.nodes:,} nodes, {chosen.edges:,} edges, {chosen.roots:,} roots"
    drawn = partial(
        distances, nodes=chosen.nodes, edges=chosen.edges, roots=chosen.roots, changes=chosen.changes,
        sizes=chosen.batches,
    )  # fmt: skip
    return [Task(DISTANCES, of, "", "", drawn)]


def distances(nodes: int, edges: int, roots: int, changes: int, sizes: tuple[int, ...]) -> Iterator[Finding]:
    """Yield a row of what comes before the changes, and a row for each size of batches of these."""
    asked = np.random.default_rng(0).choice(nodes, min(roots, nodes), replace=False)
    found = measure(random_graph(nodes, edges, 0), asked, sizes, changes, 0)
    if found.wrong:
        raise WrongError(
            "a wrong answer", found.wrong, "pytest tests/harness/suites/test_reach.py says if small graphs are right"
        )
    numbers = {
        "index": found.index, "scratch": found.scratch, "attached": found.attached, "index_bytes": found.index_bytes,
        "more_bytes": found.more_bytes, "reached": found.reached, "farthest": found.farthest,
    }  # fmt: skip
    yield Finding(DISTANCES, {name: [each] for name, each in numbers.items()}, verified=NUMPY)
    for each in found.updates:
        figures: Figures = {"batches": [each.batches], "seconds": [each.seconds]}
        yield Finding(str(each.size), figures, verified=NUMPY)
