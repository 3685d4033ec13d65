"""Trials: a command is struck and run again to its end, and the laws of its output are checked.

After `make bench` each planned cell has exactly one record, with a verified answer. `make compare` of a commit with
itself in a clone has a verdict. The data of `make data` is byte for byte that of an undisturbed run, with no other
files beside it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from deltamark.datagen.manifest import DIGEST, FILE
from deltamark.errors import DeltamarkError
from deltamark.harness.compare.gate import Verdict
from deltamark.harness.compare.trees import DIRECTORY, git, snapshot
from deltamark.harness.results import store
from deltamark.harness.results.record import Record
from deltamark.harness.strikes import running
from deltamark.harness.strikes.running import CommandRun, Invocation, Strike, run
from deltamark.harness.system.machine import ROOT

LIMIT_FACTOR, LIMIT_S = 10, 120.0
"""The time limit of a run: a multiple of the length of an undisturbed run, and seconds in addition."""

UNDISTURBED_LIMIT_S = 7200.0
QUOTED_LINES = 3


class Trial(ABC):
    """A command with a known initial state, and the laws of its result.

    words: those of the command; scratch: an empty directory, in which `output` is that of the result; tree: the source
    tree in which the command runs; before: words before the command line.
    """

    def __init__(
        self, words: Sequence[str], scratch: Path, output: str, tree: Path = ROOT, before: Sequence[str] = ()
    ) -> None:
        self.command = Invocation([*before, sys.executable, "-m", "harness", *words], tree, scratch / "temporary")
        self.output = scratch / output

    def prepare(self) -> None:
        """Make the initial state of a run."""
        shutil.rmtree(self.output, ignore_errors=True)
        self.remove_temporary()

    def remove_temporary(self) -> None:
        """Remove the temporary files of the run before."""
        shutil.rmtree(self.command.temporary, ignore_errors=True)
        self.command.temporary.mkdir(parents=True)

    def keep_result(self) -> None:  # noqa: B027 (the results of two runs may differ)
        """Keep the result of an undisturbed run."""

    @abstractmethod
    def violations(self, struck: CommandRun) -> Iterator[str]:
        """Compare the result after the second run with that of an undisturbed run; yield the differences."""


@dataclass(frozen=True)
class StrikeOutcome:
    """The runs of a strike, and the laws that do not hold after them."""

    struck: CommandRun
    rerun: CommandRun
    problems: list[str]

    def __str__(self) -> str:
        end = {None: "did not end", 0: "succeeded"}.get(self.struck.code, f"ended with {self.struck.code}")
        struck = f"{self.struck.target} after {self.struck.moment:.2f} s: the run {end}"
        laws = "; ".join(self.problems) or "all laws hold"
        return f"{struck}, the next run took {self.rerun.seconds:.1f} s; {laws}"


@dataclass(frozen=True)
class Undisturbed:
    """The length of an undisturbed run, and the laws that do not hold even then."""

    seconds: float
    problems: list[str]


def measure(trial: Trial) -> Undisturbed:
    """Run a command twice without a strike: the first run may do work that is done once on a machine."""
    trial.prepare()
    run(trial.command, UNDISTURBED_LIMIT_S)
    trial.prepare()
    shared = running.shared_memory()
    undisturbed = run(trial.command, UNDISTURBED_LIMIT_S)
    trial.keep_result()
    remains = _remains(trial.command.temporary, undisturbed, shared)
    return Undisturbed(undisturbed.seconds, [*remains, *_failure(undisturbed, "an undisturbed run")])


def attempt(trial: Trial, strike: Strike, length: float) -> StrikeOutcome | None:
    """Strike a command and run it again; return None if it ended before the strike."""
    trial.prepare()
    limit, shared = LIMIT_FACTOR * length + LIMIT_S, running.shared_memory()
    struck = run(trial.command, limit, strike, length)
    if not struck.target:
        return None
    problems = [f"process {name} of the struck run was left" for name in struck.remaining]
    if struck.code is None:
        problems.append(f"the struck run did not end within {limit:.0f} s")
    if "Traceback" in struck.errors:
        problems.append(f"the struck run printed a traceback, ending in: {_last_lines(struck.errors)}")
    rerun = run(trial.command, limit)
    problems += [*_failure(rerun, "the next run"), *_remains(trial.command.temporary, rerun, shared)]
    return StrikeOutcome(struck, rerun, [*problems, *trial.violations(struck)])


def _failure(command_run: CommandRun, name: str) -> Iterator[str]:
    if command_run.code != 0:
        yield f"{name} ended with {command_run.code}: {_last_lines(command_run.errors or command_run.output)}"


def _remains(temporary: Path, command_run: CommandRun, shared: set[str]) -> Iterator[str]:
    """Yield the processes, files and shared memory that remain after a successful run."""
    yield from (f"process {name} was left" for name in command_run.remaining)
    yield from (f"temporary {path.relative_to(temporary)} was left" for path in temporary.iterdir())
    yield from (f"shared memory {name} was left" for name in running.shared_memory() - shared)


def _last_lines(text: str) -> str:
    return " | ".join(text.strip().splitlines()[-QUOTED_LINES:])


CELLS = ("PHYSICAL=100,1000", "WORKERS=1,2", "ENGINES=embedded,duckdb", "SAMPLE=5", "RUNS=1")
FILES = {store.RECORDS, store.SESSIONS, store.LOCK}

TimelessFacts = tuple[str, str, int, int]


class BenchTrial(Trial):
    """settings: those that name the data and the queries."""

    def __init__(self, settings: Sequence[str], data: Path, scratch: Path, cells: Sequence[str] = CELLS) -> None:
        words = ["bench", *settings, f"DATA={data.resolve()}", *cells, f"RESULTS={scratch / 'results'}"]
        super().__init__(words, scratch, "results")
        self._expected: dict[str, TimelessFacts] = {}

    def keep_result(self) -> None:
        self._expected = {record.key: _timeless(record) for record in self._records()}

    def _records(self) -> list[Record]:
        return list(store.read(self._machine).records)

    @property
    def _machine(self) -> Path:
        return next(self.output.iterdir())

    def violations(self, struck: CommandRun) -> Iterator[str]:
        try:
            records = self._records()
            store.sessions(self._machine)
        except (DeltamarkError, ValueError) as error:
            yield f"unreadable: {error}"
            return
        yield from self._wrong_records([record for record in records if record.status == "ok"])
        for record in records:
            # a killed child leaves a record of a failed cell, and the next run measures the cell again
            if record.status != "ok" and not (record.status == "failed" and "child" in struck.target):
                yield f"{record.cell} has a record that is {record.status}: {record.problem}"
        for path in self.output.rglob("*"):
            if not path.is_dir() and path.name not in FILES:
                yield f"{path.relative_to(self.output)} was left"

    def _wrong_records(self, records: list[Record]) -> Iterator[str]:
        """Compare the records of successful cells with those of an undisturbed run."""
        counts = Counter(record.key for record in records)
        yield from (f"the cell {key} is missing" for key in self._expected if key not in counts)
        for record in records:
            if record.key not in self._expected:
                yield f"{record.cell} was not planned"
            elif counts[record.key] != 1:
                yield f"{record.cell} has {counts[record.key]} records"
            elif not record.verified:
                yield f"{record.cell} is not verified"
            elif _timeless(record) != self._expected[record.key]:
                yield f"{record.cell} has {_timeless(record)}, not {self._expected[record.key]}"


def _timeless(record: Record) -> TimelessFacts:
    """Return the facts that do not depend on the speed of the machine."""
    return record.cell, record.digest, record.tuples, record.changes


COMPARED_CELLS = ("BASE=HEAD", "HEAD=HEAD", "PHYSICAL=1000")
ALLOWED: tuple[Verdict, ...] = ("undecided", "improvement", "unchanged")
COMPARE_FILES = {"base", "head", "lock", "summary-tpch.md", "verdict-tpch.json", "verdict-tpch.txt"}


class CompareTrial(Trial):
    """settings: those that name the data and the compared cells. Two comparisons may have different verdicts."""

    def __init__(self, settings: Sequence[str], data: Path, scratch: Path) -> None:
        self._clone = scratch / "clone"
        words = ["compare", *settings, f"DATA={data.resolve()}", *COMPARED_CELLS]
        super().__init__(words, scratch, f"clone/{DIRECTORY}", self._clone)
        self._runs = 0
        git(ROOT, "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(self._clone))
        git(self._clone, "checkout", "--quiet", "--detach", snapshot(ROOT))

    def prepare(self) -> None:
        """Remove the work trees of the run before, every other time."""
        self._runs += 1
        if self._runs % 2:
            super().prepare()
            git(self._clone, "worktree", "prune")
        else:
            self.remove_temporary()

    def violations(self, struck: CommandRun) -> Iterator[str]:
        del struck
        directory = self.output
        verdict = directory / "verdict-tpch.txt"
        word = verdict.read_text(encoding="utf-8").strip() if verdict.exists() else "none"
        if word not in ALLOWED:
            yield f"the verdict of a commit and itself is {word}"
        yield from (f"{path.name} was left" for path in directory.iterdir() if path.name not in COMPARE_FILES)
        listed = git(self._clone, "worktree", "list", "--porcelain")
        if listed.count("worktree ") != 3 or "locked" in listed or "prunable" in listed:
            yield f"work trees were left: {listed}"
        for side in ("base", "head"):
            if changed := git(directory / side, "status", "--porcelain"):
                yield f"{side} is not the commit: {changed}"
        if changed := git(self._clone, "status", "--porcelain"):
            yield f"the repository was changed: {changed}"


Digests = dict[str, str]


class DataTrial(Trial):
    """settings: those that name the data, such as SF=0.01. before: the words that run a command on a host."""

    def __init__(self, settings: Sequence[str], scratch: Path, before: Sequence[str] = ()) -> None:
        super().__init__(["data", *settings, f"DATA={scratch / 'data'}"], scratch, "data", before=before)
        self._expected: Digests = {}

    def keep_result(self) -> None:
        self._expected = digests(self.output)

    def violations(self, struck: CommandRun) -> Iterator[str]:
        del struck
        return differences(digests(self.output), self._expected)


def digests(data: Path) -> Digests:
    """Digest every file below a data directory, including hidden files; omit time stamps and seals of manifests."""
    return {str(path.relative_to(data)): _digest(path) for path in data.rglob("*") if not path.is_dir()}


def _digest(path: Path) -> str:
    if path.name != FILE:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return json.dumps(json.loads(path.read_text(encoding="utf-8"), object_hook=_timeless_manifest))


def _timeless_manifest(content: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in content.items() if name not in ("mtime_ns", DIGEST)}


def differences(actual: Digests, expected: Digests) -> Iterator[str]:
    """Yield the differences between two directories."""
    yield from (f"{name} is missing" for name in sorted({*expected} - {*actual}))
    yield from (f"{name} was left" for name in sorted({*actual} - {*expected}))
    yield from (f"{name} has other bytes" for name in sorted({*expected} & {*actual}) if actual[name] != expected[name])
