"""The least limit of memory under which a cell passes, found by trials: runs in a new process, in a group with a limit.

A trial has a new process, so that all of its memory counts. It runs the cell once, checks the output, and replies with
figures. If the engine is a program, that program alone is in the group with the limit, and the process is outside.

Groups are control groups of Linux, version 2 or 1. A group counts the memory of all its processes, and of those that
they start. Its pages never go to swap space. Pages of files count if the group was the first to read them, but they are
dropped when memory is short, and alone never exceed a limit. If the rest exceeds the limit, the kernel kills a process
of the group.

A group has the lock of the process that made it. The groups of killed processes are removed by the next one that looks
for a place for groups.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from deltamark.datagen import scratch
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import WrongAnswerError
from deltamark.harness.check.oracle import Answers
from deltamark.harness.console.console import warn
from deltamark.harness.console.table import brief, megabytes
from deltamark.harness.engines.external import named, program
from deltamark.harness.engines.registry import capabilities
from deltamark.harness.measure.client import CellReply, WrongError
from deltamark.harness.measure.runs import FIRST_ROUNDS, answers_of, checked_run, load_code, warm_up
from deltamark.harness.results.record import REFUSED, Figures
from deltamark.harness.system.children import end_with
from deltamark.harness.system.clock import timed
from deltamark.harness.system.machine import ROOT
from deltamark.harness.system.resources import ONE_THREAD

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


TRIAL = "from deltamark.harness.suites.memory import run_trial; run_trial()"
"""The program of the process of a trial."""


@dataclass(frozen=True)
class TrialRequest:
    """The work of a trial. launcher: the words before the command of a program that is to run in the group."""

    cell: Cell
    answers: Answers
    data: Path
    launcher: tuple[str, ...]


def reply_to(request: TrialRequest) -> CellReply:
    """Run the cell of a request; return figures, or the reason why there are none.

    opened_bytes: the memory of the process of the engine before the first batch.
    """
    cell, dataset = request.cell, Dataset.open(request.data)
    work = workload(dataset, cell.workload)
    capabilities(cell.engine)  # a program says what it can do in a process of its own, outside the group
    program.launcher[:] = request.launcher
    try:
        if not request.launcher:
            small = cell.but(logical=1, physical=FIRST_ROUNDS)
            (warm_up if capabilities(cell.engine).has_session else load_code)(small, dataset, work)
        run, check = checked_run(cell, request.answers, dataset, work)
    except (WrongError, DeltamarkError) as error:
        return CellReply.of(error)
    figures: Figures = {
        "seconds": [run.seconds], "opened_bytes": [run.opened_bytes], "state_rows": [run.state_rows],
        "state_bytes": [run.state_bytes],
    }  # fmt: skip
    return CellReply(digest=check.digest, figures=figures)


def run_trial() -> None:
    """Reply to the request on the standard input."""
    output = os.dup(1)
    os.dup2(2, 1)  # the output is the reply alone
    with os.fdopen(output, "wb") as file:
        file.write(msgspec.json.encode(reply_to(pickle.load(sys.stdin.buffer))))  # noqa: S301 (from its parent)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a trial. reply: without figures if the process was killed."""

    reply: CellReply
    kills: int
    """The number of processes that the limit has killed."""
    peak_bytes: int
    """The most bytes of the group, with pages of mapped files; 0 if it is not known."""

    @property
    def problem(self) -> str:
        """The reason why the trial does not pass; empty if it passes."""
        return "killed" if self.kills else self.reply.problem

    @property
    def seconds(self) -> float:
        """The seconds of a run that was not killed."""
        return self.reply.figures["seconds"][0]


@dataclass(frozen=True)
class Trials:
    """The trials of cells. data: the directory of the rows."""

    place: GroupPlace
    data: Path

    def run(self, cell: Cell, answers: Answers, *, seconds: float, limit: int | None = None) -> Outcome:
        """Run a cell once, and compare it with answers. seconds: the time limit; limit: that of the memory in bytes."""
        words = [sys.executable, "-P", "-c", TRIAL]
        with closing(self.place.make(limit)) as group:
            if named.is_external(cell.engine):
                request = TrialRequest(cell, answers, self.data, tuple(entering(group.directory)))
            else:
                request, words = TrialRequest(cell, answers, self.data, ()), group.command(words)
            reply = _reply(words, request, seconds)
            return Outcome(reply, group.kills, group.peak)


def _reply(words: list[str], request: TrialRequest, seconds: float) -> CellReply:
    """Start a process; return its reply, or a reply that says why there is none."""
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryFile() as errors:
        try:
            with subprocess.Popen(
                words, env=os.environ | ONE_THREAD | {"PYTHONPATH": paths}, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=errors,
                preexec_fn=partial(end_with, os.getpid()),  # noqa: PLW1509 (it only makes system calls)
            ) as process:  # fmt: skip
                try:
                    output, _ = process.communicate(pickle.dumps(request), seconds)
                finally:
                    process.kill()
        except subprocess.TimeoutExpired:
            return CellReply(status="failed", problem=f"over {seconds:.0f} s")
        if process.returncode == 0 and output:
            return msgspec.json.decode(output, type=CellReply)
        errors.seek(0)
        lines = errors.read().decode(errors="replace").strip().splitlines()
        return CellReply(status="failed", problem=lines[-1] if lines else f"exit code {process.returncode}")


