"""Dataflows that live at the same time do not reach each other, whatever is done with the handles of those that ended.

The steps of a life are those of `make fuzz KINDS=together`: plans are attached, retired while they are pending, and
held; other dataflows are opened and closed; garbage is collected. After each feed the changes are compared with the
reference.
"""

from __future__ import annotations

import random

from fuzz.example import slices
from fuzz.together.closed import ClosedHandles, collecting
from fuzz.together.run import Run
from fuzz.together.script import Script, script
from fuzz.together.steps import UseClosed
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engines.closed import HOLD_USES, USES
from support.random_plans.choices import Seeded


class Life:
    """A dataflow on one worker that follows a script, and ends after it or in the middle of it."""

    def __init__(self, script: Script, rng: random.Random) -> None:
        self.run = Run(script.plans, script.streams, script.residents, 1)
        self.steps = script.steps[: rng.randint(0, 2 * len(script.steps))]
        self.is_whole = len(self.steps) == len(script.steps)

    def end(self) -> ClosedHandles:
        """Close the dataflow; return its handles."""
        if self.is_whole:
            self.run.end()
        else:
            self.run.drain()
        self.run.feed(())
        hold = self.run.together.hold()
        self.run.together.close()
        return ClosedHandles(self.run.together, hold, self.run.plans[0])


@settings(max_examples=4)
@given(st.integers(0, 1 << 40))
def test_dataflows_that_live_at_the_same_time_do_not_reach_each_other(seed):
    rng, closed = random.Random(seed), list[ClosedHandles]()
    scripts = [script(Seeded(seed + number)) for number in range(3)]
    with slices(rng.choice([1, 3, 64])), collecting(rng.choice([0, 7, 50])):
        lives = [Life(scripts.pop(), rng) for _ in range(2)]
        while lives:
            life = rng.choice(lives)
            life.run.closed += [each for each in closed if each not in life.run.closed]
            life.run.do(UseClosed(rng.choice([*USES, *HOLD_USES])))
            if life.steps:
                step, *life.steps = life.steps
                life.run.do(step)
            else:
                lives.remove(life)
                closed.append(life.end())
                lives += [Life(scripts.pop(), rng) for _ in scripts[:1]]
