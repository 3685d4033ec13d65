"""Kinds of examples of one plan: on one worker, on several, and in stages as on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

import numpy as np
from support.engines.chain import Pieces
from support.engines.driving import arrays, between, feed, shuffled, stream_of, undone
from support.random_plans.choices import Choices
from support.random_plans.growth import degree, plan
from support.random_plans.streams import Streams, cut, inputs_of, spoiled, streams_for, times_of

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.kernels.arrangements import debts
from deltamark.dataflow.kernels.arrangements.arrangement import ArrangementBlock
from deltamark.dataflow.kernels.arrangements.slots import is_dead
from deltamark.dataflow.kernels.core.memory import view
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.arrangement import Arrangement
from deltamark.dataflow.plan.nodes import NullRow, walk
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.errors import DeltamarkError
from fuzz.example import Expected, WrongError, changed, check, compare, expected, is_heavy, slices, written

SLICE_ROWS = (64, 1, 2, 3, 5, 16)

COUNTED_DEBTS = [debts.MIN_DEBTS - 1, 0, debts.MIN_DEBTS - 2] * 20
"""The debts of the first keys, in examples with debts."""

MAX_IDS = 1 << 16
"""The largest number of possible keys of an arrangement that begins with debts, which visits all of them."""

NO_SPACE = "no address space"
"""An error that plans over billions of declared rows may raise."""


@dataclass
class Fed:
    """An example of one plan: its streams, their feeds, and the engine that runs it."""

    collection: Collection
    streams: Streams
    feeds: list[list[int]]
    slice_rows: int

    def run(self) -> None:
        with slices(self.slice_rows):
            try:
                self.check()
            except DeltamarkError as error:
                if error.cause != NO_SPACE or not is_heavy(self.collection):
                    raise

    def check(self) -> None:
        raise NotImplementedError

    def __str__(self) -> str:
        settings = {name: value for name, value in vars(self).items() if name not in ("collection", "streams")}
        return written(self.collection, self.streams, **settings)


@dataclass
class OnOneWorker(Fed):
    order: int
    goes: bool
    at_once: bool
    debts: bool

    def check(self) -> None:
        streams = shuffled(self.streams, self.order) if self.order else self.streams
        wanted = expected(self.collection, streams)
        with closing(Dataflow(self.collection)) as worker:
            if self.debts:
                begin_debts(worker)
                wanted.must_fail = False
            if not check(worker, self.collection, streams, self.feeds, wanted):
                return
            if self.goes:
                self.leave(worker, wanted)
        if self.at_once and not self.debts:  # an arrangement without debts may find an error first
            self.feed_at_once(streams, wanted)

    def feed_at_once(self, streams: Streams, wanted: Expected) -> None:
        """Give all feeds at once: each must make as many changes, and together they must be the same."""
        ends = [times[-1] for times in self.feeds if times]
        if not ends:
            return
        schemas = inputs_of(self.collection)
        batches = {name: arrays(schemas[name], stream) for name, stream in streams.items() if stream}
        with closing(Dataflow(self.collection)) as worker:
            changes, each = worker.feed_each(batches, ends)
        compare(stream_of(self.collection, changes), wanted.until(ends[-1]))
        counts = [len(wanted.until(end)) for end in ends]
        found = [count - before for count, before in zip(counts, [0, *counts], strict=False)]
        if each.changes.tolist() != found:
            raise WrongError("another number of changes", f"feeds that end with {ends}: {each.changes}, not {found}")

    def leave(self, worker: Dataflow, wanted: Expected) -> None:
        """Delete all rows: the worker must keep as much as one without input."""
        end = max(times_of(self.streams), default=0) + 1
        try:
            feed(worker, self.collection, between(undone(self.streams), {end}))
        except DeltamarkError as error:
            if wanted.allows(error, end):
                return
            raise
        feed(worker, self.collection, {})  # releases the texts of the last output
        left, never = kept(worker), untouched(self.collection)
        if left != never:
            raise WrongError("rows are left", f"{left} are kept though none is live, and {never} at the start")


def begin_debts(worker: Dataflow[Batch] | Dataflow[dict[str, Batch]]) -> None:
    """Let arrangements have debts; the lists of some keys are consolidated after their first one."""
    for each in worker.states(Arrangement):
        rows = ArrangementBlock(each.block)
        ids = len(COUNTED_DEBTS) if rows.keys.hashed else rows.keys.high - rows.keys.low + 1
        if ids <= MAX_IDS and not rows.has_debts:
            debts.begin(rows)
            count = min(ids, len(COUNTED_DEBTS))
            view(rows.debts.address, count).view(np.int32)[::2] = COUNTED_DEBTS[:count]


def kept(worker: Dataflow[Batch]) -> int:
    """Count what a worker keeps, the rows of arrangements with their weights.

    Their number depends on the past: two equal rows may be one row of weight 2 or two rows of weight 1.
    """
    return worker.state_rows() + sum(abs(weight) - 1 for weight in weights(worker))


def weights(worker: Dataflow[Batch]) -> Iterator[int]:
    """Yield the weights of the rows of all arrangements that store weights."""
    for each in worker.states(Arrangement):
        rows = ArrangementBlock(each.block)
        if rows.weighted:
            yield from (rows.weight[slot] for slot in range(rows.top) if not is_dead(rows, slot))


def untouched(collection: Collection) -> int:
    """Count what a worker without input keeps."""
    if not any(isinstance(node, NullRow) for node in walk(collection.node)):
        return 0
    with closing(Dataflow(collection)) as worker:
        feed(worker, collection, {})
        return kept(worker)


@dataclass
class OnWorkers(Fed):
    workers: int

    def check(self) -> None:
        wanted = expected(self.collection, self.streams)
        with closing(Dataflow(self.collection, workers=self.workers)) as engine:
            check(engine, self.collection, self.streams, self.feeds, wanted)


@dataclass
class InStages(Fed):
    shards: int
    everywhere: list[str]
    order: int

    def check(self) -> None:
        wanted = expected(self.collection, self.streams)
        with ExitStack() as stack:
            stack.enter_context(
                changed("deltamark.dataflow.spark.state_log", MIN_MERGED_ENTRIES=2, MAX_ENTRIES=4, MAX_VALUE_BYTES=1000)
            )
            pieces = Pieces(self.collection, self.shards, self.everywhere, self.order + 1)
            check(stack.enter_context(closing(pieces)), self.collection, self.streams, self.feeds, wanted)


def fed(choices: Choices, steps: int = 5) -> tuple[Collection, Streams, list[list[int]], int]:
    """Draw the parts of an example that all engines have."""
    collection = plan(choices, wild=True, heavy=True, steps=steps)
    streams = streams_for(choices, inputs_of(collection), degree(collection.node))
    if choices.chance(5):
        streams = spoiled(choices, streams)
    return collection, streams, cut(choices, times_of(streams)), choices.pick(SLICE_ROWS)


def on_one_worker(choices: Choices) -> OnOneWorker:
    order, goes, at_once, begins_debts = choices.place(1000), *(choices.chance(percent) for percent in (30, 30, 20))
    return OnOneWorker(*fed(choices), order, goes, at_once, begins_debts)


def on_workers(choices: Choices) -> OnWorkers:
    return OnWorkers(*fed(choices, 4), workers=choices.pick((2, 3, 5)))


def in_stages(choices: Choices) -> InStages:
    collection, *others = fed(choices, 4)
    everywhere = choices.picks(sorted(inputs_of(collection)))
    return InStages(collection, *others, choices.pick((1, 2, 3)), everywhere, choices.place(1000))


ENGINES: dict[str, Callable[[Choices], Fed]] = {"worker": on_one_worker, "workers": on_workers, "shards": in_stages}
