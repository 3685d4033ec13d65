"""A trial: a command is struck, run again to its end, and the laws are checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from deltamark.harness.chaos import processes
from deltamark.harness.chaos.running import Command, Ran, run
from deltamark.harness.chaos.strike import Strike

LONGER, LONGEST = 10, 120.0
"""A run may take so many times as long as an unharmed one, and so many seconds more."""

LAST_LINES = 3


class Trial(Protocol):
    """What is struck."""

    @property
    def command(self) -> Command: ...

    def begin(self) -> None:
        """Make the state that each run starts from."""
        ...

    def learn(self) -> None:
        """Keep what an unharmed run has made."""
        ...

    def wrong(self, struck: Ran, again: Ran) -> Iterator[str]:
        """Compare what the second run has made with that; yield what differs."""
        ...


@dataclass(frozen=True)
class Tale:
    """What came of a strike."""

    strike: Strike
    struck: Ran
    again: Ran
    problems: list[str]

    def __str__(self) -> str:
        ended = {None: "went on for ever", 0: "ended well"}.get(self.struck.code, f"ended with {self.struck.code}")
        what = f"{self.struck.hit} after {self.struck.moment:.2f} s: it {ended}, the next run took"
        return f"{what} {self.again.seconds:.1f} s; {'; '.join(self.problems) or 'all laws hold'}"


@dataclass(frozen=True)
class Unharmed:
    """An unharmed run: its seconds, and what was wrong even so."""

    seconds: float
    problems: list[str]


def measure(trial: Trial) -> Unharmed:
    """Run a command unharmed, twice: the first run may do what is done once on a machine."""
    trial.begin()
    run(trial.command, 60 * LONGEST)
    trial.begin()
    shared = processes.shared_memory()
    ran = run(trial.command, 60 * LONGEST)
    trial.learn()
    return Unharmed(ran.seconds, [*_unclean(trial.command.temporary, ran, shared), *_ended(ran, "an unharmed run")])


def attempt(trial: Trial, strike: Strike, length: float) -> Tale | None:
    """Strike a command, and run it again; None if it ended before it was struck."""
    trial.begin()
    limit, shared = LONGER * length + LONGEST, processes.shared_memory()
    struck = run(trial.command, limit, strike, length)
    if not struck.hit:
        return None
    problems = [f"process {each} was left of the struck run" for each in struck.left]
    if struck.code is None:
        problems.append(f"the struck run did not end within {limit:.0f} s")
    if "Traceback" in struck.errors:
        problems.append(f"the struck run printed a traceback, ending in: {_last(struck.errors)}")
    again = run(trial.command, limit)
    problems += [*_ended(again, "the next run"), *_unclean(trial.command.temporary, again, shared)]
    return Tale(strike, struck, again, [*problems, *trial.wrong(struck, again)])


def _ended(ran: Ran, which: str) -> Iterator[str]:
    if ran.code != 0:
        yield f"{which} ended with {ran.code}: {_last(ran.errors or ran.said)}"


def _unclean(temporary: Path, ran: Ran, shared: set[str]) -> Iterator[str]:
    """Yield what is left when a run has ended well."""
    yield from (f"process {each} was left" for each in ran.left)
    yield from (f"temporary {each.relative_to(temporary)} was left" for each in temporary.iterdir())
    yield from (f"shared memory {each} was left" for each in processes.shared_memory() - shared)


def _last(text: str) -> str:
    return " | ".join(text.strip().splitlines()[-LAST_LINES:])
