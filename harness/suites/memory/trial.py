"""Trials: runs of a cell in a new process, in a group with a limit of memory.

The measurement of a cell: the least limit of memory under which it passes.
"""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from deltamark.dataflow.runtime.process_pool import end_with
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.workloads.registry import workload
from deltamark.errors import DeltamarkError
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.check.answers import WrongAnswerError
from deltamark.harness.check.oracle import Answers
from deltamark.harness.console.console import warn
from deltamark.harness.console.formatting import brief, megabytes
from deltamark.harness.engines.external import named
from deltamark.harness.engines.registry import capabilities
from deltamark.harness.measure.client import ROOT, CellReply
from deltamark.harness.measure.runs import answers_of
from deltamark.harness.results.record import REFUSED, Figures
from deltamark.harness.suites.memory.groups import GroupPlace, entering, find_place
from deltamark.harness.suites.memory.trial_process import TrialRequest
from deltamark.harness.system.clock import timed
from deltamark.harness.system.resources import ONE_THREAD

PROCESS = "deltamark.harness.suites.memory.trial_process"


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
        words = [sys.executable, "-P", "-m", PROCESS]
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
