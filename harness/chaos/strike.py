"""A strike: a signal to a process group or to one process, at a random moment of a run."""

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

Target = Literal["group", "parent", "child"]
TARGETS: tuple[Target, ...] = ("group", "parent", "child")

SIGNALS = (signal.SIGKILL,) * 3 + (signal.SIGTERM, signal.SIGINT)
"""The signals, repeated by the frequency with which they are drawn."""


@dataclass(frozen=True)
class Strike:
    """share: the moment as a share of an undisturbed run's length; child: a share of the number of children."""

    share: float
    signal: Signals
    target: Target
    child: float

    @classmethod
    def drawn(cls, chance: Random) -> Strike:
        return cls(chance.random(), chance.choice(SIGNALS), chance.choice(TARGETS), chance.random())

    def send(self, command: int) -> str:
        """Send the signal; return a description of it, or nothing if the command has ended."""
        with suppress(ProcessLookupError):
            if self.target == "group":
                os.killpg(command, self.signal)
                return f"{self.signal.name} to the process group"
            children = [child for child in descendants(command) if processes.name(child)]
            if self.target == "parent" or not children:
                os.kill(command, self.signal)
                return f"{self.signal.name} to the parent"
            victim = sorted(children, key=lambda child: child.pid)[int(self.child * len(children))]
            description = f"{self.signal.name} to child {processes.name(victim)}"
            os.kill(victim.pid, self.signal)
            return description
        return ""

    def __str__(self) -> str:
        return f"{self.signal.name} to {self.target} at {self.share:.4f} of the run, child {self.child:.4f}"
