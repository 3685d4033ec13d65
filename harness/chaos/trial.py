"""A trial: a command is struck and run again to its end, and the laws are checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from deltamark.harness.chaos import running
from deltamark.harness.chaos.running import CommandRun, Invocation, Strike, run

LIMIT_FACTOR, LIMIT_S = 10, 120.0
"""The time limit of a run: a multiple of the length of an undisturbed run, and seconds in addition."""

UNDISTURBED_LIMIT_S = 7200.0
QUOTED_LINES = 3


class Trial(Protocol):
    """A command with a known initial state, and the laws of its result."""

    @property
    def command(self) -> Invocation: ...

    def prepare(self) -> None:
        """Make the initial state of a run."""
        ...

    def keep_result(self) -> None:
        """Keep the result of an undisturbed run."""
        ...

    def violations(self, struck: CommandRun) -> Iterator[str]:
        """Compare the result after the second run with that of an undisturbed run; yield the differences."""
        ...


@dataclass(frozen=True)
class StrikeOutcome:
    """The runs of a strike, and the laws that do not hold after them."""

    strike: Strike
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
    return StrikeOutcome(strike, struck, rerun, [*problems, *trial.violations(struck)])


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
