"""Trials of Spark on a cluster of hosts of this machine, each with a fault that strikes a host or the link of one.

A standalone cluster has a master, workers with one core each, and a host for drivers, on a network of their own: each
host has a link to one switch, so two runs have the same addresses without a conflict. All hosts see the files of this
machine, as machines see a shared directory; each has a disk of its own for its worker, executors and temporary files.

A host is a set of namespaces with an own network, name, disk and process table. They have no names: the kernel removes
them, with all processes and mounts in them, when their first process ends. It ends with its standard input, a pipe from
this process. So nothing remains even if this process is killed.

A query must yield the golden stream in spite of a fault, generated data must be that of this machine, and no executor
may be left after its driver.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

import psutil

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.scratch import scratch
from deltamark.datagen.spark.java import java_home
from deltamark.datagen.spark.session import ONE_CORE
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.chaos.trial import DataTrial, differences, digests
from deltamark.harness.strikes import running as processes
from deltamark.harness.strikes.running import POLL_S, SHUTDOWN_TIMEOUT_S, run
from deltamark.harness.strikes.spark import START_LIMIT_S, SparkOutcome, SparkStrike, StrikePlan, survive
from deltamark.harness.system.machine import ROOT

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


PROGRAMS = ("unshare", "nsenter", "mount", "hostname", "ip", "tc")
NAMESPACES = ("--mount", "--uts", "--net", "--pid")
FIRST_PROCESS = """
hostname "$1" && mount --bind "$2" /etc/hosts && mount -t tmpfs -o "size=$4m,mode=755" disk "$3" &&
mkdir -p "$5" && mount -t tmpfs -o size=1m,mode=755 perf "$5" && ip link set lo up && echo ready && exec cat
"""
"""The script of a host's first process. Its arguments: name, file of all names, disk, its megabytes, PERF_DATA."""

PERF_DATA = "/tmp/hsperfdata_root"  # noqa: S108 (a fixed path of the JVM)
"""The directory where each JVM has a file named by its number, which may be the same on two hosts."""

DISK_MB = 256
FULL, REFILL_S = "full", 0.2
"""The name of the file that fills a disk, and the time after which it grows into new room."""

PROBE = """
hostname probe && mount -t tmpfs probe /tmp && ip link add bridge type bridge &&
ip link add name near type veth peer name far && tc qdisc add dev near root tbf rate 1mbit burst 64kb latency 400ms
"""
"""A script that fails where a host, a link or a slow link cannot be made."""

PROBE_TIMEOUT_S = 20


@dataclass(frozen=True)
class Place:
    """The place of a host: its name, its address, the directory of its disk, and the file with the names of all."""

    name: str
    address: str
    disk: Path
    names: Path


class Host:
    """The namespaces of a host, from its start to its end."""

    def __init__(self, place: Place) -> None:
        self.place = place
        script = ("sh", "-c", FIRST_PROCESS, "host", place.name, place.names, place.disk, str(DISK_MB), PERF_DATA)
        self._holder = subprocess.Popen(
            ["unshare", *NAMESPACES, "--fork", "--kill-child", "--mount-proc", *script],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        assert self._holder.stdout
        if not self._holder.stdout.readline():
            _, errors = self._holder.communicate()
            remedy = "give this container the rights to mount and to make namespaces"
            raise DeltamarkError(f"the host {place.name} did not start", errors.decode().strip(), remedy)
        self.first_process = psutil.Process(self._holder.pid).children()[0].pid
        self._table = _table_of(self.first_process)

    @property
    def command(self) -> list[str]:
        """The words before a command line that is to run on this host, in the directory of the project."""
        return ["nsenter", "--target", str(self.first_process), *NAMESPACES, "--wd"]

    def run(self, *words: str) -> str:
        """Run a command on this host to its end, and return its output."""
        return _output([*self.command, *words])

    def configure(self, *words: str) -> None:
        """Run a command on the network of this host, which sees the processes of this machine."""
        _output(["nsenter", "--target", str(self.first_process), "--net", *words])

    def processes(self) -> Iterator[psutil.Process]:
        """Yield the live processes of this host."""
        return (process for process in psutil.process_iter() if _table_of(process.pid) == self._table)

    def fill_disk(self) -> None:
        """Fill the disk of this host, and fill it again whenever there is room, until the host ends."""
        fill = f"cat /dev/zero >>{self.place.disk}/{FULL} 2>/dev/null"
        self.run("sh", "-c", f"{fill}; while sleep {REFILL_S}; do {fill}; done >/dev/null 2>&1 &")

    def end(self) -> None:
        """End all processes of this host, and wait until the kernel has ended them."""
        with self._holder:  # it closes the pipes and waits
            pass


def missing() -> str:
    """Return the reason why this machine cannot have hosts; nothing if it can."""
    if os.geteuid() != 0:
        return "namespaces need root"
    if absent := [program for program in PROGRAMS if not shutil.which(program)]:
        return f"no {' and no '.join(absent)} on the PATH (install util-linux and iproute2)"
    probe = ["unshare", *NAMESPACES, "--fork", "--mount-proc", "sh", "-c", PROBE]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False)
    return f"this machine refuses namespaces or links: {done.stderr.strip()}" if done.returncode else ""


