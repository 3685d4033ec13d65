"""All queries in one dataflow, measured beside the same queries alone; how one comes while the others run.

Everything is measured in this process, by turns, over batches that are cut before and not timed. The memory that a
timed run needs has been touched before: see `resources.PretouchedMemory`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from deltamark.dataflow.batch import Batch
from deltamark.dataflow.language.collection import Collection
from deltamark.dataflow.plan.sharing import Choice
from deltamark.dataflow.runtime.dataflow import Dataflow
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import TIMES_PER_ROUND, Feed
from deltamark.datagen.schema import RelationName, relation
from deltamark.datagen.workload import Workload
from deltamark.harness.check import verify
from deltamark.harness.check.oracle import Oracle
from deltamark.harness.check.snapshot import Snapshot
from deltamark.harness.engines.duckdb_tables import reads
from deltamark.harness.engines.inputs import batches, relation_source
from deltamark.harness.engines.plans import plan_of
from deltamark.harness.measure import resources
from deltamark.harness.measure.cell import Cell
from deltamark.queries.catalogue import query

Plans = Mapping[str, Collection]

MEASURED = 0.2
"""Seconds: attaching is repeated until it has taken so long, or so often."""
MOST_RUNS = 5

FORWARD_ROUNDS, SMALL_BATCH, SMALL_BATCHES = 100_000, 1000, 500
"""Rounds in a batch: while nothing is measured, and while queries come bit by bit."""


@dataclass(frozen=True)
class Load:
    """A whole stream, loaded: seconds, rows fed, what is kept at its end, and the most memory that the process had."""

    seconds: float
    tuples: int
    state_rows: int
    state_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class Turns:
    """Loads of all queries together and of each alone: the first, of which only the memory counts, then timed ones."""

    together: Load
    alone: Sequence[Load]
    timed_together: Sequence[Load]
    timed_alone: Sequence[Sequence[Load]]


@dataclass(frozen=True)
class Shared:
    """An arrangement that several queries read."""

    what: str
    queries: Sequence[str]
    rows: int
    size: int


@dataclass(frozen=True)
class Coming:
    """What it takes a query to come to the others, in seconds: with its arrangements there, without, and alone."""

    query: str
    with_arrangements: float
    without: float
    from_scratch: float
    wrong: str
    """How the answer that it comes with differs from DuckDB's."""


@dataclass(frozen=True)
class BackfillInterference:
    """How long batches take the running queries, in order of length: while nothing comes, and while something does."""

    what: str
    there: bool
    """Has it come before the stream ended?"""
    alone: Sequence[float]
    beside: Sequence[float]


def plans(cells: Mapping[str, Cell], dataset: Dataset, work: Workload) -> dict[str, Collection]:
    return {name: plan_of(cell, dataset, work) for name, cell in cells.items()}


def load(  # noqa: PLR0913, PLR0917 (what is loaded, how, and how much memory it needs)
    chosen: Plans, dataset: Dataset, work: Workload, logical: int, physical: int, need: int = 0
) -> Load:
    """Load a stream into one dataflow of these queries."""
    resources.reset_peak()
    with closing(Dataflow(chosen)) as engine, closing(resources.PretouchedMemory(need)) as warm:
        seconds, tuples = 0.0, 0
        for batch in _taken(engine, dataset, work, logical, physical):
            warm.release()
            started = time.perf_counter()
            engine.push(batch)
            seconds += time.perf_counter() - started
            tuples += sum(len(each.time) for each in batch.values())
        return Load(seconds, tuples, engine.state_rows(), engine.state_bytes(), resources.peak())


