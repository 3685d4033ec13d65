"""A standalone cluster of Spark on a network of hosts: a master, workers with one core each, and a host for drivers.

All hosts see the files of this machine, as machines see a shared directory. Each has a disk of its own, which has the
directories of its worker and executors, and their temporary files.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from deltamark.datagen.spark.java import java_home
from deltamark.datagen.spark.session import ONE_CORE
from deltamark.errors import DeltamarkError
from deltamark.harness.chaos import processes
from deltamark.harness.chaos.hosts.host import Host
from deltamark.harness.chaos.hosts.network import Network, network

MASTER, DRIVER, WORKERS = "master", "driver", ("worker1", "worker2")
PORT = 7077
EXECUTOR_MB = 1024
EXECUTOR = "CoarseGrainedExecutorBackend"
"""A word in the command line of an executor."""

START_TIMEOUT_S, POLL_S = 120.0, 0.1
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
