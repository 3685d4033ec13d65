"""Hosts on this machine: they reach each other unless a link is down, and nothing of them is left.

`make chaos KINDS=hosts` runs a Spark cluster on them.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import get_args

import psutil
import pytest
from support.patience import patient

from deltamark.harness.chaos import cluster as host
from deltamark.harness.chaos import cluster as trial
from deltamark.harness.chaos.cluster import FAULTS, Fault, network
from deltamark.harness.cli.main import main

REASON = host.missing()
needs_hosts = pytest.mark.skipif(bool(REASON), reason=REASON)

LISTENER = """
import socket
server = socket.create_server(("left", 5000))
while True:
    server.accept()[0].sendall(b"." * 300_000)
"""
READER = """
import socket
connection = socket.create_connection(("left", 5000), 0.3)
size = 0
while size < 300_000:
    size += len(connection.recv(1 << 16))
print(socket.gethostname(), size)
"""


def reads(reader):
    """Return the output of a program on a host that reads from another host; nothing if it fails."""
    words = [*reader.command, sys.executable, "-c", READER]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def wait_until_reading(reader):
    """Wait until another host answers: a link is up some time after the command, and an address has to be found."""
    while reads(reader) != "right 300000":
        pass


@pytest.fixture
def pair(tmp_path):
    """Two hosts, of which the left one listens."""
    with network(("left", "right"), tmp_path) as net:
        left = net.hosts["left"]
        with subprocess.Popen([*left.command, sys.executable, "-c", LISTENER]):
            right = net.hosts["right"]
            wait_until_reading(right)
            yield net
            left.end()


@needs_hosts
def test_a_host_reaches_another_by_its_name_unless_a_link_is_down(pair):
    right = pair.hosts["right"]
    for name in pair.hosts:
        with pair.unplugged(name):
            assert reads(right) == ""
        wait_until_reading(right)


@needs_hosts
def test_a_slow_link_has_a_limit_at_both_ends_for_a_while(pair):
    def limits():
        ends = ((pair.switch, "left"), (pair.hosts["left"], "eth0"))
        return [host_.run("tc", "qdisc", "show", "dev", interface).split()[1] for host_, interface in ends]

    with pair.slowed_down("left", "20mbit"):
        assert limits() == ["tbf", "tbf"]
        assert reads(pair.hosts["right"]) == "right 300000"
    assert "tbf" not in limits()


@needs_hosts
def test_a_full_disk_is_that_of_one_host_and_stays_full(pair):
    left, right = pair.hosts.values()
    file = left.place.disk / "file"
    for each in (left, right):
        each.run("sh", "-c", f"echo content >{file}")
    left.fill_disk()
    left.run("rm", str(file))
    assert right.run("cat", str(file)) == "content\n"
    free = "import os, sys, time\nwhile os.statvfs(sys.argv[1]).f_bavail: time.sleep(0.01)"
    left.run(sys.executable, "-c", free, str(left.place.disk))


@needs_hosts
def test_a_lost_host_has_no_processes(pair):
    left, right = pair.hosts.values()
    assert len([*left.processes()]) == 2
    pair.remove("left")
    assert [*left.processes()] == []
    assert [each.pid for each in right.processes()] == [right.first_process]


def remains(directory):
    """Return the mounts below a directory, and the interfaces of this machine."""
    mounts = Path("/proc/mounts").read_text(encoding="utf-8")
    return [line for line in mounts.splitlines() if str(directory) in line], sorted(psutil.net_if_addrs())


@needs_hosts
def test_nothing_is_left_after_an_exception(tmp_path):
    before, hosts = remains(tmp_path), []
    with suppress(KeyboardInterrupt), network(("left", "right"), tmp_path) as net:
        hosts += [*net.hosts.values(), net.switch]
        raise KeyboardInterrupt
    assert len(hosts) == 3
    assert [process for each in hosts for process in each.processes()] == []
    assert remains(tmp_path) == before
    assert [*(tmp_path / "disk").iterdir()] == []


OWNER = """
import sys, time
from pathlib import Path
from deltamark.harness.chaos.cluster import network
with network(("left", "right"), Path(sys.argv[1])) as net:
    print(*(host.first_process for host in (net.switch, *net.hosts.values())), flush=True)
    time.sleep(60)
"""


@needs_hosts
def test_no_process_is_left_after_a_kill(tmp_path):
    before = remains(tmp_path)
    words = [sys.executable, "-c", OWNER, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as owner:
        hosts = [psutil.Process(int(number)) for number in owner.stdout.readline().split()]
        assert len(hosts) == 3
        owner.send_signal(signal.SIGKILL)
    assert psutil.wait_procs(hosts, timeout=patient(30))[1] == []
    assert remains(tmp_path) == before


def test_every_fault_has_a_strike():
    assert get_args(Fault) == (*FAULTS,)
    assert all(getattr(trial, name) is FAULTS[name] for name in FAULTS)


def test_the_kind_is_skipped_with_the_reason_if_hosts_cannot_be_made(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(host.os, "geteuid", lambda: 1000)
    assert main(["chaos", "KINDS=hosts", f"DATA={tmp_path / 'data'}"]) == 0
    assert "hosts: skipped, because namespaces need root" in capsys.readouterr().out
    monkeypatch.undo()
    monkeypatch.setattr(host, "PROGRAMS", ("sh", "no-such-program"))
    monkeypatch.setattr(host.os, "geteuid", lambda: 0)
    assert host.missing() == "no no-such-program on the PATH (install util-linux and iproute2)"
