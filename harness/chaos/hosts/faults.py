"""Faults of the hosts of a cluster. Each strikes one worker host, drawn at random, or the master."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Literal

from deltamark.harness.chaos.hosts.cluster import WORKERS, Cluster
from deltamark.harness.chaos.spark import SparkStrike

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
