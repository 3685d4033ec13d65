"""Groups of processes with a limit of memory: control groups of Linux, version 2 or 1.

A group counts the memory of all its processes, and of those that they start. Its pages never go to swap space. Pages of
files count if the group was the first to read them, but they are dropped when memory is short, and alone never exceed a
limit. If the rest exceeds the limit, the kernel kills a process of the group.

A group has the lock of the process that made it. The groups of killed processes are removed by the next one that looks
for a place for groups.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from deltamark.datagen import scratch
from deltamark.errors import DeltamarkError

PREFIX = "deltamark-memory-"
"""The prefix of the directories of groups."""

ENTER = 'echo $$ > "$0" && exec "$@"'
"""The shell script that enters a group, and then becomes the command."""

NO_SUCH_GROUP = "no control group with a limit of memory"
REMEDY = "on Linux with systemd: systemd-run --user --scope .venv/bin/python -m harness bench SUITE=memory; or be root"

TEST_BYTES = 16 << 20
"""The limit of the group that tests a place: enough for a shell. Not measured."""

CLOSE_TIMEOUT_S, POLL_S = 10.0, 0.01
"""The time in which the killed processes of a group must end, and the time between two looks. Not measured."""


@dataclass(frozen=True)
class GroupFiles:
    """The files of a control group, by version."""

    limit: str
    peak: str
    """Missing in version 2 before Linux 5.19."""
    kills: str
    without_swap: Mapping[str, str]
    """The file that keeps pages out of swap space, and its content."""


FILES: Mapping[int, GroupFiles] = {
    1: GroupFiles(
        "memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control", {"memory.swappiness": "0"}
    ),
    2: GroupFiles("memory.max", "memory.peak", "memory.events", {"memory.swap.max": "0"}),
}


@dataclass(frozen=True)
class MemoryGroup:
    """A control group of its own for one run."""

    directory: Path
    files: GroupFiles
    lock: int

    def command(self, words: list[str]) -> list[str]:
        """Return the command that runs another one in the group."""
        return [*entering(self.directory), *words]

    @property
    def peak(self) -> int:
        """The most bytes of the group so far, with pages of mapped files; 0 if the kernel does not count them."""
        with suppress(FileNotFoundError):
            return int((self.directory / self.files.peak).read_text(encoding="ascii"))
        return 0

    @property
    def kills(self) -> int:
        """The number of processes that the limit has killed."""
        lines = (self.directory / self.files.kills).read_text(encoding="ascii").splitlines()
        return sum(int(value) for name, _, value in (line.partition(" ") for line in lines) if name == "oom_kill")

    def close(self) -> None:
        """Kill the processes of the group, and remove it."""
        try:
            _remove(self.directory)
        finally:
            os.close(self.lock)


@dataclass(frozen=True)
class GroupPlace:
    """A control group below which this process can make others."""

    directory: Path
    version: int

    def make(self, limit: int | None = None) -> MemoryGroup:
        """Make a group. limit: bytes."""
        files = FILES[self.version]
        directory, lock = self._locked()
        group = MemoryGroup(directory, files, lock)
        try:
            for name, content in files.without_swap.items():
                with suppress(FileNotFoundError):  # a kernel without swap space
                    (directory / name).write_text(content, encoding="ascii")
            if limit is not None:
                (directory / files.limit).write_text(str(limit), encoding="ascii")
        except OSError:
            group.close()
            raise
        return group

    def sweep(self) -> None:
        """Remove the groups of dead processes."""
        for directory in self.directory.glob(f"{PREFIX}*"):
            lock = scratch.try_lock(directory)
            if lock is not None:
                with closing(MemoryGroup(directory, FILES[self.version], lock)):
                    pass

    def test(self) -> None:
        """Raise an OSError unless a process can be started in a group."""
        with closing(self.make(TEST_BYTES)) as group:
            subprocess.run(group.command(["true"]), check=True, capture_output=True)

    def _locked(self) -> tuple[Path, int]:
        while True:
            directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self.directory))
            lock = scratch.try_lock(directory)
            if lock is not None:  # otherwise another process has removed it already
                return directory, lock


def entering(directory: Path) -> list[str]:
    """Return the words that stand before a command that is to run in a group."""
    return ["/bin/sh", "-c", ENTER, str(directory / "cgroup.procs")]


def find_place(proc: Path = Path("/proc/self")) -> GroupPlace:
    """Return a place for groups; raise an error if there is none."""
    problems = []
    for place in candidates(proc):
        try:
            place.test()
        except (OSError, subprocess.CalledProcessError) as error:
            problems.append(f"{place.directory}: {_reason(error)}")
        else:
            place.sweep()
            return place
    raise DeltamarkError(NO_SUCH_GROUP, "; ".join(problems) or "no memory controller is mounted", REMEDY)


def candidates(proc: Path) -> Iterator[GroupPlace]:
    """Yield the group of this process and, in version 2, those around it, in which processes may not lie."""
    mounted = _mounts(proc)
    try:
        lines = (proc / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in sorted(lines, reverse=True):  # version 2 has the number 0, and comes last
        number, controllers, path = line.split(":", 2)
        version = 2 if number == "0" else 1
        if version not in mounted or (version == 1 and "memory" not in controllers.split(",")):
            continue
        root, mount = mounted[version]
        own = Path(os.path.normpath(mount / os.path.relpath(path, root)))
        above = [directory for directory in (own, *own.parents) if directory.is_relative_to(mount)]
        if version == 1:
            yield from (GroupPlace(directory, 1) for directory in above[:1])
            continue
        yield from (GroupPlace(each, 2) for each in above if "memory" in _words(each / "cgroup.subtree_control"))


def _mounts(proc: Path) -> dict[int, tuple[str, Path]]:
    """Return where the memory controller is mounted, by version: the group at the mount, and the directory."""
    mounted = {}
    for line in _lines(proc / "mountinfo"):
        mount, _, source = line.partition(" - ")
        kind, _, options = source.split(maxsplit=2)
        root, directory = mount.split()[3:5]
        if kind == "cgroup2":
            mounted[2] = root, Path(directory)
        elif kind == "cgroup" and "memory" in options.split(","):
            mounted[1] = root, Path(directory)
    return mounted


def _lines(path: Path) -> list[str]:
    with suppress(OSError):
        return path.read_text(encoding="utf-8").splitlines()
    return []


def _words(path: Path) -> list[str]:
    return [word for line in _lines(path) for word in line.split()]


def _reason(error: OSError | subprocess.CalledProcessError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return error.stderr.decode(errors="replace").strip() or f"exit code {error.returncode}"


def _remove(directory: Path) -> None:
    """Kill the processes of a group, and remove it."""
    deadline = time.monotonic() + CLOSE_TIMEOUT_S
    while True:
        for process in _words(directory / "cgroup.procs"):
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if time.monotonic() > deadline:
                left = " ".join(_words(directory / "cgroup.procs"))
                remedy = f"end these processes, then: rmdir {directory}"
                raise DeltamarkError("a control group cannot be removed", f"processes {left}", remedy) from error
            time.sleep(POLL_S)
        else:
            return
