"""A network of hosts: each has a link to one switch, which is a bridge on a host of its own.

The network is apart from that of this machine, so two runs have the same addresses without a conflict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from deltamark.harness.chaos.hosts.host import Host, Place

SWITCH, BRIDGE, INTERFACE = "switch", "bridge", "eth0"
ADDRESS, PREFIX = "10.77.0.{}", 24
BURST, QUEUE_MS = "64kb", 400
"""The bytes that a slow link passes at once, and the longest time that a packet waits before it is dropped."""


@dataclass(frozen=True)
class Network:
    """The hosts by name, and the switch that connects them."""

    hosts: Mapping[str, Host]
    switch: Host

    @contextmanager
    def unplugged(self, name: str) -> Iterator[None]:
        """Take down the link of a host during the block."""
        self.switch.configure("ip", "link", "set", "dev", name, "down")
        try:
            yield
        finally:
            self.switch.configure("ip", "link", "set", "dev", name, "up")

    def remove(self, name: str) -> None:
        """Take a host off the network and end it; the others are not told that its connections have ended."""
        self.switch.configure("ip", "link", "set", "dev", name, "down")
        self.hosts[name].end()

    @contextmanager
    def slowed_down(self, name: str, rate: str) -> Iterator[None]:
        """Limit the rate of a link in both directions during the block; `tc` reads the rate, such as 2mbit."""
        limit = ("root", "tbf", "rate", rate, "burst", BURST, "latency", f"{QUEUE_MS}ms")
        ends = ((self.switch, name), (self.hosts[name], INTERFACE))
        for host, interface in ends:
            host.configure("tc", "qdisc", "add", "dev", interface, *limit)
        try:
            yield
        finally:
            for host, interface in ends:
                host.configure("tc", "qdisc", "del", "dev", interface, "root")


@contextmanager
def network(names: Sequence[str], directory: Path) -> Iterator[Network]:
    """Make a network of hosts, and end all their processes with the block. directory: an empty one for their disks."""
    disk, file = directory / "disk", directory / "hosts"
    disk.mkdir()
    places = [Place(name, ADDRESS.format(number), disk, file) for number, name in enumerate((SWITCH, *names), 1)]
    lines = ["127.0.0.1 localhost", *(f"{place.address} {place.name}" for place in places)]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with ExitStack() as ends:
        switch, *hosts = (_started(place, ends) for place in places)
        switch.configure("ip", "link", "add", "name", BRIDGE, "type", "bridge")
        switch.configure("ip", "link", "set", "dev", BRIDGE, "up")
        for host in hosts:
            _connect(switch, host)
        yield Network({host.place.name: host for host in hosts}, switch)


def _started(place: Place, ends: ExitStack) -> Host:
    host = Host(place)
    ends.callback(host.end)
    return host


def _connect(switch: Host, host: Host) -> None:
    """Make the link of a host: a pair of interfaces, one on the host and one, with the host's name, on the switch."""
    name = host.place.name
    ends = ("type", "veth", "peer", "name", INTERFACE, "netns", str(host.first_process))
    switch.configure("ip", "link", "add", "name", name, *ends)
    switch.configure("ip", "link", "set", "dev", name, "master", BRIDGE, "up")
    host.configure("ip", "addr", "add", f"{host.place.address}/{PREFIX}", "dev", INTERFACE)
    host.configure("ip", "link", "set", "dev", INTERFACE, "up")
