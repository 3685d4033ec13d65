"""Measurements of queries that attach to a dataflow of other queries: all at once, and incrementally.

Everything is measured in this process, over batches that are cut before and not timed. The memory that a timed run
needs has been touched before: see resources.Warm.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.multi_dataflow import Together
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import TIMES_A_ROUND, Feed
from deltamark.datagen.schema import relation
from deltamark.datagen.workload import Workload
from deltamark.harness.check.snapshot import Snapshot
from deltamark.harness.engines.inputs import batches, relation_source
from deltamark.harness.measure import resources
from deltamark.harness.measure.cell import Cell
from deltamark.harness.suites.sharing.loading import Plans, difference, input_columns, loaded, oracle_of, plans, taken

REPEAT_SECONDS, MAX_REPEATS = 0.2, 5
"""An attachment is repeated until it took this long, or this often."""

FORWARD_ROUNDS, SMALL_BATCH, SMALL_BATCHES = 100_000, 1000, 500
"""Rounds in a batch that is not timed, rounds in a batch beside an incremental attachment, and the number of the
latter that are timed before it.
"""

JOINS = {
    "lines and their orders": ("lineitem", "orders", "orderkey"),
    "customers and suppliers of a nation": ("customer", "supplier", "nationkey"),
}
"""The joins that attach incrementally, by name: two relations and their key."""


@dataclass(frozen=True)
class Attachment:
    """The seconds until a query is attached: with its arrangements present, without them, and in a new dataflow."""

    query: str
    with_arrangements: float
    without: float
    from_scratch: float
    wrong: str
    """The first difference between its answer and DuckDB's."""


@dataclass(frozen=True)
class IncrementalAttachment:
    """The batch latencies of running queries in ascending order: alone, and while another query attaches."""

    name: str
    completed: bool
    """Whether the attachment completed before the stream ended."""
    alone: Sequence[float]
    beside: Sequence[float]


def attachments(cells: Mapping[str, Cell], dataset: Dataset, work: Workload) -> Iterator[Attachment]:
    """Attach each query to all others: a second time, and after it was retired."""
    by_name = plans(cells, dataset, work)
    with closing(loaded(by_name, dataset, work)) as engine, closing(oracle_of(cells, dataset, work)) as oracle:
        oracle.at(TIMES_A_ROUND * work.rounds - 1)
        for name, plan in by_name.items():
            history, wrong = _history(plan, dataset, work), []
            again = _fastest(engine, f"{name} again", plan, history)
            engine.retire(name)
            anew = _fastest(engine, name, plan, history)
            for other in (name, f"{name} again"):
                snapshot = Snapshot(plan.schema)
                snapshot.add(engine.attach(other, plan, history))
                wrong.append(difference(cells[name], snapshot, oracle))
            engine.retire(f"{name} again")
            yield Attachment(name, again, anew, _from_scratch(plan, dataset, work), "".join(wrong))


def _fastest(engine: Together, name: str, plan: Collection, history: Mapping[str, list[Batch]]) -> float:
    durations: list[float] = []
    while len(durations) < MAX_REPEATS and sum(durations) < REPEAT_SECONDS:
        started = time.perf_counter()
        engine.attach(name, plan, history)
        durations.append(time.perf_counter() - started)
        engine.retire(name)
    return min(durations)


def _from_scratch(plan: Collection, dataset: Dataset, work: Workload) -> float:
    """Return the seconds for creating a dataflow and loading all rows into it at once."""
    started = time.perf_counter()
    with closing(Together({"alone": plan})) as engine:
        seconds = time.perf_counter() - started
        for batch in taken(engine, dataset, work, work.rounds, 1):
            started = time.perf_counter()
            engine.push_all(batch)
            seconds += time.perf_counter() - started
    return seconds


def _history(plan: Collection, dataset: Dataset, work: Workload) -> dict[str, list[Batch]]:
    """Return all rows of the stream, whose last state is that of all its insertions."""
    with closing(Together({"alone": plan})) as engine:
        columns = input_columns(engine)
    return {name: [each] for name, each in batches(Feed(dataset, work, columns, logical=work.rounds).take(1)).items()}


def incremental_attachments(
    by_name: Plans, dataset: Dataset, work: Workload, fuel: int
) -> Iterator[IncrementalAttachment]:
    """Load half of the stream, then go on in small batches while large joins attach incrementally."""
    with closing(Together(by_name)) as engine:
        feed = Feed(dataset, work, input_columns(engine), logical=1)
        while feed.round < work.rounds // 2:
            engine.push_all(batches(feed.take(FORWARD_ROUNDS)))
        with closing(resources.Warm(engine.state_bytes())) as warm:
            for name, (*sides, key) in JOINS.items():
                left, right = (relation_source(dataset, relation(side).name, work) for side in sides)
                plan = left.select(key).join(right.select(key), on=key).count()
                columns = {relation(side).name: (key,) for side in sides}
                history = batches(Feed(dataset, work, columns, logical=feed.round).take(1))
                attached = {source: [batch] for source, batch in history.items()}
                yield _attached_beside(_TimedFeed(engine, feed, warm), name, plan, attached, fuel)


@dataclass(frozen=True)
class _TimedFeed:
    engine: Together
    feed: Feed
    warm: resources.Warm

    def push(self, before: float = 0.0) -> float:
        """Push a small batch; return its seconds, plus those that passed before it."""
        batch = batches(self.feed.take(SMALL_BATCH))
        self.warm.give()
        started = time.perf_counter()
        self.engine.push_all(batch)
        return before + time.perf_counter() - started


def _attached_beside(
    timed: _TimedFeed, name: str, plan: Collection, history: Mapping[str, list[Batch]], fuel: int
) -> IncrementalAttachment:
    engine = timed.engine
    alone = [timed.push() for _ in range(SMALL_BATCHES)]
    started = time.perf_counter()
    engine.approach(name, plan, history, fuel=fuel)
    beside = [timed.push(time.perf_counter() - started)]
    while engine.coming and not timed.feed.done:
        beside.append(timed.push())
    completed = engine.coming is None
    engine.retire(name)
    return IncrementalAttachment(name, completed, sorted(alone), sorted(beside))
