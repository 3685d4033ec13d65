"""The trials of the hosts, each on a cluster of its own, on which no executor may be left after its driver.

A query must yield the golden stream in spite of a fault. Generated data must be that of this machine.

Faults of the hosts of a cluster. Each strikes one worker host, drawn at random, or the master.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Literal

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.scratch import scratch
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.chaos.data import DataTrial, differences, digests
from deltamark.harness.chaos.hosts.cluster import WORKERS, Cluster, cluster
from deltamark.harness.chaos.running import POLL_S, SHUTDOWN_TIMEOUT_S, run
from deltamark.harness.chaos.spark import START_LIMIT_S, SparkOutcome, SparkStrike, StrikePlan, survive

Fault = Literal["none", "link", "flap", "slow", "lost", "master", "disk"]

LINK_DOWN_S = 30.0
FLAPS, FLAP_S = 8, 2.0
"""The times that a flapping link goes down, and the longest time that it stays down or up."""

SLOW_RATE, SLOW_S = "2mbit", 30.0
MASTER_DOWN_S = 5.0


def none(_cluster: Cluster, _host: str, _chance: Random) -> str:
    """Leave the cluster alone."""
    return "no fault"


def link(cluster: Cluster, host: str, _chance: Random) -> str:
    """Take a link down for a while."""
    with cluster.network.unplugged(host):
        time.sleep(LINK_DOWN_S)
    return f"the link of {host} down for {LINK_DOWN_S:.0f} s"


def flap(cluster: Cluster, host: str, chance: Random) -> str:
    """Take a link down and up again several times."""
    for _ in range(FLAPS):
        with cluster.network.unplugged(host):
            time.sleep(chance.uniform(0, FLAP_S))
        time.sleep(chance.uniform(0, FLAP_S))
    return f"the link of {host} down {FLAPS} times"


def slow(cluster: Cluster, host: str, _chance: Random) -> str:
    """Limit the rate of a link for a while."""
    with cluster.network.slowed_down(host, SLOW_RATE):
        time.sleep(SLOW_S)
    return f"the link of {host} at {SLOW_RATE} for {SLOW_S:.0f} s"


def lost(cluster: Cluster, host: str, _chance: Random) -> str:
    """Take a host away for good, as a power cut does."""
    cluster.network.remove(host)
    return f"{host} lost"


def master(cluster: Cluster, _host: str, _chance: Random) -> str:
    """Kill the master, and start it again."""
    cluster.restart_master(MASTER_DOWN_S)
    return f"the master restarted after {MASTER_DOWN_S:.0f} s"


def disk(cluster: Cluster, host: str, _chance: Random) -> str:
    """Fill the disk of a host, for good."""
    cluster.network.hosts[host].fill_disk()
    return f"the disk of {host} full"


FAULTS: Mapping[Fault, Callable[[Cluster, str, Random], str]] = {
    "none": none, "link": link, "flap": flap, "slow": slow, "lost": lost, "master": master, "disk": disk,
}  # fmt: skip


def striking(cluster: Cluster, fault: Fault) -> SparkStrike:
    """Return the strike of a fault."""
    return lambda _driver, chance: FAULTS[fault](cluster, chance.choice(WORKERS), chance)


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
