"""Kill what runs a query on Spark, for real and at random moments, and see that its changes are those of one worker.
Nothing is killed before the first batch is committed: there would be nothing to go on from.

The driver is started again, with its checkpoint, as often as it ends before its query; an executor or a Python worker
is Spark's to replace, and where it gives up, that is an end of the driver like any other.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

from deltamark.datagen.dataset import Dataset
from deltamark.datagen.scratch import scratch
from deltamark.harness.chaos import processes
from deltamark.harness.chaos.running import Command, started
from deltamark.harness.check import verify
from deltamark.harness.check.golden import read_golden
from deltamark.harness.measure.cell import Cell
from deltamark.harness.measure.resources import descendants
from deltamark.harness.results.machine import ROOT

Victim = Literal["driver", "executor", "worker"]
VICTIMS: tuple[Victim, ...] = ("driver", "executor", "worker")
WORDS: dict[Victim, str] = {"driver": "", "executor": "CoarseGrainedExecutorBackend", "worker": "pyspark.daemon"}
"""What is in the command lines of victims."""

MOST_STARTS, POLL = 30, 0.05
LONGEST = 1200.0
"""Seconds that a start may take after the last kill."""
NEVER = "nothing, for ever"


@dataclass
class Tale:
    """What happened."""

    kills: list[str] = field(default_factory=list)
    """Whom each kill hit, and when."""
    starts: int = 0
    seconds: float = 0.0
    committed: float = 0.0
    """Seconds of the last start from the first commit that it saw to its end."""
    wrong: str = ""


@dataclass(frozen=True)
class Danger:
    """What is killed, how many times, and within how many seconds after a start has seen a commit."""

    victim: Victim
    kills: int
    within: float


def survive(cell: Cell, dataset: Dataset, danger: Danger, chance: Random) -> Tale:
    """Run a query with its checkpoint, in danger."""
    tale, began = Tale(), time.monotonic()
    with scratch() as temporary:
        directory = temporary / "query"
        command = _command(cell, dataset, directory)
        said = ""
        while not said:
            if tale.starts == MOST_STARTS:
                tale.wrong = f"not done after {tale.starts} starts: {shlex.join(command.words)}"
                return tale
            tale.starts += 1
            said = _run(command, directory, danger, tale, chance)
        stray = [each.name for each in temporary.iterdir() if each != directory]
    tale.seconds = time.monotonic() - began
    if said != (wanted := _wanted(cell, dataset)):
        tale.wrong += f"another stream: {said}, not {wanted}; "
    if stray:
        tale.wrong += f"temporary files were left: {', '.join(stray)}; "
    return tale


def _wanted(cell: Cell, dataset: Dataset) -> str:
    """Return the golden digest of a stream; that of one worker where it has none."""
    known = read_golden().get(Cell(cell.query, cell.sf, cell.workload, cell.logical))
    return known or verify.digest_of(cell.but(engine="embedded", workers=1, master=""), dataset)


def _command(cell: Cell, dataset: Dataset, directory: Path) -> Command:
    words = [
        sys.executable, "-m", "harness", "changes", cell.query, "--digest", "--sf", cell.sf,
        "--data", str(dataset.directory.resolve().parent), "--workload", cell.workload, "--logical", str(cell.logical),
        "--physical", str(cell.physical), "--workers", str(cell.workers), "--engine", "spark",
        "--checkpoint", str(directory),
    ]  # fmt: skip
    return Command([*words, *(["--master", cell.master] if cell.master else [])], ROOT, directory.parent)


def _run(command: Command, directory: Path, danger: Danger, tale: Tale, chance: Random) -> str:
    """Run to the end of the process, or its death; return what it said, if it was done."""
    with started(command, subprocess.PIPE, subprocess.DEVNULL) as process:
        while process.poll() is None and not any(directory.glob("checkpoint/commits/[0-9]*")):
            time.sleep(POLL)
        committed = time.monotonic()
        while len(tale.kills) < danger.kills and process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0, danger.within))
            found = list(victims(process.pid, danger.victim))
            if process.poll() is None and found:
                mine = chance.choice(found)
                with suppress(ProcessLookupError):
                    os.kill(mine, signal.SIGKILL)
                    tale.kills.append(f"{danger.victim} {mine} {time.monotonic() - committed:.2f} s after a commit")
        try:
            said, _ = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            tale.wrong += f"a start did not end within {LONGEST:.0f} s; "
            return NEVER
        tale.committed = time.monotonic() - committed
        for each in processes.left_over(directory.parent):
            tale.wrong += f"process {each} was left; "
        return said.decode().strip() if process.returncode == 0 else ""


def victims(driver: int, victim: Victim) -> Iterator[int]:
    """List the processes that may be killed."""
    if victim == "driver":
        yield driver
        return
    for each in descendants(driver):
        with suppress(OSError):
            if WORDS[victim].encode() in Path(f"/proc/{each}/cmdline").read_bytes():
                yield each
