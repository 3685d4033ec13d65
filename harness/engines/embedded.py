"""The embedded engine: a dataflow in this process, on one worker or several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from deltamark.dataflow.batch import Batch
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import Delta, Feed
from deltamark.datagen.workloads.workload import Workload
from deltamark.harness.benchmarks.cell import Cell
from deltamark.harness.engines.base import (
    SEVERAL_ROUNDS,
    AttachingEngine,
    Capabilities,
    FedEngine,
    PlanEngine,
    Sink,
    feed_of,
)
from deltamark.harness.engines.inputs import batches
from deltamark.harness.engines.plans import plan_of
from deltamark.harness.system.clock import Stopwatch

if TYPE_CHECKING:
    from deltamark.dataflow.language.collection import Collection

ANALYZED_ROUNDS = 4096
"""The rounds of a batch of an analysis at most: a batch has about as many rows as a slice of a normal run."""

MIN_PARALLEL_ROUNDS = 5000
"""The least rounds of a batch that several workers run, because they wait for each other. Measured at SF 1 when workers
were processes: two took 1.3 times as long as one in batches of 1,000 rounds, 0.75 times as long in batches of 10,000.
"""

VALUES_PER_PAGE = 512
"""The stride that reads every page of a column: 4,096 bytes are at least 512 values of 8 or 4 bytes."""


class EmbeddedEngine(FedEngine[dict[str, Batch]], PlanEngine):
    """The embedded engine, fed with batches that the harness cuts."""

    name = "embedded"
    capabilities = Capabilities(output="stream", has_variants=True, analyzes=True, checks_in_pairs=True, attaches=True)

    def __init__(self, cell: Cell, dataset: Dataset, work: Workload, sink: Sink | None = None) -> None:
        from deltamark.dataflow.runtime.dataflow import Dataflow  # noqa: PLC0415 (most commands need no kernels)

        del dataset  # the workload has the data
        plan = plan_of(cell, work)
        self._cell, self._work, self._sink = cell, work, sink
        self._dataflow = Dataflow(plan, workers=cell.workers)
        self.schema = plan.schema
        self.feed = feed_of(cell, work, self._dataflow.inputs)

    def prepare(self, deltas: list[Delta]) -> dict[str, Batch]:
        return batches(deltas)

    @property
    def takes_several(self) -> bool:
        """Whether batches are small. The call for several takes 35 microseconds more than that for one."""
        return 2 * self._cell.logical * self._cell.physical <= SEVERAL_ROUNDS

    def take_several(self, physical: int, batches: int) -> list[int]:
        taken = self.feed.take_several(physical, batches)
        if taken.rows:
            self.batch, self._ends = self.prepare(taken.deltas), taken.ends
        return taken.rows

    def apply_several(self) -> list[tuple[int, float]]:
        if self._sink is None:
            each = self._dataflow.push_each(self.batch, self._ends)
        else:
            changes, each = self._dataflow.feed_each(self.batch, self._ends)
            self._sink(changes)
        return list(zip(each.changes.tolist(), (each.nanoseconds / 1e9).tolist(), strict=True))

    def apply(self) -> int:
        if self._sink is None:
            return self._dataflow.push(self.batch)
        changes = self._dataflow.feed(self.batch)
        self._sink(changes)
        return len(changes.time)

    def state_rows(self) -> int:
        return self._dataflow.state_rows()

    def stored_bytes(self) -> int:
        return self._dataflow.state_bytes()

    def close(self) -> None:
        self._dataflow.close()

    def changes(self, rounds: int) -> Iterator[Batch]:
        feed = feed_of(self._cell, self._work, self._dataflow.inputs, rounds)
        yield self._dataflow.feed({})
        while not feed.done:
            yield self._dataflow.feed(batches(feed.take(self._cell.physical)))

    @staticmethod
    def explain(plan: Collection, workers: int) -> str:
        return plan.explain(workers=workers)

    def analyze(self, rounds: int) -> str:
        source = _PagedFeed(feed_of(self._cell, self._work, self._dataflow.inputs, rounds))
        most, loaded = max(ANALYZED_ROUNDS // self._cell.logical, 1), self._work.load_rounds // self._cell.logical
        self._dataflow.push({})
        for start in range(0, loaded, most):
            self._dataflow.push(source.take(min(most, loaded - start)))
        self._dataflow.profile()
        while not source.feed.done:
            self._dataflow.push(source.take(min(self._cell.physical, most)))
        return self._dataflow.explain()


class EmbeddedQueries(FedEngine[dict[str, Batch]], AttachingEngine):
    """The embedded engine with several queries in one dataflow, to which more can be attached.

    A query that is attached reads the arrangements of the others. The rows that none of them has are read from the data
    again.
    """

    capabilities = EmbeddedEngine.capabilities

    def __init__(
        self,
        cell: Cell,
        dataset: Dataset,
        work: Workload,
        sink: Sink | None = None,
        *,
        others: Mapping[Cell, Sink | None] | None = None,
    ) -> None:
        from deltamark.dataflow.runtime.dataflow import Dataflow  # noqa: PLC0415 (most commands need no kernels)

        del dataset  # the workload has the data
        self._cell, self._work = cell, work
        opened = {cell: sink, **(others or {})}
        plans = {each.query: plan_of(each, work) for each in opened}
        self._dataflow = Dataflow(plans)
        self.schemas = {query: plan.schema for query, plan in plans.items()}
        self._sinks = {each.query: receiver for each, receiver in opened.items()}
        self._made: list[dict[str, Batch]] = []
        self._history: dict[str, list[Batch]] = {}
        self.feed = feed_of(cell, work, self._dataflow.inputs)

    @classmethod
    def beside(
        cls, cell: Cell, coming: Sequence[Cell], dataset: Dataset, work: Workload, sink: Sink | None
    ) -> EmbeddedQueries:
        del coming  # nothing is kept for them
        return cls(cell, dataset, work, sink)

    @classmethod
    def together(
        cls, cells: Sequence[Cell], dataset: Dataset, work: Workload, sinks: Mapping[str, Sink]
    ) -> EmbeddedQueries:
        first, *others = cells
        return cls(
            first, dataset, work, sinks.get(first.query), others={each: sinks.get(each.query) for each in others}
        )

    def prepare(self, deltas: list[Delta]) -> dict[str, Batch]:
        return batches(deltas)

    def apply(self) -> int:
        if not any(self._sinks.values()):
            return self._dataflow.push(self.batch)
        changes = self._dataflow.feed(self.batch)
        self._made.append(changes)
        return sum(len(each.time) for each in changes.values())

    def finish(self) -> None:
        for made in self._made:
            for query, changes in made.items():
                if (sink := self._sinks[query]) is not None:
                    sink(changes)
        self._made = []

    def expect(self, cell: Cell) -> None:
        """Read the rows so far of a query, as one logical batch."""
        from deltamark.dataflow.runtime.dataflow import Dataflow  # noqa: PLC0415 (as above)

        with closing(Dataflow({"alone": plan_of(cell, self._work)})) as alone:
            feed = Feed(self._work, alone.inputs, logical=self.feed.round, until=self.feed.round)
        self._history = {name: [batch] for name, batch in batches(feed.take(1)).items()}

    def attach(self, cell: Cell, sink: Sink | None) -> float:
        with Stopwatch() as watch:
            plan = plan_of(cell, self._work)
            answer = self._dataflow.attach(cell.query, plan, history=self._history)
        self._history = {}
        self.schemas[cell.query], self._sinks[cell.query] = plan.schema, sink
        self._made.append({cell.query: answer})
        fed, self.feed = self.feed, feed_of(self._cell, self._work, self._dataflow.inputs)
        self.feed.round = fed.round
        return watch.seconds

    def state_rows(self) -> int:
        return self._dataflow.state_rows()

    def stored_bytes(self) -> int:
        return self._dataflow.state_bytes()

    def close(self) -> None:
        self._dataflow.close()


def measured_workers(cell: Cell) -> int:
    """Return the number of workers, at most those of the cell, that run its batches fastest."""
    return cell.workers if cell.logical * cell.physical >= MIN_PARALLEL_ROUNDS else 1


class _PagedFeed:
    """A feed that touches the pages of each batch, so that page faults are not timed."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed

    def take(self, physical: int) -> Mapping[str, Batch]:
        taken = batches(self.feed.take(physical))
        for batch in taken.values():
            for column in batch.columns.values():
                if isinstance(column, np.ndarray):
                    column[::VALUES_PER_PAGE].max()
        return taken
