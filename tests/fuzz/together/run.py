"""Runs of scripts: after every feed, the changes of each plan are compared with those of the plan alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from support.engines.driving import added, arrays, stream_of
from support.random_plans.streams import Streams, inputs_of
from support.reference.answers import Recomputed, changes
from support.reference.rows import Stream, Update

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.arrangement import Arrangement
from deltamark.dataflow.runtime.dataflow import Dataflow, Hold
from deltamark.dataflow.types import Schema
from deltamark.errors import DeltamarkError
from fuzz.begun import begin_debts
from fuzz.example import WrongError, compare, have_null
from fuzz.together.closed import ClosedHandles, collect
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

NOT_KEPT = ("updates that were not kept", "columns that were not fed", "no arrangement has these rows")
"""The errors of attaching as of a past time whose rows are not kept."""


@dataclass
class Live:
    """A maintained plan, its changes so far, and its expected changes."""

    plan: Collection
    wanted: Stream
    said: Stream = field(default_factory=dict)


class Run:
    def __init__(
        self, plans: Sequence[Collection], streams: Streams, residents: Mapping[str, int], workers: int
    ) -> None:
        self.plans, self.streams, self.workers = plans, streams, workers
        self.together = Dataflow({name: plans[at] for name, at in residents.items()}, workers=workers)
        self.has_null = any(have_null(row for row, _, _ in stream) for stream in streams.values())
        self.schemas: dict[str, Schema] = {}
        for plan in plans:
            self.schemas |= inputs_of(plan)
        self.now = self.last = -1
        self.holds: dict[int, Hold] = {}
        self.closed: list[ClosedHandles] = []
        self.live = {name: Live(plans[at], self.changes(at)) for name, at in residents.items()}

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
            hold.advance(min(max(step.time, hold.time), self.last))

    def release(self, step: Release) -> None:
        if step.hold in self.holds:
            self.holds.pop(step.hold).release()

    def end(self) -> None:
        """Release all holds and retire all plans; no row may be left."""
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
        if self.last < 0 and any(time == 0 for stream in self.streams.values() for _, time, _ in stream):
            times = (0, *times)  # the first feed ends time 0 even without rows
        times = [time for time in times if time > self.now]
        part = {name: [each for each in stream if each[1] in times] for name, stream in self.streams.items()}
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

    def attached(
        self, step: Attach, history: Mapping[str, Sequence[Batch]], *, fuel: int | None = None,
        since: Hold | None = None,
    ) -> Batch:  # fmt: skip
        """Attach a plan; pass the history if the step says so, or if no arrangement has it."""
        attach = partial(self.together.attach, step.name, self.plans[step.plan], fuel=fuel, since=since)
        if step.given:
            return attach(history=history)
        try:
            return attach()
        except DeltamarkError as error:
            if error.cause != "no arrangement has these rows":
                raise
            return attach(history=history)

    def begin_debts(self, _: BeginDebts) -> None:
        self.together.states(Arrangement, begin_debts)

    def visit(self, step: Visit) -> None:
        before = self.rows_before()
        self.attach(step)
        self.leave(step.name, before)

    def visit_incrementally(self, step: VisitIncrementally) -> None:
        before = self.rows_before()
        self.attach_incrementally(step)
        for _ in range(step.feeds):
            self.feed(())
        self.leave(step.name, before)
        self.collect(Collect())

    def rows_before(self) -> int:
        """Count the rows that are kept before a plan comes."""
        self.drain()
        if self.last < 0:
            self.feed(())
        self.feed(())  # releases the texts of the last output
        return self.together.state_rows()

    def leave(self, name: str, before: int) -> None:
        """Retire a plan; no row of it may be left."""
        self.do(Retire(name))
        if not self.holds:
            self.feed(())
            if (after := self.together.state_rows()) != before:
                raise WrongError("rows are left", f"{after} after a dataflow has come and gone, {before} before")

    def open_and_close(self, step: OpenAndClose) -> None:
        plan = self.plans[step.plan]
        streams = {name: [each for each in self.streams[name] if each[1] in step.times] for name in inputs_of(plan)}
        self.closed.append(ClosedHandles.of(plan, streams, step.fuel))

    def use_closed(self, step: UseClosed) -> None:
        for each in self.closed:
            each.use(step.use)

    def collect(self, _: Collect) -> None:
        collect(self.together)
        self.together.explain()
        self.together.state_bytes()

    def attach_since(self, step: Since) -> None:
        self.drain()
        hold = self.holds.get(step.hold)
        if hold is None:
            return
        try:
            batch = self.attached(step, self.history(hold.time), since=hold)
        except DeltamarkError as error:
            if error.cause not in NOT_KEPT:
                raise
            return
        self.expect(step, hold.time, hold.time)
        self.hear(step.name, batch)

    def attach_incrementally(self, step: AttachIncrementally) -> None:
        self.drain()
        self.expect(step, self.last, self.now)
        self.attached(step, self.history(self.now), fuel=step.fuel)

    def drain(self) -> None:
        """Feed no rows until no plan is being attached."""
        for _ in range(10_000):
            if self.together.pending is None:
                return
            self.feed(())
        raise WrongError("a dataflow never comes", str(self.together.pending))

    def expect(self, step: Attach, last: int, now: int) -> None:
        """Expect the answer of a plan as of `now`, at the last fed time, and its changes since."""
        plan = self.plans[step.plan]
        wanted = self.changes(step.plan)
        if last >= 0:
            then = Recomputed(plan.node, until(self.streams, now)).at(now)
            wanted = {change: diff for change, diff in wanted.items() if change[0] > now}
            wanted |= {(last, row): diff for row, diff in then.items()}
        self.live[step.name] = Live(plan, wanted)

    def changes(self, plan: int) -> Stream:
        found = changes(self.plans[plan].node, self.streams)
        self.has_null = self.has_null or have_null(row for _, row in found)
        return found

    def history(self, time: int) -> dict[str, list[Batch]]:
        found = {}
        for name, stream in until(self.streams, time).items():
            rows: Counter[object] = Counter()
            for row, _, diff in stream:
                rows[row] += diff
            found[name] = [arrays(self.schemas[name], [(row, 0, diff) for row, diff in rows.items() if diff])]
        return found


DOES: dict[type[Step], Callable[[Run, Any], None]] = {
    BeginDebts: Run.begin_debts,
    Feed: lambda run, step: run.feed(step.times),
    Attach: Run.attach,
    Visit: Run.visit,
    Since: Run.attach_since,
    AttachIncrementally: Run.attach_incrementally,
    VisitIncrementally: Run.visit_incrementally,
    OpenAndClose: Run.open_and_close,
    UseClosed: Run.use_closed,
    Collect: Run.collect,
    Retire: Run.retire,
    TakeHold: Run.hold,
    Advance: Run.advance,
    Release: Run.release,
}


def until(streams: Streams, time: int) -> dict[str, list[Update]]:
    return {name: [each for each in stream if each[1] <= time] for name, stream in streams.items()}
