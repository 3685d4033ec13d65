"""Kinds of examples of one plan: on one worker, on several, and in stages as on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from support.engines.chain import Pieces
from support.engines.driving import arrays, between, feed, shuffled, stream_of, undone
from support.random_plans.choices import Choices
from support.random_plans.growth import degree
from support.random_plans.streams import Streams, cut, inputs_of, spoiled, streams_for, times_of

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.operators.iterate import Iterate
from deltamark.dataflow.operators.node import walk
from deltamark.dataflow.operators.null_row import NullRow
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.spark.planning.stage_planner import plan_stages
from deltamark.errors import DeltamarkError
from fuzz.begun import BEGINS, WITHOUT_DEBTS, Begin, begun, takes_debts
from fuzz.example import (
    Expected,
    WrongError,
    changed,
    check,
    compare,
    expected,
    retract,
    slices,
    traits_of,
    written,
)  # fmt: skip
from fuzz.plans import grown_with_queries

NO_LOOPS = "a loop cannot run on Spark"
SLICE_ROWS = (64, 1, 2, 3, 5, 16)


@dataclass
class Fed:
    """An example of one plan: its streams, their feeds, and the engine that runs it."""

    collection: Collection
    texts: Sequence[str]
    streams: Streams
    feeds: list[list[int]]
    slice_rows: int
    has_null: bool = field(default=False, init=False)

    def run(self) -> None:
        with slices(self.slice_rows):
            self.check()

    def check(self) -> None:
        raise NotImplementedError

    def expected(self, streams: Streams) -> Expected:
        wanted = expected(self.collection, streams)
        self.has_null = wanted.has_null
        return wanted

    @property
    def run_by(self) -> tuple[int, str]:
        """The number of workers, or of others, and their name."""
        raise NotImplementedError

    def traits(self) -> Iterator[str]:
        retracts = retract(self.streams)
        return traits_of(*self.run_by, has_null=self.has_null, retracts=retracts, texts=self.texts)

    def __str__(self) -> str:
        apart = ("collection", "texts", "streams", "has_null")
        settings = {name: value for name, value in vars(self).items() if name not in apart}
        return written(self.collection, self.texts, self.streams, **settings)


@dataclass
class FedWorkers(Fed):
    workers: int

    @property
    def run_by(self) -> tuple[int, str]:
        return self.workers, "worker"

    def dataflow(self) -> Dataflow[Batch]:
        return Dataflow(self.collection, workers=self.workers)


@dataclass
class OnWorkers(FedWorkers):
    order: int
    """The order of equal times; an odd one also makes workers late at random."""
    goes: bool
    at_once: bool
    begins: Begin

    def check(self) -> None:
        streams = shuffled(self.streams, self.order) if self.order else self.streams
        wanted = self.expected(streams)
        may_have_debts = self.begins != ""  # then an error may be found later, or not at all
        wanted.must_fail = wanted.must_fail and not may_have_debts
        late = changed("deltamark.dataflow.builder.program", DELAY_SEED=self.order % 2 * self.order)
        with begun(self.begins), late, closing(self.dataflow()) as engine:
            if not check(engine, self.collection, streams, self.feeds, wanted):
                return
            if self.goes:
                self.leave(engine, wanted)
        if self.at_once and not may_have_debts:
            self.feed_at_once(streams, wanted)

    def feed_at_once(self, streams: Streams, wanted: Expected) -> None:
        """Give all feeds at once: each must make as many changes, and together they must be the same."""
        ends = [times[-1] for times in self.feeds if times]
        if not ends:
            return
        schemas = inputs_of(self.collection)
        batches = {name: arrays(schemas[name], stream) for name, stream in streams.items() if stream}
        with closing(self.dataflow()) as engine:
            changes, each = engine.feed_each(batches, ends)
        compare(stream_of(self.collection, changes), wanted.until(ends[-1]))
        counts = [len(wanted.until(end)) for end in ends]
        found = [count - before for count, before in zip(counts, [0, *counts], strict=False)]
        if each.changes.tolist() != found:
            raise WrongError("another number of changes", f"feeds that end with {ends}: {each.changes}, not {found}")

    def leave(self, engine: Dataflow[Batch], wanted: Expected) -> None:
        """Delete all rows: the workers must keep as much as those without input.

        With debts there are up to three rows of an arrangement for each unit of weight, that of a null row included.
        """
        end = max(times_of(self.streams), default=0) + 1
        try:
            feed(engine, self.collection, between(undone(self.streams), {end}))
            feed(engine, self.collection, {})  # releases the texts of the last output
        except DeltamarkError as error:
            if wanted.allows(error, end):
                return
            raise
        left, never = engine.state_rows(), self.untouched()
        if (left != never) if self.begins == "" else (left > 3 * never):
            raise WrongError("rows are left", f"{left} are kept though none is live, and {never} at the start")

    def untouched(self) -> int:
        """Count what workers without input keep."""
        if not any(isinstance(node, NullRow) for node in walk(self.collection.node)):
            return 0
        with begun(""), closing(self.dataflow()) as engine:
            feed(engine, self.collection, {})
            return engine.state_rows()


@dataclass
class InStages(Fed):
    shards: int
    everywhere: list[str]
    order: int
    rescales: float

    @property
    def run_by(self) -> tuple[int, str]:
        return self.shards, "shard"

    def check(self) -> None:
        if any(isinstance(node, Iterate) for node in walk(self.collection.node)):
            self.refuse()
            return
        wanted = self.expected(self.streams)
        wanted.has_shards = self.shards > 1
        with (
            changed("deltamark.dataflow.spark.state_log", MIN_MERGED_ENTRIES=2, MAX_ENTRIES=4, MAX_VALUE_BYTES=1000),
            closing(Pieces(self.collection, self.shards, self.everywhere, self.order + 1, self.rescales)) as pieces,
        ):
            check(pieces, self.collection, self.streams, self.feeds, wanted)

    def refuse(self) -> None:
        """Check that Spark refuses the plan when it is opened: texts of SQL are read before an engine is chosen."""
        try:
            plan_stages(self.collection, self.shards)
        except DeltamarkError as error:
            if error.cause == NO_LOOPS:
                return
            raise
        raise WrongError("no error", f"expected: {NO_LOOPS}")


Parts = tuple[Collection, Sequence[str], Streams, list[list[int]], int]


def fed(choices: Choices, steps: int = 5) -> Parts:
    """Draw the parts of an example that all engines have."""
    pool, texts = grown_with_queries(choices, wild=True, heavy=True, steps=steps)
    collection = pool[-1].rows
    streams = streams_for(choices, inputs_of(collection), degree(collection.node))
    if choices.chance(5):
        streams = spoiled(choices, streams)
    return collection, texts.of(collection), streams, cut(choices, times_of(streams)), choices.pick(SLICE_ROWS)


def on_workers(choices: Choices, parts: Parts, workers: int) -> OnWorkers:
    order, goes, at_once = choices.place(1000), choices.chance(30), choices.chance(30)
    begins = choices.pick(BEGINS) if takes_debts(parts[0]) else choices.pick(WITHOUT_DEBTS)
    return OnWorkers(*parts, workers, order, goes, at_once, begins)


def on_one_worker(choices: Choices) -> OnWorkers:
    return on_workers(choices, fed(choices), 1)


def on_several_workers(choices: Choices) -> OnWorkers:
    return on_workers(choices, fed(choices, 4), choices.pick((2, 3, 2, 3, 8)))


def in_stages(choices: Choices) -> InStages:
    collection, *others = fed(choices, 4)
    everywhere = choices.picks(sorted(inputs_of(collection)))
    shards, order, rescales = choices.pick((1, 2, 3)), choices.place(1000), choices.pick((0.0, 0.0, 0.3))
    return InStages(collection, *others, shards, everywhere, order, rescales)