def by_turns(  # noqa: PLR0913, PLR0917 (what is loaded, how, and how often)
    chosen: Plans, dataset: Dataset, work: Workload, logical: int, physical: int, runs: int
) -> Turns:
    """Load all together, then each alone, and so on."""

    def loaded(names: Sequence[str], need: int = 0) -> Load:
        return load({name: chosen[name] for name in names}, dataset, work, logical, physical, need)

    together, alone = loaded(list(chosen)), [loaded([name]) for name in chosen]
    timed_together, timed_alone = [], []
    for _ in range(runs):
        timed_together.append(loaded(list(chosen), together.state_bytes))
        timed_alone.append([loaded([name], each.state_bytes) for name, each in zip(chosen, alone, strict=True)])
    return Turns(together, alone, timed_together, timed_alone)


def sharing(chosen: Plans, dataset: Dataset, work: Workload) -> list[Shared]:
    """Name the arrangements that several queries read once all rows are there, the largest first."""
    with closing(_loaded(chosen, dataset, work)) as engine:
        found = [Shared(*each) for each in engine.sharing() if len(each[1]) > 1]
    return sorted(found, key=lambda each: -each.size)


def choices(chosen: Plans) -> list[tuple[str, Choice]]:
    """List what the planner weighed of arrangements that differ in their filters."""
    with closing(Dataflow(chosen)) as engine:
        return engine.choices()


def coming(cells: Mapping[str, Cell], dataset: Dataset, work: Workload) -> Iterator[Coming]:
    """Let each query come to all others: a second time, and when it had left."""
    chosen = plans(cells, dataset, work)
    with closing(_loaded(chosen, dataset, work)) as engine, closing(_oracle(cells, dataset, work)) as oracle:
        oracle.at(TIMES_PER_ROUND * work.rounds - 1)
        for name, plan in chosen.items():
            history, wrong = _history(plan, dataset, work), []
            again = _fastest(engine, f"{name} again", plan, history)
            engine.retire(name)
            anew = _fastest(engine, name, plan, history)
            for other in (name, f"{name} again"):
                snapshot = Snapshot(plan.schema)
                snapshot.add(engine.attach(other, plan, history=history))
                wrong.append(_difference(cells[name], snapshot, oracle))
            engine.retire(f"{name} again")
            yield Coming(name, again, anew, _from_scratch(plan, dataset, work), "".join(wrong))


def _fastest(
    engine: Dataflow[dict[str, Batch]], name: str, plan: Collection, history: Mapping[str, list[Batch]]
) -> float:
    found: list[float] = []
    while len(found) < MOST_RUNS and sum(found) < MEASURED:
        started = time.perf_counter()
        engine.attach(name, plan, history=history)
        found.append(time.perf_counter() - started)
        engine.retire(name)
    return min(found)


def _from_scratch(plan: Collection, dataset: Dataset, work: Workload) -> float:
    """Load all rows at once into a dataflow of its own; return the seconds of that and of making it."""
    started = time.perf_counter()
    with closing(Dataflow({"alone": plan})) as engine:
        made = time.perf_counter() - started
        for batch in _taken(engine, dataset, work, work.rounds, 1):
            started = time.perf_counter()
            engine.push(batch)
            made += time.perf_counter() - started
    return made


def backfill_interference(chosen: Plans, dataset: Dataset, work: Workload, fuel: int) -> Iterator[BackfillInterference]:
    """Load half of the stream, then go on in small batches, while large computations come bit by bit."""
    pairs = {"lines and their orders": ("lineitem", "orders", "orderkey"),
             "customers and suppliers of a nation": ("customer", "supplier", "nationkey")}  # fmt: skip
    with closing(Dataflow(chosen)) as engine:
        feed = Feed(dataset, work, _wanted(engine), logical=1)
        while feed.round < work.rounds // 2:
            engine.push(batches(feed.take(FORWARD_ROUNDS)))
        with closing(resources.PretouchedMemory(engine.state_bytes())) as warm:
            for what, (*sides, key) in pairs.items():
                left, right = (relation_source(dataset, relation(name).name, work) for name in sides)
                plan = left.select(key).join(right.select(key), on=key).count()
                wanted = {relation(name).name: (key,) for name in sides}
                history = batches(Feed(dataset, work, wanted, logical=feed.round).take(1))
                yield _interference(
                    engine, feed, warm, what, plan, {name: [each] for name, each in history.items()}, fuel
                )


