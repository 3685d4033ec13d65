"""Measurements of loads: several queries in one dataflow beside the same queries alone, and what they share.

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
from deltamark.dataflow.plan.sharing import Choice
from deltamark.dataflow.runtime.multi_dataflow import Together
from deltamark.datagen.dataset import Dataset
from deltamark.datagen.feed import TIMES_A_ROUND, Feed
from deltamark.datagen.schema import RelationName, relation
from deltamark.datagen.workload import Workload
from deltamark.harness.check import verify
from deltamark.harness.check.oracle import Oracle
from deltamark.harness.check.snapshot import Snapshot
from deltamark.harness.engines.duckdb_tables import reads
from deltamark.harness.engines.embedded import collection
from deltamark.harness.engines.inputs import batches
from deltamark.harness.measure import resources
from deltamark.harness.measure.cell import Cell
from deltamark.queries.catalogue import query

Plans = Mapping[str, Collection]


@dataclass(frozen=True)
class Loaded:
    """A whole stream, loaded: seconds, tuples fed, the state at its end, and the peak memory of the process."""

    seconds: float
    tuples: int
    state_rows: int
    state_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class AlternateLoads:
    """Loads of all queries together and of each alone: first untimed ones for their memory, then timed ones."""

    together: Loaded
    alone: Sequence[Loaded]
    timed_together: Sequence[Loaded]
    timed_alone: Sequence[Sequence[Loaded]]


@dataclass(frozen=True)
class SharedArrangement:
    """An arrangement that several queries read."""

    name: str
    queries: Sequence[str]
    rows: int
    size: int


def plans(cells: Mapping[str, Cell], dataset: Dataset, work: Workload) -> dict[str, Collection]:
    return {name: collection(cell, dataset, work) for name, cell in cells.items()}


def load(  # noqa: PLR0913, PLR0917 (the stream, its batching, and the memory to touch before)
    by_name: Plans, dataset: Dataset, work: Workload, logical: int, physical: int, touched_bytes: int = 0
) -> Loaded:
    """Load a stream into one dataflow of all queries."""
    resources.reset_peak()
    with closing(Together(by_name)) as engine, closing(resources.Warm(touched_bytes)) as warm:
        seconds, tuples = 0.0, 0
        for batch in taken(engine, dataset, work, logical, physical):
            warm.give()
            started = time.perf_counter()
            engine.push_all(batch)
            seconds += time.perf_counter() - started
            tuples += sum(len(each.time) for each in batch.values())
        return Loaded(seconds, tuples, engine.state_rows(), engine.state_bytes(), resources.peak())


def alternate(  # noqa: PLR0913, PLR0917 (the stream, its batching, and the number of runs)
    by_name: Plans, dataset: Dataset, work: Workload, logical: int, physical: int, runs: int
) -> AlternateLoads:
    """Load all queries together, then each alone, and so on."""

    def load_of(names: Sequence[str], touched_bytes: int = 0) -> Loaded:
        return load({name: by_name[name] for name in names}, dataset, work, logical, physical, touched_bytes)

    together, alone = load_of(list(by_name)), [load_of([name]) for name in by_name]
    timed_together, timed_alone = [], []
    for _ in range(runs):
        timed_together.append(load_of(list(by_name), together.state_bytes))
        timed_alone.append([load_of([name], each.state_bytes) for name, each in zip(by_name, alone, strict=True)])
    return AlternateLoads(together, alone, timed_together, timed_alone)


def shared_arrangements(by_name: Plans, dataset: Dataset, work: Workload) -> list[SharedArrangement]:
    """List the arrangements that several queries read after all rows were loaded, the largest first."""
    with closing(loaded(by_name, dataset, work)) as engine:
        shared = [SharedArrangement(*each) for each in engine.sharing() if len(each[1]) > 1]
    return sorted(shared, key=lambda each: -each.size)


def choices(by_name: Plans) -> list[tuple[str, Choice]]:
    """List the planner's decisions about arrangements that differ in their filters."""
    with closing(Together(by_name)) as engine:
        return engine.choices()


def check(  # noqa: PLR0913, PLR0917 (the stream, its batching, and the rounds to compare at)
    cells: Mapping[str, Cell], dataset: Dataset, work: Workload, logical: int, physical: int, rounds: Sequence[int]
) -> str:
    """Compare all answers with DuckDB's after some numbers of rounds; return the first difference."""
    by_name = plans(cells, dataset, work)
    with closing(Together(by_name)) as engine, closing(oracle_of(cells, dataset, work)) as oracle:
        feed = Feed(dataset, work, input_columns(engine), logical=logical)
        snapshots = {name: Snapshot(each.schema) for name, each in by_name.items()}
        for stop in rounds:
            while not feed.done and feed.round < stop:
                batch = batches(feed.take(min(physical, -(-(stop - feed.round) // logical))))
                for name, changes in engine.feed_all(batch).items():
                    snapshots[name].add(changes)
            oracle.at(TIMES_A_ROUND * min(feed.round, work.rounds) - 1)
            for name, cell in cells.items():
                wrong = difference(cell, snapshots[name], oracle)
                if wrong:
                    return f"{name}, together with others, after {feed.round} rounds\n{wrong}"
    return ""


def oracle_of(cells: Mapping[str, Cell], dataset: Dataset, work: Workload) -> Oracle:
    relations = sorted({name for each in cells for name in query(each).relations})
    text = " ".join(cell.sql for cell in cells.values())
    return Oracle(dataset, work, reads(text, tuple(relations)), 1)


def difference(cell: Cell, snapshot: Snapshot, oracle: Oracle) -> str:
    return verify.difference(snapshot.answer(query(cell.query).order), oracle.answer(cell.sql))


def taken(
    engine: Together, dataset: Dataset, work: Workload, logical: int, physical: int
) -> Iterator[dict[str, Batch]]:
    """Yield the stream in batches of the columns that a dataflow reads."""
    feed = Feed(dataset, work, input_columns(engine), logical=logical)
    while not feed.done:
        yield batches(feed.take(physical))


def loaded(by_name: Plans, dataset: Dataset, work: Workload) -> Together:
    """Return a dataflow with all rows loaded."""
    engine = Together(by_name)
    for batch in taken(engine, dataset, work, work.rounds, 1):
        engine.push_all(batch)
    return engine


def input_columns(engine: Together) -> dict[RelationName, tuple[str, ...]]:
    return {relation(name).name: columns for name, columns in engine.inputs.items()}
