"""Kill what runs a query on Spark, for real and at random moments, and see that its changes are those of one worker.
Nothing is killed before the first batch is committed: there would be nothing to go on from.

The driver is started again, with its checkpoint, as often as it ends before its query; an executor or a Python worker
is Spark's to replace, and where it gives up, that is an end of the driver like any other.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

from datagen.dataset import Dataset
from harness import verify
from harness.cell import Cell
from harness.usage import descendants

Victim = Literal["driver", "executor", "worker"]
VICTIMS: tuple[Victim, ...] = ("driver", "executor", "worker")
WORDS: dict[Victim, str] = {"driver": "", "executor": "CoarseGrainedExecutorBackend", "worker": "pyspark.daemon"}
"""What is in the command lines of victims."""

MOST_STARTS, POLL = 30, 0.05
ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Tale:
    """What happened."""

    kills: list[str] = field(default_factory=list)
    starts: int = 0
    seconds: float = 0.0
    wrong: str = ""


@dataclass(frozen=True)
class Danger:
    """What is killed, how many times, and how many seconds apart on average."""

    victim: Victim
    kills: int
    pause: float


def survive(cell: Cell, dataset: Dataset, danger: Danger, chance: Random) -> Tale:
    """Run a query with its checkpoint, in danger."""
    tale, began = Tale(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="deltamark-", ignore_cleanup_errors=True) as scratch:
        directory = Path(scratch, "query")
        command = _command(cell, dataset, directory)
        said = ""
        while not said:
            if tale.starts == MOST_STARTS:
                tale.wrong = f"not done after {tale.starts} starts: {command}"
                return tale
            tale.starts += 1
            said = _run(command, directory, danger, tale, chance)
    tale.seconds = time.monotonic() - began
    wanted = verify.digest_of(cell.but(engine="embedded", workers=1, master=""), dataset)
    if said != wanted:
        tale.wrong = f"another stream: {said}, not {wanted}"
    return tale


def _command(cell: Cell, dataset: Dataset, directory: Path) -> list[str]:
    words = [
        sys.executable, "-m", "harness", "changes", cell.query, "--digest", "--sf", cell.sf,
        "--data", str(dataset.directory.parent), "--workload", cell.workload, "--logical", str(cell.logical),
        "--physical", str(cell.physical), "--workers", str(cell.workers), "--engine", "spark",
        "--checkpoint", str(directory),
    ]  # fmt: skip
    return [*words, *(["--master", cell.master] if cell.master else [])]


def _run(command: Sequence[str], directory: Path, danger: Danger, tale: Tale, chance: Random) -> str:
    """Run to the end of the process, or its death; return what it said, if it was done."""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(directory.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        while process.poll() is None and not any(directory.glob("checkpoint/commits/[0-9]*")):
            time.sleep(POLL)
        while len(tale.kills) < danger.kills and process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0, 2 * danger.pause))
            found = list(victims(process.pid, danger.victim))
            if process.poll() is None and found:
                mine = chance.choice(found)
                with suppress(ProcessLookupError):
                    os.kill(mine, signal.SIGKILL)
                    tale.kills.append(f"{danger.victim} {mine}")
        said, _ = process.communicate()
        _bury(process.pid)
        return said.strip() if process.returncode == 0 else ""


def victims(driver: int, victim: Victim) -> Iterator[int]:
    """List the processes that may be killed."""
    if victim == "driver":
        yield driver
        return
    for each in descendants(driver):
        with suppress(OSError):
            if WORDS[victim].encode() in Path(f"/proc/{each}/cmdline").read_bytes():
                yield each


def _bury(group: int) -> None:
    """Wait for the end of what a driver has started, which ends by itself when it is gone."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
