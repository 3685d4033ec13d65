"""A clock that moves only if a test moves it, and an engine that needs a given time for each batch."""

from __future__ import annotations


class FakeClock:
    """A clock in seconds. waits: the times until which the loop has waited."""

    def __init__(self):
        self.time, self.waits = 100.0, []

    def now(self):
        return self.time

    def wait(self, until):
        assert until > self.time
        self.waits.append(until)
        self.time = until


class FakeEngine:
    """An engine of one row and one change a round. seconds: a function of the number of the batch and its rounds."""

    def __init__(self, clock, seconds):
        self.clock, self.seconds = clock, seconds
        self.taken = []

    def take(self, physical):
        self.taken.append(physical)
        return physical

    def apply(self):
        self.clock.time += self.seconds(len(self.taken) - 1, self.taken[-1])
        return self.taken[-1]
