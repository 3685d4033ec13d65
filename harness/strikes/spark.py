"""Strikes at a query on Spark, at random moments. Its change stream must be that of one worker.

A strike kills a process of the query, or is a fault of a host (`cluster.py`). There is none before the first batch
is committed, because a query cannot continue without a commit. A driver that ends before its query does is started
again with its checkpoint. Spark itself replaces executors and Python workers; if that fails, the driver ends and is
started again too.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Literal

import psutil

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.scratch import scratch
from deltamark.harness.benchmarks.benchmark import anywhere
from deltamark.harness.benchmarks.cell import DEFAULT_ENGINE, Cell
from deltamark.harness.check import verify
from deltamark.harness.check.verify import golden_file, read_golden
from deltamark.harness.strikes import running as processes
from deltamark.harness.strikes.running import Invocation, started
from deltamark.harness.system.machine import ROOT
from deltamark.harness.system.resources import descendants

Victim = Literal["driver", "executor", "worker"]
VICTIMS: tuple[Victim, ...] = ("driver", "executor", "worker")
MARKERS = {"executor": "CoarseGrainedExecutorBackend", "worker": "pyspark.daemon"}
"""Words in the command lines of the victims."""

MAX_STARTS = 30
START_LIMIT_S = 1200.0
"""The time limit of a start after the last strike."""

POLL_S = 0.05

CHECKPOINT, OFFSETS, COMMITS = "checkpoint", "offsets", "commits"
"""The directories of a query in which Spark has a file for each batch that has begun, and for each that is complete."""


SparkStrike = Callable[[int, Random], str]
"""A function that strikes a query, given its driver, and describes the strike; nothing if it found no target."""


@dataclass(frozen=True)
class StrikePlan:
    """The strikes at a query."""

    strike: SparkStrike
    times: int
    max_delay: float
    """The largest time from the first commit to a strike, and from each strike to the next, in seconds."""
    host_command: Sequence[str] = ()
    """The words before the command of the driver, which run it on a host."""
    shards: Sequence[int] = ()
    """The numbers of shards of the starts after the first, in turn; by default that of the first."""
    max_later_delay: float = 0.0
    """The largest time from a start after the first, which finds commits, to a strike; by default `max_delay`."""


@dataclass(frozen=True)
class Recovery:
    """The time from a strike until the next batch was committed, and the batches that had begun without a commit."""

    seconds: float
    batches: int


@dataclass(frozen=True)
class Struck:
    """A strike. at: seconds since 1970, by which files are dated; begun, committed: the last batches before it.

    If the driver has ended, the batches are those at its end: the next start repeats the others.
    """

    at: float
    begun: int
    committed: int

    @classmethod
    def now(cls, checkpoint: Path) -> Struck:
        """Return the strike of this moment."""
        return cls(time.time(), _last(checkpoint / OFFSETS), _last(checkpoint / COMMITS))

    def ended(self, checkpoint: Path) -> Struck:
        """Return the strike with the batches at the end of the query, whose JVM may outlive the driver by a commit."""
        return replace(Struck.now(checkpoint), at=self.at)

    def recovery(self, checkpoint: Path) -> Recovery | None:
        """Return the recovery by the date of the next commit; None if no batch was committed after the strike."""
        commit = checkpoint / COMMITS / str(self.committed + 1)
        if not commit.exists():
            return None
        return Recovery(max(commit.stat().st_mtime - self.at, 0.0), max(self.begun - self.committed, 0))


def _last(directory: Path) -> int:
    """Return the number of the last batch of which a directory has a file; -1 if there is none."""
    return max((int(path.name) for path in directory.glob("[0-9]*") if path.name.isdecimal()), default=-1)


@dataclass
class SparkOutcome:
    """The strikes and starts of one query, and the laws that do not hold after them."""

    strikes: list[str] = field(default_factory=list)
    """The description and the moment of each strike."""
    starts: int = 0
    seconds: float = 0.0
    committed: float = 0.0
    """The seconds of the last start from its first commit to its end."""
    problems: list[str] = field(default_factory=list)
    struck: list[Struck] = field(default_factory=list)
    recoveries: list[Recovery] = field(default_factory=list)
    """One for each strike after which a batch was committed."""
    stored_bytes: int = 0
    """The bytes of the checkpoints at the end."""
    failures: list[str] = field(default_factory=list)
    """The last line of each driver that failed."""


def survive(cell: Cell, dataset: Dataset, plan: StrikePlan, chance: Random) -> SparkOutcome:
    """Run a query with a checkpoint to its end, and strike meanwhile."""
    outcome, began = SparkOutcome(), time.monotonic()
    with scratch() as temporary:
        directory = temporary / "query"
        running = cell.but(checkpoint=str(directory))
        digest = ""
        while not digest:
            if outcome.starts == MAX_STARTS:
                words = _command(running, dataset, plan).words
                outcome.problems.append(f"not done after {outcome.starts} starts: {shlex.join(words)}")
                return outcome
            outcome.starts += 1
            try:
                digest = run_driver(_with_shards(running, plan, outcome.starts), dataset, plan, outcome, chance)
            except subprocess.TimeoutExpired:
                outcome.problems.append(f"a start did not end within {START_LIMIT_S:.0f} s")
                digest = "none"
        left = [path.name for path in temporary.iterdir() if path != directory]
        checkpoint = directory / CHECKPOINT
        outcome.recoveries = list(filter(None, (each.recovery(checkpoint) for each in outcome.struck)))
        outcome.stored_bytes = sum(path.stat().st_size for path in checkpoint.rglob("*") if path.is_file())
    outcome.seconds = time.monotonic() - began
    if digest != (expected := _expected_digest(cell, dataset)):
        outcome.problems.append(f"another stream: {digest}, not {expected}")
    if left:
        outcome.problems.append(f"temporary files were left: {', '.join(left)}")
    return outcome


def _with_shards(cell: Cell, plan: StrikePlan, start: int) -> Cell:
    """Return the cell of a start, of which the first is 1."""
    return cell.but(workers=plan.shards[(start - 2) % len(plan.shards)]) if plan.shards and start > 1 else cell


def _expected_digest(cell: Cell, dataset: Dataset) -> str:
    """Return the golden digest of a stream, or that of one worker if there is none."""
    stream = Cell(cell.query, cell.sf, cell.workload, cell.logical, benchmark=cell.benchmark)
    known = read_golden(cell.home) if golden_file(cell.home).exists() else {}
    return known.get(stream) or verify.digest_of(cell.but(engine=DEFAULT_ENGINE, workers=1, master=""), dataset)


def _command(cell: Cell, dataset: Dataset, plan: StrikePlan) -> Invocation:
    words = [
        *plan.host_command, sys.executable, "-m", "harness", "changes", cell.query, "--digest", "--sf", cell.sf,
        "--benchmark", anywhere(cell.benchmark), "--data", str(dataset.directory.resolve().parent),
        "--workload", cell.workload, "--logical", str(cell.logical), "--physical", str(cell.physical),
        "--workers", str(cell.workers), "--engine", cell.engine, "--checkpoint", cell.checkpoint,
    ]  # fmt: skip
    master = ["--master", cell.master] if cell.master else []
    return Invocation([*words, *master], ROOT, Path(cell.checkpoint).parent)


def run_driver(cell: Cell, dataset: Dataset, plan: StrikePlan, outcome: SparkOutcome, chance: Random) -> str:
    """Run the driver of a cell with a checkpoint until it ends or is killed.

    Return the digest that it prints, or nothing if it failed.
    """
    directory = Path(cell.checkpoint)
    with tempfile.TemporaryFile() as errors, started(_command(cell, dataset, plan), subprocess.PIPE, errors) as process:
        while process.poll() is None and not any(directory.glob(f"{CHECKPOINT}/{COMMITS}/[0-9]*")):
            time.sleep(POLL_S)
        committed = time.monotonic()
        max_delay = (plan.max_later_delay if outcome.starts > 1 else 0.0) or plan.max_delay
        while len(outcome.strikes) < plan.times and process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0, max_delay))
            delay = time.monotonic() - committed
            if process.poll() is None and (strike := plan.strike(process.pid, chance)):
                outcome.struck.append(Struck.now(directory / CHECKPOINT))
                outcome.strikes.append(f"{strike} {delay:.2f} s after a commit")
        output, _ = process.communicate(timeout=START_LIMIT_S)
        outcome.committed = time.monotonic() - committed
        outcome.problems += [f"process {name} was left" for name in processes.left_over(directory.parent)]
        if process.returncode == 0:
            return output.decode().strip()
        if outcome.struck:
            outcome.struck[-1] = outcome.struck[-1].ended(directory / CHECKPOINT)
        errors.seek(0)
        outcome.failures += errors.read().decode(errors="replace").strip().splitlines()[-1:]
        return ""


def killing(victim: Victim) -> SparkStrike:
    """Return the strike that kills one of the processes of a kind."""

    def kill(driver: int, chance: Random) -> str:
        candidates = victims(driver, victim)
        with suppress(psutil.NoSuchProcess, IndexError):
            chosen = chance.choice(candidates)
            chosen.kill()
            return f"{victim} {chosen.pid}"
        return ""

    return kill


def victims(driver: int, victim: Victim) -> list[psutil.Process]:
    """List the processes that a kill may strike."""
    if victim == "driver":
        return [psutil.Process(driver)]
    return [process for process in descendants(driver) if _is_a(victim, process)]


def _is_a(victim: Victim, process: psutil.Process) -> bool:
    return any(MARKERS[victim] in word for word in processes.command_line(process))
