"""Examples of several plans in one dataflow, which come and go while it is fed: a script of steps over a pool of plans.

What a plan says is compared after every feed with what it says alone. Which steps make sense is known while a script
is drawn, because a session needs nothing of the engine to know what is live.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from support.choices import Choices
from support.driving import added, arrays, stream_of
from support.growth import described, grown, nodes_of
from support.reference import Recomputed, Stream, Update, changes
from support.streams import Streams, axis, inputs_of, streams_for

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.plan.nodes import Input
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.runtime.read_holds import Hold
from deltamark.dataflow.types import Schema
from deltamark.errors import DeltamarkError
from fuzz.engines import SLICE_ROWS
from fuzz.example import WrongError, compare, slices

NOT_KEPT = ("updates that were not kept", "columns that were not fed", "no arrangement has these rows")
"""Errors of attaching as of a past time: whoever holds it has to have had all that is needed."""

MOST_STEPS = 14


@dataclass(frozen=True)
class Feed:
    times: Sequence[int] = ()


@dataclass(frozen=True)
class Attach:
    name: str
    plan: int
    given: bool
    """Is the history of inputs given even if arrangements have it?"""


@dataclass(frozen=True)
class Visit(Attach):
    """Attach a plan and retire it at once: nothing may be left of it."""


@dataclass(frozen=True)
class Since(Attach):
    hold: int


@dataclass(frozen=True)
class AttachIncrementally(Attach):
    fuel: int


@dataclass(frozen=True)
class Retire:
    name: str


@dataclass(frozen=True)
class TakeHold:
    hold: int


@dataclass(frozen=True)
class Advance:
    hold: int
    time: int


@dataclass(frozen=True)
class Release:
    hold: int


Step = Feed | Attach | Retire | TakeHold | Advance | Release


@dataclass
class Script:
    plans: Sequence[Collection]
    streams: Streams
    residents: Mapping[str, int]
    """The plans that are there from the beginning."""
    steps: Sequence[Step]
    slice_rows: int

    def run(self) -> None:
        with slices(self.slice_rows):
            run = Run(self)
            with closing(run.together):
                for step in self.steps:
                    run.do(step)
                run.end()

    def __str__(self) -> str:
        used = dict.fromkeys(
            [*self.residents.values(), *(step.plan for step in self.steps if isinstance(step, Attach))]
        )
        lines = ["plans:", *described(*(self.plans[at] for at in used))]
        places = {node: place for place, node in enumerate(nodes_of(*(self.plans[at] for at in used)))}
        lines += [f"  plan {at} is {places[self.plans[at].node]}" for at in used]
        lines += ["streams (row, time, diff):", *(f"  {name}: {list(each)}" for name, each in self.streams.items())]
        lines += [f"residents: {dict(self.residents)}", *(f"  {step}" for step in self.steps)]
        return "\n".join([*lines, f"slice_rows: {self.slice_rows}"])


@dataclass
class Live:
    """A dataflow that is maintained: its plan, what it has said, and what it is expected to say."""

    plan: Collection
    wanted: Stream
    said: Stream = field(default_factory=dict)


class Run:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.together = Dataflow({name: script.plans[at] for name, at in script.residents.items()})
        self.schemas: dict[str, Schema] = {}
        for plan in script.plans:
            self.schemas |= inputs_of(plan)
        self.now = self.last = -1
        self.holds: dict[int, Hold] = {}
        self.live = {name: Live(script.plans[at], self.changes(at)) for name, at in script.residents.items()}

    def do(self, step: Step) -> None:
        DOES[type(step)](self, step)

    def retire(self, step: Retire) -> None:
        if step.name in self.live:
            self.together.retire(step.name)
            del self.live[step.name]

    def hold(self, step: TakeHold) -> None:
        self.drain()
        if self.last >= 0:
            self.holds[step.hold] = self.together.hold()

    def advance(self, step: Advance) -> None:
        if step.hold in self.holds:
            hold = self.holds[step.hold]
            hold.advance(max(step.time, hold.time))

    def release(self, step: Release) -> None:
        if step.hold in self.holds:
            self.holds.pop(step.hold).release()

    def end(self) -> None:
        """Let everything go: nothing may be left."""
        self.drain()
        for hold in self.holds.values():
            hold.release()
        for name in list(self.live):
            self.together.retire(name)
        self.live = {}
        self.feed(())
        if left := self.together.state_rows():
            raise WrongError("rows are left", f"{left}, though no dataflow is")

    def feed(self, times: Sequence[int]) -> None:
        if self.last < 0 and any(time == 0 for stream in self.script.streams.values() for _, time, _ in stream):
            times = (0, *times)  # the first feed ends time 0, whatever is in it
        times = [time for time in times if time > self.now]
        part = {name: [each for each in stream if each[1] in times] for name, stream in self.script.streams.items()}
        known = self.together.inputs
        batches = {name: arrays(self.schemas[name], part[name]) for name in part if part[name] and name in known}
        out = self.together.feed(batches)
        self.now = max([self.now, 0, *times])
        self.last = max([self.last, 0, *(int(batch.time[-1]) for batch in batches.values())])
        for name, batch in out.items():
            self.hear(name, batch)
        for name in self.live:
            if name != self.together.pending and name not in out:
                raise WrongError("a dataflow says nothing", name)

    def hear(self, name: str, batch: Batch) -> None:
        live = self.live[name]
        live.said = added([live.said, stream_of(live.plan, batch)])
        try:
            compare(live.said, {change: diff for change, diff in live.wanted.items() if change[0] <= self.now})
        except WrongError as error:
            raise WrongError(error.what, f"of {name} after time {self.now}{error.details}") from None

    def attach(self, step: Attach) -> None:
        self.drain()
        self.expect(step, self.last, self.now)
        batch = self.attached(step, self.history(self.now))
        if self.last >= 0:
            self.hear(step.name, batch)

    def attached(self, step: Attach, history: Mapping[str, Sequence[Batch]]) -> Batch:
        plan = self.script.plans[step.plan]
        if step.given:
            return self.together.attach(step.name, plan, history=history)
        try:
            return self.together.attach(step.name, plan)
        except DeltamarkError as error:
            if error.cause != "no arrangement has these rows":
                raise
            return self.together.attach(step.name, plan, history=history)

    def visit(self, step: Visit) -> None:
        self.drain()
        if self.last < 0:
            self.feed(())
        self.feed(())  # which gives back the texts that were handed out
        before = self.together.state_rows()
        self.attach(step)
        self.do(Retire(step.name))
        if not self.holds:
            self.feed(())
            if (after := self.together.state_rows()) != before:
                raise WrongError("rows are left", f"{after} after a dataflow has come and gone, {before} before")

    def attach_since(self, step: Since) -> None:
        self.drain()
        hold = self.holds.get(step.hold)
        if hold is None:
            return
        plan = self.script.plans[step.plan]
        try:
            batch = self.together.attach(step.name, plan, history=self.history(hold.time), since=hold)
        except DeltamarkError as error:
            if error.cause not in NOT_KEPT:
                raise
            return
        self.expect(step, hold.time, hold.time)
        self.hear(step.name, batch)

    def attach_incrementally(self, step: AttachIncrementally) -> None:
        self.drain()
        plan = self.script.plans[step.plan]
        self.expect(step, self.last, self.now)
        self.together.attach(step.name, plan, history=self.history(self.now), fuel=step.fuel)

    def drain(self) -> None:
        """Feed nothing until the dataflow is there that comes bit by bit."""
        for _ in range(10_000):
            if self.together.pending is None:
                return
            self.feed(())
        raise WrongError("a dataflow never comes", str(self.together.pending))

    def expect(self, step: Attach, last: int, now: int) -> None:
        """Expect of a plan its answer as of `now`, at the time that was fed last, and its changes since."""
        plan = self.script.plans[step.plan]
        wanted = self.changes(step.plan)
        if last >= 0:
            then = Recomputed(plan.node, until(self.script.streams, now)).at(now)
            wanted = {change: diff for change, diff in wanted.items() if change[0] > now}
            wanted |= {(last, row): diff for row, diff in then.items()}
        self.live[step.name] = Live(plan, wanted)

    def changes(self, plan: int) -> Stream:
        return changes(self.script.plans[plan].node, self.script.streams)

    def history(self, time: int) -> dict[str, list[Batch]]:
        found = {}
        for name, stream in until(self.script.streams, time).items():
            rows: Counter[object] = Counter()
            for row, _, diff in stream:
                rows[row] += diff
            found[name] = [arrays(self.schemas[name], [(row, 0, diff) for row, diff in rows.items() if diff])]
        return found


DOES: dict[type[Step], Callable[[Run, Any], None]] = {
    Feed: lambda run, step: run.feed(step.times),
    Attach: Run.attach,
    Visit: Run.visit,
    Since: Run.attach_since,
    AttachIncrementally: Run.attach_incrementally,
    Retire: Run.retire,
    TakeHold: Run.hold,
    Advance: Run.advance,
    Release: Run.release,
}


def until(streams: Streams, time: int) -> dict[str, list[Update]]:
    return {name: [each for each in stream if each[1] <= time] for name, stream in streams.items()}


def script(choices: Choices) -> Script:
    """Draw plans that share what they are grown from, and what happens to them."""
    pool = grown(choices, wild=False, heavy=False, steps=6)
    plans = [each.rows for each in pool]
    schemas = {name: schema for plan in plans for name, schema in inputs_of(plan).items()}
    times = axis(choices)
    streams = streams_for(choices, schemas, 2, times)
    inputs = [at for at, plan in enumerate(plans) if isinstance(plan.node, Input)]
    there = [*inputs, *(choices.place(len(plans)) for _ in range(choices.pick([0, 1, 2])))]
    residents = {f"r{place}": at for place, at in enumerate(there)}
    return Script(
        plans, streams, residents, Drawing(choices, plans, times, residents).steps(), choices.pick(SLICE_ROWS)
    )


class Drawing:
    """Draws the steps of a script."""

    def __init__(
        self, choices: Choices, plans: Sequence[Collection], times: Sequence[int], residents: Mapping[str, int]
    ) -> None:
        self.choices, self.plans, self.times = choices, plans, list(times)
        self.names = list(residents)
        self.inputs = self.names[: sum(isinstance(plan.node, Input) for plan in plans)]
        self.holds: dict[int, int] = {}
        self.made, self.fed = 0, list[int]()

    def steps(self) -> list[Step]:
        found: list[Step] = []
        for _ in self.choices.some(MOST_STEPS, 90):
            step = self.choices.pick(WAYS)(self)
            if step is not None:
                found.append(step)
        while self.times:
            found.append(self.feed())
        return found

    def feed(self) -> Feed:
        if self.choices.chance(15):
            return Feed()
        count = self.choices.pick([1, 1, 2, 3])
        times, self.times = self.times[:count], self.times[count:]
        self.fed += times
        return Feed(tuple(times))

    def attach(self) -> Step:
        name, plan, given = self.new()
        return Attach(name, plan, given)

    def visit(self) -> Step:
        name, plan, given = self.new()
        self.names.remove(name)
        return Visit(name, plan, given)

    def attach_incrementally(self) -> Step:
        name, plan, given = self.new()
        return AttachIncrementally(name, plan, given, self.choices.pick([2, 3, 8]))

    def new(self) -> tuple[str, int, bool]:
        name = f"p{self.made}"
        self.made += 1
        self.names.append(name)
        return name, len(self.plans) - 1 - self.choices.place(len(self.plans)), self.choices.chance(50)

    def retire(self) -> Step | None:
        kept = self.inputs if self.holds else []
        names = [name for name in self.names if name not in kept]
        if not names:
            return None
        name = self.choices.pick(names)
        self.names.remove(name)
        return Retire(name)

    def hold(self) -> Step | None:
        if not self.fed or not set(self.inputs) <= set(self.names):
            return None
        self.holds[self.made] = self.fed[-1]
        self.made += 1
        return TakeHold(self.made - 1)

    def attach_since(self) -> Step | None:
        if not self.holds:
            return None
        hold = self.choices.pick(list(self.holds))
        return Since(*self.new(), hold)

    def advance(self) -> Step | None:
        if not self.holds:
            return None
        hold = self.choices.pick(list(self.holds))
        self.holds[hold] = self.choices.pick([time for time in reversed(self.fed) if time >= self.holds[hold]])
        return Advance(hold, self.holds[hold])

    def release(self) -> Step | None:
        if not self.holds:
            return None
        hold = self.choices.pick(list(self.holds))
        del self.holds[hold]
        return Release(hold)


WAYS = [
    Drawing.feed, Drawing.feed, Drawing.feed, Drawing.attach, Drawing.attach, Drawing.visit, Drawing.retire,
    Drawing.hold, Drawing.attach_since, Drawing.attach_since, Drawing.attach_incrementally, Drawing.advance,
    Drawing.release,
]  # fmt: skip
