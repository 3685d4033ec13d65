"""A strike: a signal, to a whole process group or to one process, at a random moment of a run."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from signal import Signals
from typing import Literal

from deltamark.harness.chaos import processes
from deltamark.harness.measure.resources import descendants

Aim = Literal["group", "parent", "child"]
AIMS: tuple[Aim, ...] = ("group", "parent", "child")

SIGNALS = (signal.SIGKILL,) * 3 + (signal.SIGTERM, signal.SIGINT)
"""Each as often as it is drawn."""


@dataclass(frozen=True)
class Strike:
    share: float
    """When, as a share of the length of an unharmed run."""
    signal: Signals
    aim: Aim
    pick: float
    """Which of the processes that the command has started, as a share of their number."""

    @classmethod
    def drawn(cls, chance: Random) -> Strike:
        return cls(chance.random(), chance.choice(SIGNALS), chance.choice(AIMS), chance.random())

    def hit(self, command: int) -> str:
        """Send the signal; return whom it was sent to, or nothing if the command has ended."""
        with suppress(ProcessLookupError):
            if self.aim == "group":
                os.killpg(command, self.signal)
                return f"{self.signal.name} to the process group"
            found = sorted(filter(processes.name, descendants(command))) if self.aim == "child" else []
            victim = found[int(self.pick * len(found))] if found else command
            whom = f"child {processes.name(victim)}" if found else "the parent"
            os.kill(victim, self.signal)
            return f"{self.signal.name} to {whom}"
        return ""

    def __str__(self) -> str:
        return f"{self.signal.name} to {self.aim} at {self.share:.4f} of the run, child {self.pick:.4f}"
