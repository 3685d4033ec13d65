"""Measurements of queries that attach to a dataflow of other queries: all at once, and incrementally.

All work runs in this process, over batches that are cut untimed in advance. The memory of a timed run is touched in
advance too: see resources.PretouchedMemory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.dataflow.runtime.live_plans import History
from deltamark.datagen.feed import Feed
from deltamark.datagen.schema import TIMES_PER_ROUND
from deltamark.harness.check.snapshot import Snapshot
from deltamark.harness.engines.inputs import batches, relation_source
from deltamark.harness.measure import resources
from deltamark.harness.measure.stats import percentile
from deltamark.harness.measure.timing import Stopwatch, timed
from deltamark.harness.results.record import Figures, TableRow
from deltamark.harness.suites.sharing.queries import SharedQueries

MIN_REPEAT_S, MAX_REPEATS = 0.2, 5
"""An attachment is repeated for this time in all, but at most this often. Not tuned."""

FORWARD_ROUNDS, SMALL_BATCH_ROUNDS, SMALL_BATCHES = 100_000, 1000, 500
"""Rounds in an untimed batch, rounds in a batch beside an incremental attachment, and the number of timed batches
before it.
"""

JOINS = {
    "lines and their orders": ("lineitem", "orders", "orderkey"),
    "customers and suppliers of a nation": ("customer", "supplier", "nationkey"),
}
"""The joins that attach incrementally, by name: two relations and their key."""


def attachments(shared: SharedQueries) -> Iterator[TableRow]:
    """Attach each query to all others: a second time, and after it was retired; compare its answers with DuckDB's."""
    with closing(shared.loaded()) as engine, closing(shared.oracle()) as oracle:
        oracle.at(TIMES_PER_ROUND * shared.work.rounds - 1)
        for name, plan in shared.plans.items():
            second = f"{name} again"
            history = _history(shared, plan)
            with_arrangements = _fastest(engine, second, plan, history)
            engine.retire(name)
            without = _fastest(engine, name, plan, history)
            first = _attached(engine, name, plan, history)
            for answer in (first.answer, engine.attach(second, plan, history=history)):
                snapshot = Snapshot(plan.schema)
                snapshot.add(answer)
                shared.compare(name, snapshot, oracle, "attached while others run, after all rows")
            engine.retire(second)
            alone = _from_scratch(shared, plan)
            figures: Figures = {"there": [with_arrangements], "others": [without], "alone": [alone]}
            yield TableRow(name, figures | {"kept_bytes": [first.kept_bytes], "peak_bytes": [first.peak_bytes]})


@dataclass(frozen=True)
class Attached:
    """An attached query: its answer, the state that it has added, and the growth of the process at its peak."""

    answer: Batch
    kept_bytes: int
    peak_bytes: int


def _attached(engine: Dataflow[dict[str, Batch]], name: str, plan: Collection, history: History) -> Attached:
    """Attach a query once more, so that the pages of its rows in files are mapped already, and count memory."""
    state = engine.state_bytes()
    resources.reset_peak()
    before = resources.peak()
    answer = engine.attach(name, plan, history=history)
    return Attached(answer, max(engine.state_bytes() - state, 0), max(resources.peak() - before, 0))


def _fastest(engine: Dataflow[dict[str, Batch]], name: str, plan: Collection, history: History) -> float:
    watch = Stopwatch()
    for _ in watch.repeats(MAX_REPEATS, MIN_REPEAT_S):
        with watch:
            engine.attach(name, plan, history=history)
        engine.retire(name)
    return min(watch.laps)


def _from_scratch(shared: SharedQueries, plan: Collection) -> float:
    """Return the seconds of creating a dataflow and of loading all rows into it at once."""
    with (watch := Stopwatch()):
        alone = Dataflow({"alone": plan})
    with closing(alone) as engine:
        for batch in shared.all_rows(engine):
            with watch:
                engine.push(batch)
    return watch.seconds


def _history(shared: SharedQueries, plan: Collection) -> History:
    """Return all rows of the stream that a plan reads."""
    with closing(Dataflow({"alone": plan})) as engine:
        rows = next(shared.all_rows(engine))
    return {name: [batch] for name, batch in rows.items()}


def incremental_attachments(shared: SharedQueries, fuel: int) -> Iterator[TableRow]:
    """Load half of the stream, then continue in small batches while large joins attach incrementally."""
    with closing(Dataflow(shared.plans)) as engine:
        feed = shared.feed(engine, 1)
        while feed.round < shared.work.rounds // 2:
            engine.push(batches(feed.take(FORWARD_ROUNDS)))
        with closing(resources.PretouchedMemory(engine.state_bytes())) as warm:
            small = _SmallBatches(engine, feed, warm)
            for name, (*sides, key) in JOINS.items():
                left, right = (relation_source(side, shared.work) for side in sides)
                plan = left.select(key).join(right.select(key), on=key).count()
                columns = dict.fromkeys(sides, (key,))
                history = batches(Feed(shared.work, columns, logical=feed.round).take(1))
                figures = _attach_beside(small, name, plan, {side: [batch] for side, batch in history.items()}, fuel)
                yield TableRow(name, {"fuel": [fuel], **figures})


@dataclass(frozen=True)
class _SmallBatches:
    """The stream from now on, in small batches."""

    engine: Dataflow[dict[str, Batch]]
    feed: Feed
    warm: resources.PretouchedMemory

    def push(self) -> float:
        """Push a small batch; return its seconds."""
        batch = batches(self.feed.take(SMALL_BATCH_ROUNDS))
        self.warm.release()
        return timed(lambda: self.engine.push(batch))[0]


def _attach_beside(small: _SmallBatches, name: str, plan: Collection, history: History, fuel: int) -> Figures:
    """Return the batch latencies of the running queries alone, and while another one attaches."""
    engine = small.engine
    alone = sorted(small.push() for _ in range(SMALL_BATCHES))
    begin, _ = timed(lambda: engine.attach(name, plan, history=history, fuel=fuel))
    beside = [begin + small.push()]
    while engine.pending and not small.feed.done:
        beside.append(small.push())
    completed = engine.pending is None
    engine.retire(name)
    figures: Figures = {"there": [int(completed)], "batches": [len(beside)]}
    for side, latencies in (("alone", alone), ("beside", sorted(beside))):
        figures |= {f"{side}_p{percent}": [percentile(latencies, percent)] for percent in (50, 99)}
        figures |= {f"{side}_max": [latencies[-1]]}
    return figures
