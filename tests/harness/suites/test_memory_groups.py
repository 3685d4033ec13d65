"""Groups with a limit of memory: where they can be made, and what is left of them.

The laws about the kernel need a control group; without permission to make one they are skipped.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.harness.processes import all_end
from support.paths import ROOT

from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.suites.memory import GroupPlace, Trials, candidates, find_place

MEGABYTE = 1 << 20


def fake_proc(tmp_path, groups, mounts):
    """Return a directory with the files of /proc/self that name the groups of a process and their mounts."""
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text("".join(f"{line}\n" for line in groups))
    lines = (f"31 23 0:28 {root} {tmp_path / at} rw - {kind} {kind} {options}\n" for root, at, kind, options in mounts)
    (proc / "mountinfo").write_text("".join(lines))
    return proc


def with_controllers(directory, words):
    directory.mkdir(parents=True)
    (directory / "cgroup.subtree_control").write_text(words)


def test_version_1_has_the_group_of_the_process(tmp_path):
    groups = ["4:cpu,memory:/outer/own", "3:cpuset:/", "0::/"]
    proc = fake_proc(tmp_path, groups, [("/outer", "v1", "cgroup", "rw,cpu,memory"), ("/", "v2", "cgroup2", "rw")])
    assert [*candidates(proc)] == [GroupPlace(tmp_path / "v1" / "own", 1)]


def test_version_2_has_the_groups_around_that_pass_the_controller_on(tmp_path):
    with_controllers(tmp_path / "v2" / "user" / "app", "cpu memory pids\n")
    with_controllers(tmp_path / "v2" / "user" / "app" / "own", "\n")
    (tmp_path / "v2" / "user" / "cgroup.subtree_control").write_text("memory\n")
    proc = fake_proc(tmp_path, ["0::/user/app/own"], [("/", "v2", "cgroup2", "rw")])
    assert [*candidates(proc)] == [GroupPlace(tmp_path / "v2" / at, 2) for at in ("user/app", "user")]


def test_a_group_of_version_2_has_the_limit_and_no_swap(tmp_path):
    group = GroupPlace(tmp_path, 2).make(64 * MEGABYTE)
    content = {path.name: path.read_text() for path in group.directory.iterdir()}
    assert content == {"memory.max": str(64 * MEGABYTE), "memory.swap.max": "0"}
    assert group.peak == 0, "older kernels do not count it"
    (group.directory / "memory.events").write_text("low 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 0\n")
    assert group.kills == 2


@pytest.mark.parametrize(
    ("mounts", "problem"),
    [
        ([], "no memory controller is mounted"),
        ([("/", "v1", "cgroup", "rw,memory")], "v1: No such file or directory"),
    ],
)
def test_a_machine_without_limits_is_an_error_that_says_why(tmp_path, mounts, problem):
    proc = fake_proc(tmp_path, ["4:memory:/"], mounts)
    with pytest.raises(DeltamarkError, match=f"no control group with a limit of memory: .*{problem}; .*systemd-run"):
        find_place(proc)


@pytest.fixture
def place(monkeypatch):
    """Return a place for groups; afterwards, none of the groups that were made there may exist."""
    try:
        found = find_place()
    except DeltamarkError as error:
        pytest.skip(str(error))
    made, make = [], GroupPlace.make
    monkeypatch.setattr(GroupPlace, "make", lambda self, limit=None: made.append(make(self, limit)) or made[-1])
    yield found
    assert made
    assert [group.directory for group in made if group.directory.exists()] == []


@pytest.fixture
def trials(place, chunked):
    return Trials(place, chunked.directory)


RECOMPUTE = f"exec:{ROOT / 'examples' / 'recompute.py'}"


@pytest.mark.parametrize(("engine", "limit"), [("embedded", 64 * MEGABYTE), (RECOMPUTE, 24 * MEGABYTE)])
def test_a_run_without_enough_memory_does_not_pass(trials, engine, limit):
    outcome = trials.run(Cell("q06", "0.001", engine=engine), {}, seconds=60, limit=limit)
    assert outcome.problem == "killed"
    assert outcome.peak_bytes <= limit


def test_a_run_with_enough_memory_has_figures(trials):
    outcome = trials.run(Cell("q06", "0.001"), {}, seconds=60, limit=1 << 30)
    assert outcome.problem == ""
    assert outcome.reply.digest.startswith(("1", "2", "3", "4", "5", "6", "7", "8", "9"))
    assert 0 < outcome.reply.figures["opened_bytes"][0] < outcome.peak_bytes


def test_a_run_over_time_does_not_pass(trials):
    outcome = trials.run(Cell("q06", "0.001"), {}, seconds=0.01)
    assert outcome.problem == "over 0 s"


MAKE_AND_WAIT = """
import subprocess, sys, time
from pathlib import Path
from deltamark.harness.suites.memory import GroupPlace
group = GroupPlace(Path(sys.argv[1]), int(sys.argv[2])).make()
process = subprocess.Popen(group.command(["sleep", "600"]))
while not (group.directory / "cgroup.procs").read_text():
    time.sleep(0.01)
print(group.directory, flush=True)
time.sleep(600)
"""


def test_the_next_start_removes_the_group_and_the_processes_of_a_killed_one(place):
    words = [sys.executable, "-c", MAKE_AND_WAIT, str(place.directory), str(place.version)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        directory = Path(process.stdout.readline().strip())
        (sleeping,) = map(int, (directory / "cgroup.procs").read_text().split())
        place.sweep()
        assert directory.exists(), "its process lives"
        process.send_signal(signal.SIGKILL)
    place.test()
    find_place()
    assert not directory.exists()
    assert all_end([sleeping])