RESOLUTION = 1.05
"""The ratio of the least size that passes to the largest one that fails. Runs of one cell differ by about 2%."""

PAGE_BYTES = 4096
"""The unit of sizes: the kernel rounds limits to pages."""


@dataclass(frozen=True)
class LeastSize:
    """The least size that passed, and the largest that failed below it; 0 if none failed."""

    passed: int
    failed: int


def least_size(passes: Callable[[int], bool], guess: int, most: int) -> LeastSize | None:
    """Return the least size in bytes that passes; None if `most` fails.

    From the guess on, sizes are doubled until one passes, or halved until one fails. Then the geometric mean of the
    last size that passed and the last that failed is tried, until their ratio is at most RESOLUTION or they are
    at most a page apart.
    """
    failed, passed = 0, _pages(min(guess, most))
    while not passes(passed):
        if passed >= most:
            return None
        failed, passed = passed, min(2 * passed, most)
    while passed > max(RESOLUTION * failed, failed + PAGE_BYTES):
        size = max(_pages(math.isqrt(passed * failed) if failed else passed // 2), failed + PAGE_BYTES)
        if passes(size):
            passed = size
        else:
            failed = size
    return LeastSize(passed, failed)


def _pages(size: int) -> int:
    """Round a size down to pages, but not to 0."""
    return max(size // PAGE_BYTES, 1) * PAGE_BYTES


MAX_SLOWDOWN, EXTRA_S = 5, 10.0
"""A trial may take this many times as long as the run without a limit, plus these seconds. Neither number is tuned.

A process that has hardly enough memory may not fail, but read the pages of its files and libraries again and again.
"""

RERUN = "run the cell without SUITE=memory"


@dataclass
class LimitedCell:
    """The trials of a cell under limits. digest: that of the stream in the run without a limit, if it has one."""

    cell: Cell
    trials: Trials
    answers: Answers
    digest: str
    max_seconds: float
    passed: dict[int, Outcome] = field(default_factory=dict)
    """The outcomes of the trials that have passed, by limit."""
    failed: dict[int, str] = field(default_factory=dict)
    """The reasons why other trials have not passed, by limit."""

    def passes(self, limit: int) -> bool:
        """Run the cell under a limit of memory; raise an error if its answer is wrong."""
        outcome = self.trials.run(self.cell, self.answers, seconds=self.max_seconds, limit=limit)
        reply, problem = outcome.reply, outcome.problem
        if reply.status == "wrong" and not outcome.kills:
            raise _wrong(self.cell, f"under a limit of {limit} bytes: {reply.problem}")
        if not problem and reply.digest != self.digest:
            raise _wrong(self.cell, f"under a limit of {limit} bytes: the digest {reply.digest}, not {self.digest}")
        warn(f"  {self.cell.part}: {megabytes(limit).text} MB: {problem or f'passes in {brief(outcome.seconds).text}'}")
        if problem:
            self.failed[limit] = problem
        else:
            self.passed[limit] = outcome
        return not problem


def measure(cell: Cell, data: Path, max_seconds: float) -> Iterator[CellReply]:
    """Run a cell without a limit, which is compared with DuckDB, and then under limits.

    max_seconds: the time limit of the run without a limit of memory.
    """
    trials, answers = Trials(find_place(), data), answers_of(cell, workload(Dataset.open(data), cell.workload))
    elapsed, free = timed(lambda: trials.run(cell, answers, seconds=max_seconds))
    match free.reply.status:
        case "refused":
            yield CellReply(note=REFUSED + free.reply.problem)
            return
        case "wrong":
            raise _wrong(cell, free.reply.problem)
        case "failed":
            raise DeltamarkError(f"{cell} failed without a limit", free.reply.problem, RERUN)
    warn(f"  {cell.part}: no limit: passes in {brief(free.reply.figures['seconds'][0]).text}")
    if capabilities(cell.engine).has_stream:
        answers = {}  # its digest is compared, so the limit holds no answers
    limited = LimitedCell(cell, trials, answers, free.reply.digest, MAX_SLOWDOWN * elapsed + EXTRA_S)
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = least_size(limited.passes, free.peak_bytes or most, most)
    if found is None:
        raise DeltamarkError(f"{cell} passes under no limit", limited.failed, RERUN)
    yield _reply_of(limited, free, found)


def _reply_of(limited: LimitedCell, free: Outcome, found: LeastSize) -> CellReply:
    at_least, free_run = limited.passed[found.passed].reply.figures, free.reply.figures
    figures: Figures = {
        "least_bytes": [found.passed], "failed_bytes": [found.failed], **free_run,
        "seconds": at_least["seconds"], "free_seconds": free_run["seconds"],
        "trials": [len(limited.passed) + len(limited.failed)],
    }  # fmt: skip
    return CellReply(figures=figures, note=limited.failed.get(found.failed, ""), verified="oracle")


def _wrong(cell: Cell, problem: str) -> WrongAnswerError:
    return WrongAnswerError("a wrong answer", f"{cell}, {problem}", RERUN)
