"""All queries in one dataflow, measured beside the same queries alone; how one comes while the others run.

Everything is measured in this process, by turns, over batches that are cut before and not timed. The memory that a
timed run needs has been touched before: see `usage.Warm`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from dataflow.collection import Collection
from dataflow.together import Together
from dataflow.worker import Batch
from datagen.dataset import Dataset
from datagen.feed import TIMES_A_ROUND, Feed
from datagen.schema import RelationName, relation
from datagen.workload import Workload
from harness import usage, verify
from harness.cell import Cell
from harness.duck import reads
from harness.engines import collection
from harness.oracle import Oracle
from harness.snapshot import Snapshot
from harness.sources import batches
from queries.catalogue import query

Plans = Mapping[str, Collection]

MEASURED = 0.2
"""Seconds: attaching is repeated until it has taken so long, or so often."""
MOST_RUNS = 5


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


def plans(cells: Mapping[str, Cell], dataset: Dataset, work: Workload) -> dict[str, Collection]:
    return {name: collection(cell, dataset, work) for name, cell in cells.items()}


def load(  # noqa: PLR0913, PLR0917 (what is loaded, how, and how much memory it needs)
    chosen: Plans, dataset: Dataset, work: Workload, logical: int, physical: int, need: int = 0
) -> Load:
    """Load a stream into one dataflow of these queries."""
    usage.reset_peak()
    with closing(Together(chosen)) as engine, closing(usage.Warm(need)) as warm:
        seconds, tuples = 0.0, 0
        for batch in _taken(engine, dataset, work, logical, physical):
            warm.give()
            started = time.perf_counter()
            engine.push_all(batch)
            seconds += time.perf_counter() - started
            tuples += sum(len(each.time) for each in batch.values())
        return Load(seconds, tuples, engine.state_rows(), engine.state_bytes(), usage.peak())


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


def coming(chosen: Plans, dataset: Dataset, work: Workload) -> Iterator[Coming]:
    """Let each query come to all others: a second time, and when it had left."""
    with closing(_loaded(chosen, dataset, work)) as engine:
        for name, plan in chosen.items():
            history = _history(plan, dataset, work)
            again = _fastest(engine, f"{name} again", plan, history)
            engine.retire(name)
            anew = _fastest(engine, name, plan, history)
            engine.attach(name, plan, history)
            yield Coming(name, again, anew, _from_scratch(plan, dataset, work))


def _fastest(engine: Together, name: str, plan: Collection, history: Mapping[str, list[Batch]]) -> float:
    found: list[float] = []
    while len(found) < MOST_RUNS and sum(found) < MEASURED:
        started = time.perf_counter()
        engine.attach(name, plan, history)
        found.append(time.perf_counter() - started)
        engine.retire(name)
    return min(found)


def _from_scratch(plan: Collection, dataset: Dataset, work: Workload) -> float:
    """Load all rows at once into a dataflow of its own; return the seconds of that and of making it."""
    started = time.perf_counter()
    with closing(Together({"alone": plan})) as engine:
        made = time.perf_counter() - started
        for batch in _taken(engine, dataset, work, work.rounds, 1):
            started = time.perf_counter()
            engine.push_all(batch)
            made += time.perf_counter() - started
    return made


def check(  # noqa: PLR0913, PLR0917 (what is loaded, how, and where it is looked at)
    cells: Mapping[str, Cell], dataset: Dataset, work: Workload, logical: int, physical: int, rounds: Sequence[int]
) -> str:
    """Compare all answers with DuckDB's after some numbers of rounds; return the first difference."""
    chosen = plans(cells, dataset, work)
    relations = sorted({name for each in cells for name in query(each).relations})
    text = " ".join(cell.sql for cell in cells.values())
    with (
        closing(Together(chosen)) as engine,
        closing(Oracle(dataset, work, reads(text, tuple(relations)), 1)) as oracle,
    ):
        feed = Feed(dataset, work, _wanted(engine), logical=logical)
        snapshots = {name: Snapshot(each.schema) for name, each in chosen.items()}
        for stop in rounds:
            while not feed.done and feed.round < stop:
                taken = batches(feed.take(min(physical, -(-(stop - feed.round) // logical))))
                for name, changes in engine.feed_all(taken).items():
                    snapshots[name].add(changes)
            oracle.at(TIMES_A_ROUND * min(feed.round, work.rounds) - 1)
            for name, cell in cells.items():
                wrong = verify.difference(snapshots[name].answer(query(name).order), oracle.answer(cell.sql))
                if wrong:
                    return f"{name}, together with others, after {feed.round} rounds\n{wrong}"
    return ""


def _taken(
    engine: Together, dataset: Dataset, work: Workload, logical: int, physical: int
) -> Iterator[dict[str, Batch]]:
    feed = Feed(dataset, work, _wanted(engine), logical=logical)
    while not feed.done:
        yield batches(feed.take(physical))


def _loaded(chosen: Plans, dataset: Dataset, work: Workload) -> Together:
    engine = Together(chosen)
    for batch in _taken(engine, dataset, work, work.rounds, 1):
        engine.push_all(batch)
    return engine


def _history(plan: Collection, dataset: Dataset, work: Workload) -> dict[str, list[Batch]]:
    """Return all rows of a stream that ends with the rows live that came."""
    with closing(Together({"alone": plan})) as engine:
        wanted = _wanted(engine)
    return {name: [each] for name, each in batches(Feed(dataset, work, wanted, logical=work.rounds).take(1)).items()}


def _wanted(engine: Together) -> dict[RelationName, tuple[str, ...]]:
    return {relation(name).name: columns for name, columns in engine.inputs.items()}