def _table_of(process: int) -> str:
    """Return the name of the process table that a process is in; nothing if it has ended."""
    try:
        return str(Path(f"/proc/{process}/ns/pid").readlink())
    except OSError:
        return ""


def _output(words: Sequence[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DeltamarkError(f"{words[0]} has failed", f"{done.stderr.strip()} ({' '.join(words)})", "see the message")
    return done.stdout


MASTER, DRIVER, WORKERS = "master", "driver", ("worker1", "worker2")
PORT = 7077
EXECUTOR_MB = 1024
EXECUTOR = "CoarseGrainedExecutorBackend"
"""A word in the command line of an executor."""

START_TIMEOUT_S = 120.0
"""The time in which a process of the cluster must be ready, of which it needs a few seconds."""

READY = {"Master": "I have been elected leader", "Worker": "Successfully registered with master"}
"""Texts in the log of a process that is ready."""


class Cluster:
    """A running cluster. Its processes end with their hosts."""

    url = f"spark://{MASTER}:{PORT}"

    def __init__(self, net: Network, directory: Path) -> None:
        self.network = net
        self._directory = directory
        self._master = self._start_master()
        for name in WORKERS:
            self._start_worker(name)

    @property
    def driver_command(self) -> list[str]:
        """The words before the command line of a driver."""
        return self.network.hosts[DRIVER].command

    def restart_master(self, seconds: float) -> None:
        """Kill the master, and start it again after some seconds; it recovers its state from its directory."""
        for process in psutil.Process(self._master.pid).children():
            process.kill()
        self._master.wait()
        time.sleep(seconds)
        self._master = self._start_master()

    def executors(self) -> list[psutil.Process]:
        """List the executors on all hosts."""
        inside = (process for host in self.network.hosts.values() for process in host.processes())
        return [each for each in inside if any(EXECUTOR in word for word in processes.command_line(each))]

    def _start_master(self) -> subprocess.Popen[bytes]:
        recovery = {
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": self._directory / "recovery",
        }
        options = " ".join(f"-D{name}={value}" for name, value in recovery.items())
        words = ["Master", "--host", MASTER, "--port", str(PORT)]
        return self._start(self.network.hosts[MASTER], words, {"SPARK_MASTER_OPTS": options})

    def _start_worker(self, name: str) -> None:
        host = self.network.hosts[name]
        memory = ("--cores", "1", "--memory", f"{EXECUTOR_MB}m")
        words = ["Worker", "--host", name, "--work-dir", str(host.place.disk / "work"), *memory, self.url]
        self._start(host, words, {"SPARK_LOCAL_DIRS": str(host.place.disk)})

    def _start(self, host: Host, words: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start a process of the cluster, and wait until it is ready."""
        import pyspark  # noqa: PLC0415 (most commands need no Spark)

        home, kind = Path(pyspark.__file__).parent, words[0]
        program = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *words[1:]]
        log = self._directory / f"{host.place.name}.log"
        with log.open("ab") as file:
            began = file.tell()
            process = subprocess.Popen(
                [*host.command, *program],
                env={
                    **os.environ, **environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable,
                    "JAVA_HOME": str(java_home(os.environ, self._directory)), "TMPDIR": str(host.place.disk),
                    "JAVA_TOOL_OPTIONS": f"{ONE_CORE} -Djava.io.tmpdir={host.place.disk}",
                },
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + START_TIMEOUT_S
        while READY[kind] not in log.read_text(encoding="utf-8", errors="replace")[began:]:
            if process.poll() is not None or time.monotonic() > deadline:
                raise DeltamarkError(f"the {kind.lower()} of Spark did not start", host.place.name, f"see {log}")
            time.sleep(POLL_S)
        return process


@contextmanager
def cluster(directory: Path) -> Iterator[Cluster]:
    """Start a cluster; end it with the block. directory: an empty one, for logs and for the state of the master."""
    with network((MASTER, DRIVER, *WORKERS), directory) as net:
        yield Cluster(net, directory)


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
