"""A host on this machine: a set of namespaces with an own network, name, disk and process table.

The namespaces have no names: the kernel removes them, with all processes and mounts in them, when their first process
ends. It ends with its standard input, a pipe from this process. So nothing remains even if this process is killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from deltamark.errors import DeltamarkError
from deltamark.harness.results.machine import ROOT

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
