"""The trials of the hosts, each on a cluster of its own, on which no executor may be left after its driver.

A query must yield the golden stream in spite of a fault. Generated data must be that of this machine.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.scratch import scratch
from deltamark.harness.chaos.data import DataTrial, differences, digests
from deltamark.harness.chaos.hosts.cluster import Cluster, cluster
from deltamark.harness.chaos.hosts.faults import Fault, striking
from deltamark.harness.chaos.processes import POLL_S, SHUTDOWN_TIMEOUT_S
from deltamark.harness.chaos.running import run
from deltamark.harness.chaos.spark import START_LIMIT_S, SparkOutcome, StrikePlan, survive
from deltamark.harness.measure.cell import Cell

MAX_DELAY_S = 10.0
"""The largest time from the first commit to the fault."""


def survive_fault(cell: Cell, dataset: Dataset, fault: Fault, chance: Random) -> SparkOutcome:
    """Run a query on a new cluster to its end, and strike one fault meanwhile."""
    with scratch() as directory, cluster(directory) as running:
        plan = StrikePlan(striking(running, fault), 1, MAX_DELAY_S, running.driver_command)
        outcome = survive(cell.but(master=running.url), dataset, plan, chance)
        outcome.problems += _left(running)
        return outcome


def generate(settings: Sequence[str], dataset: Dataset) -> list[str]:
    """Generate data on a new cluster; return the laws that do not hold.

    settings: those that name the data; dataset: the same data, of this machine.
    """
    with scratch() as directory, cluster(directory) as running:
        trial = DataTrial([*settings, f"MASTER={running.url}"], directory, running.driver_command)
        trial.prepare()
        done = run(trial.command, START_LIMIT_S)
        if done.code != 0:
            return [f"the generation of data ended with {done.code}: {done.errors.strip()}"]
        found = differences(digests(directory / "data" / dataset.directory.name), digests(dataset.directory))
        return [*found, *(f"process {name} was left" for name in done.remaining), *_left(running)]


def _left(running: Cluster) -> list[str]:
    """Wait until no executor is left; name those that do not end."""
    deadline = time.monotonic() + SHUTDOWN_TIMEOUT_S
    while (left := running.executors()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return [f"the executor {process.pid} was left" for process in left]
