"""Scripts of steps over a pool of plans, which come and go in one dataflow while it is fed.

A script is drawn without the engine: the drawing itself tracks the live plans and the holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from support.engines.closed import HOLD_USES, USES
from support.random_plans.case import described, nodes_of
from support.random_plans.choices import Choices
from support.random_plans.streams import Streams, axis, inputs_of, streams_for

from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.input import Input
from fuzz.begun import takes_debts
from fuzz.engines import SLICE_ROWS
from fuzz.example import retract, slices, traits_of
from fuzz.plans import grown_with_queries
from fuzz.together.closed import collecting
from fuzz.together.run import Run
from fuzz.together.steps import (
    Advance,
    Attach,
    AttachIncrementally,
    BeginDebts,
    Collect,
    Feed,
    OpenAndClose,
    Release,
    Retire,
    Since,
    Step,
    TakeHold,
    UseClosed,
    Visit,
    VisitIncrementally,
)

MOST_STEPS = 16


@dataclass
class Script:
    plans: Sequence[Collection]
    streams: Streams
    residents: Mapping[str, int]
    """The plans that are maintained from the beginning, by name."""
    steps: Sequence[Step]
    slice_rows: int
    workers: int
    texts: Sequence[str]
    collected: int
    """The number of new objects after which garbage is collected; 0: as usual."""
    has_null: bool = field(default=False, init=False)

    def run(self) -> None:
        with slices(self.slice_rows), collecting(self.collected):
            run = Run(self.plans, self.streams, self.residents, self.workers)
            with closing(run.together):
                for step in self.steps:
                    run.do(step)
                run.end()
        self.has_null = run.has_null

    def traits(self) -> Iterator[str]:
        retracts = retract(self.streams)
        return traits_of(self.workers, has_null=self.has_null, retracts=retracts, texts=self.texts)

    def __str__(self) -> str:
        used = dict.fromkeys(
            [*self.residents.values(), *(step.plan for step in self.steps if isinstance(step, Attach | OpenAndClose))]
        )
        lines = ["plans:", *described(*(self.plans[at] for at in used))]
        places = {node: place for place, node in enumerate(nodes_of(*(self.plans[at] for at in used)))}
        lines += [f"  plan {at} is {places[self.plans[at].node]}" for at in used]
        lines += ["streams (row, time, diff):", *(f"  {name}: {list(each)}" for name, each in self.streams.items())]
        lines += [f"residents: {dict(self.residents)}", *(f"  {step}" for step in self.steps)]
        lines += [f"SQL: {text}" for text in self.texts]
        lines += [f"{name}: {getattr(self, name)}" for name in ("slice_rows", "workers", "collected")]
        return "\n".join(lines)


def script(choices: Choices) -> Script:
    """Draw plans that share parts, the streams of their inputs, and the steps of a script."""
    workers = choices.pick((1, 1, 2, 3))
    pool, texts = grown_with_queries(choices, wild=False, heavy=False, steps=6)
    plans = [each.rows for each in pool]
    schemas = {name: schema for plan in plans for name, schema in inputs_of(plan).items()}
    times = axis(choices)
    streams = streams_for(choices, schemas, 2, times)
    inputs = [at for at, plan in enumerate(plans) if isinstance(plan.node, Input)]
    there = [*inputs, *(choices.place(len(plans)) for _ in range(choices.pick([0, 1, 2])))]
    for at in inputs:
        if choices.chance(50):
            there.append(len(plans))
            joined = joined_with_itself(choices, plans[at])
            plans += [joined, joined.distinct(), plans[at].distinct()]
    residents = {f"r{place}": at for place, at in enumerate(there)}
    drawing = Drawing(choices, plans, times, residents)
    steps = drawing.steps()
    slice_rows, collected = choices.pick(SLICE_ROWS), choices.pick([0, 0, 0, 50, 7])
    return Script(plans, streams, residents, steps, slice_rows, workers, texts.of(*plans), collected)


def joined_with_itself(choices: Choices, rows: Collection) -> Collection:
    """Join rows with themselves by some columns or none, so that an arrangement has all columns."""
    keys = choices.picks(rows.schema.names, 0, 2)
    others = {f"{name}_2": name for name in rows.schema.names if name not in keys}
    return rows.join(rows.rename(**others), on={name: name for name in keys}, null_keys=True)


class Drawing:
    """The drawing of the steps of a script: the live plans and the holds so far."""

    def __init__(
        self, choices: Choices, plans: Sequence[Collection], times: Sequence[int], residents: Mapping[str, int]
    ) -> None:
        self.choices, self.plans, self.times = choices, plans, list(times)
        self.take_debts = takes_debts(*plans)
        self.names = list(residents)
        self.inputs = self.names[: sum(isinstance(plan.node, Input) for plan in plans)]
        self.holds: dict[int, int] = {}
        self.made, self.fed = 0, list[int]()

    def steps(self) -> list[Step]:
        found: list[Step] = [BeginDebts()] if self.take_debts and self.choices.chance(50) else []
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

    def begin_debts(self) -> Step | None:
        return BeginDebts() if self.take_debts else None

    def visit_incrementally(self) -> Step:
        name, plan, given = self.new()
        self.names.remove(name)
        return VisitIncrementally(name, plan, given, self.choices.pick([2, 3, 8]), self.choices.pick([1, 0, 2, 4]))

    def open_and_close(self) -> Step:
        times = (*self.fed, *self.times)
        until = self.choices.place(len(times) + 1)
        return OpenAndClose(self.choices.place(len(self.plans)), times[:until], self.choices.pick([0, 2, 3]))

    def use_closed(self) -> Step:
        return UseClosed(self.choices.pick([*USES, *HOLD_USES]))

    def collect(self) -> Step:
        return Collect()

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
    Drawing.release, Drawing.begin_debts, Drawing.visit_incrementally, Drawing.open_and_close, Drawing.use_closed,
    Drawing.use_closed, Drawing.collect,
]  # fmt: skip