def _interference(  # noqa: PLR0913, PLR0917 (who runs, what it is fed, and what comes)
    engine: Dataflow[dict[str, Batch]], feed: Feed, warm: resources.PretouchedMemory, what: str, plan: Collection,
    history: Mapping[str, list[Batch]], fuel: int,
) -> BackfillInterference:  # fmt: skip
    def timed(before: float = 0.0) -> float:
        batch = batches(feed.take(SMALL_BATCH))
        warm.release()
        started = time.perf_counter()
        engine.push(batch)
        return before + time.perf_counter() - started

    alone = [timed() for _ in range(SMALL_BATCHES)]
    started = time.perf_counter()
    engine.attach(what, plan, history=history, fuel=fuel)
    beside = [timed(time.perf_counter() - started)]
    while engine.pending and not feed.done:
        beside.append(timed())
    there = engine.pending is None
    engine.retire(what)
    return BackfillInterference(what, there, sorted(alone), sorted(beside))


def check(  # noqa: PLR0913, PLR0917 (what is loaded, how, and where it is looked at)
    cells: Mapping[str, Cell], dataset: Dataset, work: Workload, logical: int, physical: int, rounds: Sequence[int]
) -> str:
    """Compare all answers with DuckDB's after some numbers of rounds; return the first difference."""
    chosen = plans(cells, dataset, work)
    with closing(Dataflow(chosen)) as engine, closing(_oracle(cells, dataset, work)) as oracle:
        feed = Feed(dataset, work, _wanted(engine), logical=logical)
        snapshots = {name: Snapshot(each.schema) for name, each in chosen.items()}
        for stop in rounds:
            while not feed.done and feed.round < stop:
                taken = batches(feed.take(min(physical, -(-(stop - feed.round) // logical))))
                for name, changes in engine.feed(taken).items():
                    snapshots[name].add(changes)
            oracle.at(TIMES_PER_ROUND * min(feed.round, work.rounds) - 1)
            for name, cell in cells.items():
                wrong = _difference(cell, snapshots[name], oracle)
                if wrong:
                    return f"{name}, together with others, after {feed.round} rounds\n{wrong}"
    return ""


def _oracle(cells: Mapping[str, Cell], dataset: Dataset, work: Workload) -> Oracle:
    relations = sorted({name for each in cells for name in query(each).relations})
    text = " ".join(cell.sql for cell in cells.values())
    return Oracle(dataset, work, reads(text, tuple(relations)), 1)


def _difference(cell: Cell, snapshot: Snapshot, oracle: Oracle) -> str:
    return verify.difference(snapshot.answer(query(cell.query).order), oracle.answer(cell.sql))


def _taken(
    engine: Dataflow[dict[str, Batch]], dataset: Dataset, work: Workload, logical: int, physical: int
) -> Iterator[dict[str, Batch]]:
    feed = Feed(dataset, work, _wanted(engine), logical=logical)
    while not feed.done:
        yield batches(feed.take(physical))


def _loaded(chosen: Plans, dataset: Dataset, work: Workload) -> Dataflow[dict[str, Batch]]:
    engine = Dataflow(chosen)
    for batch in _taken(engine, dataset, work, work.rounds, 1):
        engine.push(batch)
    return engine


def _history(plan: Collection, dataset: Dataset, work: Workload) -> dict[str, list[Batch]]:
    """Return all rows of a stream that ends with the rows live that came."""
    with closing(Dataflow({"alone": plan})) as engine:
        wanted = _wanted(engine)
    return {name: [each] for name, each in batches(Feed(dataset, work, wanted, logical=work.rounds).take(1)).items()}


def _wanted(engine: Dataflow[dict[str, Batch]]) -> dict[RelationName, tuple[str, ...]]:
    return {relation(name).name: columns for name, columns in engine.inputs.items()}
